//! What has changed since the visitor's last visit: acts of operators in all campaigns.

use axum::http::HeaderMap;
use jiff::tz::TimeZone;
use maud::{Markup, html};

use crate::{
    console::{
        Shared,
        ui::{self, named},
        visit::{Contents, Visit},
    },
    model::convert::times::from_wire,
    proto::{ListOperationsRequest, RecordedOperation},
};

/// Acts that the page shows.
const ACTS_MAX: u32 = 10;

/// What has changed since the last visit, and the cookie that notes this one; nothing at the first
/// visit. `now_s` is the store's clock in seconds, by which acts have their times.
pub(super) async fn last_visit(
    console: &Shared,
    visit: &Visit,
    headers: &HeaderMap,
    now_s: i64,
) -> (Markup, Option<String>) {
    let noted = console
        .sessions
        .visit(headers, &visit.name, visit.session.until, now_s);
    let Some((last_s, cookie)) = noted else {
        return (html! {}, None);
    };
    let changes = match last_s {
        Some(last_s) => visit.section(changes(visit, last_s).await),
        None => html! {},
    };
    (changes, Some(cookie))
}

async fn changes(visit: &Visit, since_s: i64) -> Contents {
    let lang = visit.language;
    let since = prost_types::Timestamp {
        seconds: since_s,
        nanos: 0,
    };
    let request = ListOperationsRequest {
        start_time: Some(since),
        page_size: ACTS_MAX + 1,
        ..ListOperationsRequest::default()
    };
    let list = visit.ledger().list_operations(request).await?.into_inner();
    let acts = &list.operations;
    let has_more = acts.len() > ACTS_MAX as usize || !list.next_page_token.is_empty();
    let day = from_wire(Some(&since)).unwrap_or_default();
    let day = day.strftime("%Y-%m-%d").to_string();
    Ok(html! {
        details.card open[!acts.is_empty()] {
            summary {
                (lang.t("since.title")) " (" (ui::time(Some(&since), &TimeZone::UTC)) " UTC)"
            }
            @if acts.is_empty() { p.hint { (lang.t("since.none")) } }
            ul.plain {
                @for act in acts.iter().take(ACTS_MAX as usize) { li { (line(visit, act)) } }
            }
            p {
                @if has_more { (lang.t("since.more")) " " }
                a href=(ui::address("/history", &[("from", &day)])) { (lang.t("since.all")) }
            }
        }
    })
}

fn line(visit: &Visit, act: &RecordedOperation) -> Markup {
    let lang = visit.language;
    html! {
        (ui::time(act.operation_time.as_ref(), &TimeZone::UTC)) " · "
        strong { (act.operator) } " "
        (named(lang, "act", "OPERATION_KIND_", act.kind().as_str_name()))
        @if !act.campaign_id.is_empty() {
            " · " a href={ "/campaigns/" (act.campaign_id) "/history" } { (act.campaign_id) }
        }
        @if !act.envelope_id.is_empty() {
            " · " a href={ "/envelopes/" (ui::encoded(&act.envelope_id)) } { (act.envelope_id) }
        }
        @if !act.proposed_by.is_empty() { " · " (lang.with("proposals.by", &act.proposed_by)) }
        @if !act.reason.is_empty() { ": " (act.reason) }
    }
}
