//! Codes of prizes: how many are left, which ones, and imports of more.

use axum::{
    extract::{Path, Query},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use tonic::Status;

use super::{Tab, acts, campaign::is_over, definition, head, prize_name, refused::given, status};
use crate::{
    console::{
        i18n::Language,
        layout::Place,
        ui::{self, number},
        upload::{self, Upload},
        visit::{Contents, Visit, http_status},
    },
    model::code::{self, CALL_BYTES_MAX, IMPORTED_CODES_MAX},
    proto::{
        CampaignStatus, GetStatsRequest, GetStatsResponse, ImportCodesRequest, ListCodesRequest,
        PrizeStats,
    },
};

/// Codes on a page.
const PAGE_SIZE: u32 = 100;
/// Wrong lines that a page names.
const SHOWN_MAX: usize = 20;

/// Which codes.
#[derive(Debug, Default, Deserialize)]
pub(in crate::console) struct Asked {
    /// The prize whose codes are listed; empty: none.
    #[serde(default)]
    prize: String,
    #[serde(default)]
    page: String,
    done: Option<String>,
}

fn address(id: &str) -> String {
    format!("/campaigns/{}/codes", ui::encoded(id))
}

/// The page.
pub(in crate::console) async fn page(
    visit: Visit,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let contents = codes(&visit, &id, &asked).await;
    visit.page(Place::Campaigns, &id, contents)
}

async fn codes(visit: &Visit, id: &str, asked: &Asked) -> Contents {
    let lang = visit.language;
    let status = status(visit, id).await?;
    let request = GetStatsRequest {
        campaign_id: id.into(),
    };
    let stats = visit.campaigns().get_stats(request).await?.into_inner();
    let unused = match asked.prize.as_str() {
        "" => None,
        _ => Some(visit.section(unused(visit, id, asked).await)),
    };
    Ok(html! {
        (head(visit, &status, Tab::Codes))
        @if let Some(done) = ui::done(lang, asked.done.as_deref()) { (done) }
        (prizes(visit, &status, &stats))
        @if let Some(unused) = unused {
            section.card { h2 { (lang.with("codes.unused", &asked.prize)) } (unused) }
        }
    })
}

fn prizes(visit: &Visit, status: &CampaignStatus, stats: &GetStatsResponse) -> Markup {
    let lang = visit.language;
    let (campaign, _) = definition(status);
    let has_codes = |prize: &&PrizeStats| {
        let mut prizes = campaign.prizes.iter();
        prizes.any(|known| known.id == prize.prize_id && known.codes)
    };
    let prizes: Vec<_> = stats.prizes.iter().filter(has_codes).collect();
    let path = address(&campaign.id);
    if prizes.is_empty() {
        let edit = format!("/campaigns/{}/edit", campaign.id);
        return ui::empty(&html! {
            p { strong { (lang.t("codes.no-prizes")) } }
            @if !is_over(status) {
                p { (lang.t("codes.begin")) }
                p { a.button href=(edit) { (lang.t("new.edit-link")) } }
            }
        });
    }
    html! {
        section.card {
            h2 { (lang.t("codes.title")) }
            (ui::scroll(lang.t("codes.title"), &html! { table {
                thead { tr {
                    th scope="col" { (lang.t("units.prize")) }
                    th.n scope="col" { (lang.t("codes.imported")) }
                    th.n scope="col" { (lang.t("codes.left")) }
                    th scope="col" { (lang.t("codes.code")) }
                } }
                tbody { @for prize in &prizes { tr {
                    th scope="row" { (prize_name(&campaign, &prize.prize_id)) }
                    td.n { (number(prize.stock)) }
                    td.n { (number(prize.codes_left)) }
                    td {
                        a href=(ui::address(&path, &[("prize", &prize.prize_id)])) {
                            (lang.t("codes.show")) span.hidden { ": " (prize.prize_id) }
                        }
                    }
                } } }
            } }))
        }
        @if !is_over(status) { @for prize in &prizes {
            section.card {
                h2 { (lang.t("codes.import")) ": " (prize_name(&campaign, &prize.prize_id)) }
                p.hint { (lang.t("codes.import-hint")) }
                (form(lang, &campaign.id, &prize.prize_id, &Filled::empty(prize.stock)))
            }
        } }
    }
}

/// What the fields of an import have.
struct Filled<'a> {
    /// How many codes the prize had when the form was made.
    first: u64,
    codes: &'a str,
    reason: &'a str,
}

impl Filled<'_> {
    fn empty(first: u64) -> Self {
        Self {
            first,
            codes: "",
            reason: "",
        }
    }
}

/// The form that imports codes of a prize.
fn form(lang: Language, campaign: &str, prize: &str, filled: &Filled<'_>) -> Markup {
    let action = format!("{}/{}", address(campaign), ui::encoded(prize));
    html! {
        form method="post" enctype="multipart/form-data" action=(action) {
            input type="hidden" name="first" value=(filled.first);
            div.line {
                // Browsers leave out a line break right after the tag.
                label.wide { (lang.t("codes.text"))
                    textarea name="codes" rows="4" { "\n" (filled.codes) }
                }
            }
            div.line {
                label { (lang.t("codes.file"))
                    input type="file" name="file" accept="text/plain,.txt,.csv";
                }
                label { (lang.t("form.reason"))
                    input name="reason" maxlength="1024" value=(filled.reason);
                }
                button type="submit" { (lang.t("codes.import")) }
            }
        }
    }
}

/// Codes that nobody has won.
async fn unused(visit: &Visit, id: &str, asked: &Asked) -> Contents {
    let lang = visit.language;
    let request = ListCodesRequest {
        campaign_id: id.into(),
        prize_id: asked.prize.clone(),
        page_size: PAGE_SIZE,
        page_token: asked.page.clone(),
    };
    let list = visit.campaigns().list_codes(request).await?.into_inner();
    let query = [("prize", asked.prize.as_str())];
    Ok(html! {
        @if list.codes.is_empty() { (ui::empty(&html! { p { (lang.t("codes.none")) } })) }
        @else {
            (ui::scroll(lang.t("codes.code"), &html! { table {
                thead { tr {
                    th.n scope="col" { (lang.t("codes.index")) }
                    th scope="col" { (lang.t("codes.code")) }
                } }
                tbody { @for code in &list.codes { tr {
                    td.n { (number(code.index)) }
                    td { code { (code.code) } }
                } } }
            } }))
        }
        (ui::next(lang, &address(id), &query, &list.next_page_token))
    })
}

/// Imports the codes of a form, in calls of bounded size. `first` is how many the prize had when
/// the form was made, so that a form that is sent twice imports its codes once.
pub(in crate::console) async fn import(
    visit: Visit,
    Path((id, prize)): Path<(String, String)>,
    upload: Upload,
) -> Response {
    let back = address(&id);
    let given = match given(&visit, upload, &back) {
        Ok(given) => given,
        Err(page) => return *page,
    };
    let (typed, file) = (given.text("codes"), given.text("file"));
    let has_file = typed.trim().is_empty();
    let text = if has_file { file } else { typed };
    let filled = Filled {
        first: given.text("first").parse().unwrap_or_default(),
        codes: text,
        reason: given.text("reason"),
    };
    let lines: Vec<_> = upload::lines(text).collect();
    let wrong = match has_file || file.is_empty() {
        true => wrong(visit.language, &lines),
        false => Some(html! { (visit.language.t("codes.one-of")) }),
    };
    if let Some(wrong) = wrong {
        let why = ui::notice("bad", &wrong);
        return again(
            &visit,
            (&id, &prize),
            StatusCode::BAD_REQUEST,
            &why,
            &filled,
        );
    }
    match import_all(&visit, (&id, &prize), &filled, &lines).await {
        Ok(()) => acts::gone_to(&back, "codes-imported"),
        Err(page) => *page,
    }
}

/// What is wrong with the lines; none if each is a code.
fn wrong(lang: Language, lines: &[(usize, &str)]) -> Option<Markup> {
    if lines.is_empty() {
        return Some(html! { (lang.t("codes.empty")) });
    }
    let problems = lines.iter().filter_map(|(no, line)| {
        let problem = code::check(line).err()?;
        Some((*no, problem))
    });
    let problems: Vec<_> = problems.take(SHOWN_MAX).collect();
    (!problems.is_empty()).then(|| {
        html! { ul.plain { @for (no, problem) in &problems { li {
            (lang.with("codes.line", &no.to_string())) " " span lang="en" { (problem) }
        } } } }
    })
}

/// Imports all lines; else gives the page that says why, with a form that has those that are not
/// imported.
async fn import_all(
    visit: &Visit,
    (id, prize): (&str, &str),
    filled: &Filled<'_>,
    lines: &[(usize, &str)],
) -> Result<(), Box<Response>> {
    let mut request = ImportCodesRequest {
        campaign_id: id.into(),
        prize_id: prize.into(),
        first: filled.first,
        operator: visit.operator(),
        reason: filled.reason.into(),
        ..ImportCodesRequest::default()
    };
    let mut sent = 0;
    for part in parts(lines) {
        request.codes = part.iter().map(|(_, code)| (*code).to_owned()).collect();
        let result = visit.campaigns().import_codes(request.clone()).await;
        if let Err(status) = result {
            let rest = lines.get(sent..).unwrap_or_default();
            let rest: Vec<_> = rest.iter().map(|(_, code)| *code).collect();
            let rest = Filled {
                first: request.first,
                codes: &rest.join("\n"),
                reason: filled.reason,
            };
            let rest = if sent == 0 { filled } else { &rest };
            let why = stopped(visit, &status, part, sent);
            let page = again(visit, (id, prize), http_status(&status), &why, rest);
            return Err(Box::new(page));
        }
        request.first += part.len() as u64;
        sent += part.len();
    }
    Ok(())
}

/// The page that says why codes are not imported, with the form as it was sent.
fn again(
    visit: &Visit,
    (id, prize): (&str, &str),
    status: StatusCode,
    why: &Markup,
    filled: &Filled<'_>,
) -> Response {
    let lang = visit.language;
    let contents = html! {
        h1 { (lang.t("error.title")) }
        (why)
        (form(lang, id, prize, filled))
        p { a href=(address(id)) { (lang.t("form.back")) } }
    };
    let page = visit.page(Place::Campaigns, lang.t("error.title"), Ok(contents));
    (status, page).into_response()
}

/// Lines in parts that fit into a call.
fn parts<'a>(
    mut lines: &'a [(usize, &'a str)],
) -> impl Iterator<Item = &'a [(usize, &'a str)]> + use<'a> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = lines
            .iter()
            .take(IMPORTED_CODES_MAX)
            .take_while(|(_, code)| {
                bytes += code.len();
                bytes <= CALL_BYTES_MAX
            });
        let (part, rest) = lines.split_at_checked(fitting.count().max(1))?;
        lines = rest;
        Some(part)
    })
}

/// Why an import stopped after some of its codes. The form that follows has the rest, so lines are
/// counted in it.
fn stopped(visit: &Visit, status: &Status, part: &[(usize, &str)], sent: usize) -> Markup {
    let lang = visit.language;
    let line = |index: usize| {
        let line = match sent {
            0 => part.get(index).map_or(0, |(no, _)| *no),
            _ => index + 1,
        };
        lang.with("codes.line", &line.to_string())
    };
    let message = code::with_places(status.message(), line);
    let shown = Status::with_details(status.code(), message, status.details().to_vec().into());
    html! {
        (visit.trouble(&shown))
        @if sent > 0 {
            (ui::notice("warn", &html! { (lang.with("codes.partly", &number(sent as u64))) }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_fits_into_a_call() {
        let code = "x".repeat(255);
        let many: Vec<_> = (1..=25_000).map(|no| (no, "x")).collect();
        let sizes: Vec<_> = parts(&many).map(<[_]>::len).collect();
        assert_eq!(sizes, [10_000, 10_000, 5_000]);
        let long: Vec<_> = (1..=5_000).map(|no| (no, code.as_str())).collect();
        let parts: Vec<_> = parts(&long).collect();
        assert!(parts.iter().all(|part| part.len() * 255 <= CALL_BYTES_MAX));
        assert_eq!(parts.concat(), long);
    }
}
