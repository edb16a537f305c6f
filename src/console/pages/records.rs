//! What happened in a campaign: its draws, its wins, and who did what and why; and the last in all
//! campaigns.

use axum::{
    extract::{Path, Query as Asking},
    response::Response,
};
use jiff::tz::TimeZone;
use maud::{Markup, html};

use super::{
    Tab, definition, forms, head,
    lists::{AllActs, Asked, List, Query, Tabbed, Winners, Wins},
    rows, status, versions,
};
use crate::console::{
    layout::Place,
    ui,
    visit::{Contents, Visit},
};

/// Elements of a page.
const PAGE_SIZE: u32 = 50;

/// A list of a campaign.
pub(in crate::console) async fn page<L: Tabbed>(
    visit: Visit,
    Path(id): Path<String>,
    Asking(asked): Asking<Asked>,
) -> Response {
    let lang = visit.language;
    let contents = match status(&visit, &id).await {
        Ok(status) => {
            let (campaign, zone) = definition(&status);
            let list = visit.section(list::<L>(&visit, &campaign.id, &zone, &asked).await);
            Ok(html! {
                (head(&visit, &status, L::TAB))
                @if let Some(done) = ui::done(lang, asked.done.as_deref()) { (done) }
                @if L::TAB == Tab::History {
                    (versions::shown(&visit, &status, &asked).await)
                    section.card { h2 { (lang.t("history.acts")) } (list) }
                } @else { (list) }
            })
        }
        Err(status) => Err(status),
    };
    visit.page(Place::Campaigns, &id, contents)
}

/// Who did what and why, in all campaigns that the visitor may see.
pub(in crate::console) async fn everywhere(visit: Visit, Asking(asked): Asking<Asked>) -> Response {
    let title = visit.language.t("history.everywhere");
    let list = visit.section(list::<AllActs>(&visit, "", &TimeZone::UTC, &asked).await);
    let contents = html! {
        h1 { (title) }
        p.hint { (visit.language.t("history.utc")) }
        (list)
    };
    visit.page(Place::Campaigns, title, Ok(contents))
}

/// A page of a list of a campaign, or of all of them if it is empty.
async fn list<L: List>(visit: &Visit, campaign: &str, zone: &TimeZone, asked: &Asked) -> Contents {
    let lang = visit.language;
    let query = Query {
        campaign,
        zone,
        asked,
        size: PAGE_SIZE,
        token: asked.page.clone(),
    };
    let base = match campaign {
        "" => String::new(),
        id => format!("/campaigns/{id}"),
    };
    let path = format!("{base}/{}", L::PATH);
    let filters = L::filters(asked);
    let mut used: Vec<_> = filters
        .iter()
        .map(|filter| (filter.name, filter.value))
        .collect();
    used.extend([("from", asked.from.as_str()), ("to", asked.to.as_str())]);
    let here = [&used[..], &[("page", asked.page.as_str())]].concat();
    let filter = forms::filter(lang, &path, &filters, Some([&asked.from, &asked.to]));
    let page = match L::read(visit, query).await {
        Ok(page) => page,
        Err(status) => return Ok(html! { (filter) (visit.trouble(&status)) }),
    };
    let is_filtered = used.iter().any(|(_, value)| !value.is_empty());
    let empty = if is_filtered {
        "list.no-match"
    } else {
        L::EMPTY
    };
    Ok(html! {
        (filter)
        @if !campaign.is_empty() { (files::<L>(visit, &base, &used)) }
        (rows::behind(lang, page.complete_until.as_ref(), zone))
        @if page.elements.is_empty() { (ui::empty(&html! { p { (lang.t(empty)) } })) }
        @else { (L::table(lang, &page.elements, zone, &ui::address(&path, &here))) }
        (ui::next(lang, &path, &used, &page.next))
    })
}

/// The list as files, with its filters.
fn files<L: List>(visit: &Visit, base: &str, used: &[(&str, &str)]) -> Markup {
    let lang = visit.language;
    let file = |name: &str| ui::address(&format!("{base}/{name}.csv"), used);
    html! {
        p.files {
            a href=(file(L::PATH)) download { (lang.t("csv.file")) }
            @if L::PATH == Wins::PATH {
                " · " a href=(file(Winners::PATH)) download { (lang.t("csv.winners")) }
            }
        }
    }
}
