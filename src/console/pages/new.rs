//! A new campaign, or another version of one, as a file: checked while it is typed, tried by a dry
//! run of the service, then applied.

use axum::{
    Form,
    extract::{Path, Query},
    http::HeaderMap,
    response::{IntoResponse as _, Redirect, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use maud::{Markup, html};
use sha2::{Digest as _, Sha256};
use tonic::Status;

use super::{
    fields::Fields,
    forecast,
    prizes::planned_stock,
    problems,
    proposals::{self, Wanted},
    status,
    templates::{self, TEMPLATES, template},
};
use crate::{
    console::{
        compute::{NotComputed, compute},
        i18n::Language,
        layout::Place,
        ui::{self, number},
        visit::{Contents, Visit, reason},
    },
    model::{
        Problems,
        convert::{shown_money, unstocked_from_proto},
        file,
    },
    proto::{
        ApplyCampaignRequest, ApplyCampaignResponse, Campaign, Change, PlanSummary,
        propose_change_request::Change as Proposed,
    },
};

/// Differences that are shown.
const CHANGES_MAX: usize = 200;

/// The path of the editor's form.
const FORM: &str = "/new";
/// The path where a file is checked while it is typed.
pub(in crate::console) const CHECK: &str = "/new/check";

/// Whether a campaign file is sent to this path.
pub(in crate::console) fn takes_file(path: &str) -> bool {
    [FORM, CHECK].contains(&path)
}

/// What the page says if the session has ended. What was typed or painted is only in this page.
pub(in crate::console) fn ended(lang: Language) -> Markup {
    html! {
        (lang.t("new.ended")) " "
        a href="/sign-in" target="_blank" rel="noopener" { (lang.t("new.sign-in")) }
    }
}

/// What the editor shows.
struct Sheet<'a> {
    text: &'a str,
    /// The version that is changed; 0 for a new campaign.
    base: u32,
    reason: &'a str,
}

/// Templates, and the editor with one of them.
pub(in crate::console) async fn page(visit: Visit, Query(fields): Query<Fields>) -> Response {
    let lang = visit.language;
    let now = templates::now(&visit).await;
    let text = template(fields.get("template"), now).unwrap_or_default();
    let sheet = Sheet {
        text: &text,
        base: 0,
        reason: "",
    };
    let contents = html! {
        h1 { (lang.t("new.title")) }
        (templates(lang, fields.get("template")))
        (editor(lang, &sheet, &html! {}))
    };
    visit.page(Place::Campaigns, lang.t("new.title"), Ok(contents))
}

/// The editor with the version in force of a campaign.
pub(in crate::console) async fn edit(visit: Visit, Path(id): Path<String>) -> Response {
    let lang = visit.language;
    let contents = status(&visit, &id).await.map(|status| {
        let text = file::to_yaml(&status.campaign.unwrap_or_default());
        let sheet = Sheet {
            text: &text,
            base: status.version,
            reason: "",
        };
        html! {
            h1 { (lang.with("new.edit", &id)) }
            p { a href={ "/campaigns/" (id) } { (lang.t("new.back")) } }
            (editor(lang, &sheet, &html! {}))
        }
    });
    let title = lang.with("new.edit", &id);
    visit.page(Place::Campaigns, &title, contents)
}

/// Tries, plays through, or applies what was typed.
pub(in crate::console) async fn submit(
    visit: Visit,
    headers: HeaderMap,
    Form(fields): Form<Fields>,
) -> Response {
    let lang = visit.language;
    let text = text_of(&fields);
    let sheet = Sheet {
        text: &text,
        base: fields.parsed("base").unwrap_or(0),
        reason: fields.get("reason"),
    };
    let is_tried = fields.get("tried") == mark(&text);
    let is_applied = fields.get("do") == "apply" && is_tried;
    let request_id = fields.get("request_id");
    let shown = match parsed(&text).await {
        // It was right when it was tried, so it could not be checked again.
        Err(found) if is_applied => html! {
            (problems::list(lang, &found))
            section.card #tried { (confirmation(lang, &sheet, request_id)) }
        },
        Err(found) => html! { (problems::list(lang, &found)) (kept_reason(&sheet)) },
        Ok(campaign) => {
            if is_applied {
                match apply(&visit, &campaign, &sheet, request_id).await {
                    Ok(()) => {
                        let page = format!("/campaigns/{}", campaign.id);
                        return gone_to(&headers, ui::address(&page, &[("done", "applied")]));
                    }
                    Err(status) if proposals::is_needed(&status) => {
                        let wanted = Wanted {
                            campaign: campaign.id.clone(),
                            change: Proposed::Campaign(campaign),
                            base: Some(sheet.base),
                            request_id: request_id.into(),
                            reason: sheet.reason.into(),
                        };
                        match proposals::send(&visit, wanted).await {
                            Ok(address) => {
                                return gone_to(&headers, format!("{address}?done=proposed"));
                            }
                            Err(status) => unapplied(&visit, &status, &sheet, request_id),
                        }
                    }
                    Err(status) => unapplied(&visit, &status, &sheet, request_id),
                }
            } else {
                tried(&visit, campaign, &sheet, &fields).await
            }
        }
    };
    let title = match sheet.base {
        0 => lang.t("new.title"),
        _ => lang.t("new.edit-title"),
    };
    let contents: Contents = Ok(html! { h1 { (title) } (editor(lang, &sheet, &shown)) });
    visit.page(Place::Campaigns, title, contents)
}

/// Sends the browser to another page. htmx would show that at the address of this one.
pub(super) fn gone_to(headers: &HeaderMap, target: String) -> Response {
    match headers.contains_key("hx-request") {
        true => [("hx-redirect", target)].into_response(),
        false => Redirect::to(&target).into_response(),
    }
}

/// The problems of what is typed: a part of the page.
pub(in crate::console) async fn check(visit: Visit, Form(fields): Form<Fields>) -> Response {
    checked(visit.language, parsed(&text_of(&fields)).await).into_response()
}

fn checked(lang: Language, parsed: Result<Campaign, Problems>) -> Markup {
    match parsed {
        Ok(campaign) => {
            let text = lang.with("new.right", &campaign.id);
            ui::notice("good", &html! { (text) })
        }
        Err(found) => problems::list(lang, &found),
    }
}

/// The text as it was typed: forms have other ends of lines.
fn text_of(fields: &Fields) -> String {
    let text = fields.all("yaml").next().unwrap_or_default();
    text.replace("\r\n", "\n")
}

/// What a form says that this text was tried.
fn mark(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}

/// The campaign of a file, which is right by all that can be checked without a service.
async fn parsed(text: &str) -> Result<Campaign, Problems> {
    let text = text.to_owned();
    let why = match compute(move || file::check_one(&text)).await {
        Ok(checked) => return checked,
        Err(NotComputed::Busy) => "is not checked, since many others are: try again",
        Err(NotComputed::Broken) => "cannot be checked: the log of the server says why",
    };
    let mut problems = Problems::default();
    problems.add("file", why);
    Err(problems)
}

async fn send(
    visit: &Visit,
    campaign: &Campaign,
    sheet: &Sheet<'_>,
    dry_run: bool,
    request_id: &str,
) -> Result<ApplyCampaignResponse, Status> {
    let request = ApplyCampaignRequest {
        campaign: Some(campaign.clone()),
        base_version: sheet.base,
        dry_run,
        request_id: request_id.into(),
        operator: visit.operator(),
        reason: sheet.reason.into(),
    };
    Ok(visit
        .campaigns()
        .apply_campaign(request)
        .await?
        .into_inner())
}

async fn apply(
    visit: &Visit,
    campaign: &Campaign,
    sheet: &Sheet<'_>,
    request_id: &str,
) -> Result<(), Status> {
    send(visit, campaign, sheet, false, request_id)
        .await
        .map(drop)
}

/// Why the service refuses it.
fn refused(visit: &Visit, status: &Status) -> Markup {
    let is_stale = reason(status) == "VERSION_STALE";
    html! {
        (problems::of_status(visit, status))
        @if is_stale { p { (visit.language.t("new.stale")) } }
    }
}

/// Why the service does not apply it, and the form to send it again. The form keeps its request id:
/// the text is applied once, even if the service did so and its answer was lost.
fn unapplied(visit: &Visit, status: &Status, sheet: &Sheet<'_>, request_id: &str) -> Markup {
    // The same form would be refused for ever.
    let is_of_no_use = reason(status) == "VERSION_STALE";
    html! {
        (refused(visit, status))
        @if !is_of_no_use {
            section.card #tried { (confirmation(visit.language, sheet, request_id)) }
        }
    }
}

/// What applies the text that was tried: a reason and a button. A form that is sent twice applies
/// once.
fn confirmation(lang: Language, sheet: &Sheet<'_>, request_id: &str) -> Markup {
    html! {
        input type="hidden" name="tried" value=(mark(sheet.text));
        input type="hidden" name="request_id" value=(request_id);
        div.line {
            label { (lang.t("form.reason"))
                input #new-reason name="reason" maxlength="1024" value=(sheet.reason);
            }
            button.primary #new-apply name="do" value="apply" type="submit" {
                (lang.t("new.apply"))
            }
        }
    }
}

/// The reason that was typed, for the next dry run, if there is nothing to apply now.
fn kept_reason(sheet: &Sheet<'_>) -> Markup {
    html! {
        @if !sheet.reason.is_empty() {
            input type="hidden" name="reason" value=(sheet.reason);
        }
    }
}

/// What a dry run says, with the forecast if it is wanted, and the way to apply it.
async fn tried(visit: &Visit, campaign: Campaign, sheet: &Sheet<'_>, fields: &Fields) -> Markup {
    let lang = visit.language;
    let response = match send(visit, &campaign, sheet, true, "").await {
        Ok(response) => response,
        Err(status) => return html! { (refused(visit, &status)) (kept_reason(sheet)) },
    };
    let forecast = match fields.get("do") {
        "forecast" => played(visit, campaign, fields).await,
        _ => html! {},
    };
    let plan = response.plan.clone().unwrap_or_default();
    let request = format!("console-{:016x}", rand::random::<u64>());
    html! {
        section.card #tried {
            h2 { (lang.t("new.tried")) }
            p.hint { (lang.t("plan.dry-run")) }
            @if sheet.base > 0 { (changes(lang, sheet.base, &response.changes)) }
            (sums(lang, &plan))
            (decks(lang, &plan))
            (confirmation(lang, sheet, &request))
        }
        section.card #forecast {
            h2 { (lang.t("forecast.title")) }
            p.hint { (lang.t("forecast.hint")) }
            div.line {
                (forecast::inputs(lang, fields))
                button #forecast-run name="do" value="forecast" type="submit" {
                    (lang.t("forecast.run"))
                }
            }
        }
        (forecast)
    }
}

/// The forecast of a campaign, or why there is none.
async fn played(visit: &Visit, campaign: Campaign, fields: &Fields) -> Markup {
    match compute(move || unstocked_from_proto(&campaign)).await {
        Ok(Ok(campaign)) => forecast::run(visit, campaign, fields).await,
        // The dry run has just found it right.
        Ok(Err(_)) => html! {},
        Err(why) => visit.trouble(&Status::from(why)),
    }
}

/// What differs from the version in force.
fn changes(lang: Language, base: u32, changes: &[Change]) -> Markup {
    html! {
        h3 { (lang.with("new.changes", &base.to_string())) }
        @if changes.is_empty() { p { (lang.t("new.no-changes")) } }
        @else {
            (ui::scroll(lang.t("new.differences"), &html! { table {
                thead { tr {
                    th scope="col" { (lang.t("new.where")) }
                    th scope="col" { (lang.t("plan.before")) }
                    th scope="col" { (lang.t("plan.after")) }
                } }
                tbody { @for change in changes.iter().take(CHANGES_MAX) { tr {
                    th scope="row" { code { (change.path) } }
                    td { @if change.before.is_empty() { "–" } @else { code { (change.before) } } }
                    td { @if change.after.is_empty() { "–" } @else { code { (change.after) } } }
                } } }
            } }))
            @if changes.len() > CHANGES_MAX {
                p.hint { (lang.with("list.others", &number((changes.len() - CHANGES_MAX) as u64))) }
            }
        }
    }
}

/// What each prize needs, and what it is worth.
pub(super) fn sums(lang: Language, plan: &PlanSummary) -> Markup {
    html! {
        h3 { (lang.t("plan.sums")) }
        (ui::scroll(lang.t("plan.sums"), &html! { table {
            thead { tr {
                th scope="col" { (lang.t("units.prize")) }
                th.n scope="col" { (lang.t("plan.needed")) }
                th.n scope="col" { (lang.t("units.stock")) }
                th.n scope="col" { (lang.t("plan.value")) }
            } }
            tbody { @for prize in &plan.prizes { tr {
                th scope="row" { (prize.prize_id) }
                td.n { (number(prize.planned)) }
                td.n { (planned_stock(lang, prize)) }
                td.n { (shown_money(prize.planned_value.as_ref())) }
            } } }
        } }))
    }
}

/// How far stock brings each deck.
pub(super) fn decks(lang: Language, plan: &PlanSummary) -> Markup {
    html! {
        @if !plan.decks.is_empty() {
            h3 { (lang.t("deck.title")) }
            ul { @for deck in &plan.decks {
                li {
                    (deck.pool_id) ": "
                    (lang.with("new.cards", &number(deck.size)))
                    // Otherwise it ends by itself, or has always enough.
                    @if !deck.lacking.is_empty() {
                        " · " (lang.with("new.rounds", &number(deck.rounds)))
                    }
                }
            } }
        }
    }
}

fn templates(lang: Language, chosen: &str) -> Markup {
    html! {
        section.card {
            h2 { (lang.t("new.templates")) }
            ul.templates { @for (id, _) in TEMPLATES {
                li {
                    a.button href=(ui::address("/new", &[("template", id)]))
                        aria-current=[(id == chosen).then_some("true")]
                    { (ui::named(lang, "template", "", id)) }
                    " " span.hint { (ui::named(lang, "template-hint", "", id)) }
                }
            } }
        }
    }
}

/// The text with what is wrong with it, and what came of it.
fn editor(lang: Language, sheet: &Sheet<'_>, shown: &Markup) -> Markup {
    html! {
        form method="post" action=(FORM) hx-post=(FORM) hx-target="#main" hx-select="#main"
            hx-swap="outerHTML show:none"
        {
            section.card {
                input type="hidden" name="base" value=(sheet.base);
                label for="yaml" { (lang.t("new.file")) }
                p.hint #yaml-hint { (lang.t("new.file-hint")) }
                textarea #yaml.code name="yaml" rows="24" spellcheck="false" wrap="off"
                    autocomplete="off" autocapitalize="off" aria-describedby="yaml-hint checked"
                    hx-post=(CHECK) hx-trigger="input changed delay:500ms"
                    hx-target="#checked" hx-select="unset" hx-swap="innerHTML"
                {
                    // Browsers drop a line break at the beginning.
                    "\n" (sheet.text)
                }
                div #checked role="status" {}
                button #new-try name="do" value="try" type="submit" { (lang.t("new.try")) }
            }
            (shown)
        }
    }
}
