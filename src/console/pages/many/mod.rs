//! Many users or wins by file: grant, block, unblock, deliver, revoke, forget. The report says of
//! each line what became of it.

mod lines;

use std::collections::BTreeMap;

use axum::{
    extract::{Path, Query},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use tokio::task::JoinSet;
use tonic::{Code, Status};

use lines::{Act, LINES_MAX, Line, Outcome, read};

use super::{Tab, campaign::is_over, head, refused::given, refused::refused, status};
use crate::{
    console::{
        layout::Place,
        ui::{self, number},
        upload::Upload,
        visit::{Contents, Visit, http_status},
    },
    model::text::grouped,
    proto::{
        BlockUsersRequest, ForgetUserRequest, GrantDrawsRequest, MarkDeliveredRequest,
        RevokeWinRequest, UnblockUsersRequest,
    },
};

/// Calls for one line each that are made at once.
const CALLS_MAX: usize = 16;

fn address(id: &str) -> String {
    format!("/campaigns/{}/many", ui::encoded(id))
}

/// What the page is asked for.
#[derive(Debug, Default, Deserialize)]
pub(in crate::console) struct Asked {
    /// The request id of a grant that was not done for all lines, to repeat it.
    request: Option<String>,
    /// Its reason.
    reason: Option<String>,
}

/// The page with the forms.
pub(in crate::console) async fn page(
    visit: Visit,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let contents = forms(&visit, &id, &asked).await;
    visit.page(Place::Campaigns, visit.language.t("many.link"), contents)
}

/// The beginning of the request ids that forms have.
const REQUEST_PREFIX: &str = "console-";

async fn forms(visit: &Visit, id: &str, asked: &Asked) -> Contents {
    let lang = visit.language;
    let repeated = asked
        .request
        .as_ref()
        .filter(|id| id.starts_with(REQUEST_PREFIX));
    let status = status(visit, id).await?;
    let acts = Act::ALL.into_iter();
    let acts = acts.filter(|act| !is_over(&status) || act.is_for_ever());
    Ok(html! {
        (head(visit, &status, Tab::Users))
        p.hint { (lang.with("many.hint", &number(LINES_MAX as u64))) }
        @for act in acts {
            // A form that is sent twice grants once.
            @let repeated = repeated.filter(|_| act == Act::Grant);
            @let request = repeated
                .cloned()
                .unwrap_or_else(|| format!("{REQUEST_PREFIX}{:016x}", rand::random::<u64>()));
            section.card {
                h2 { (lang.t(act.key())) }
                p.hint { (lang.t("many.columns")) " " code { (act.columns().join(",")) } }
                @match act {
                    Act::Revoke => p.hint { (lang.t("win.revoke-hint")) },
                    Act::Forget => p.hint { (lang.t("forget.hint")) },
                    _ => {}
                }
                @if repeated.is_some() {
                    (ui::notice("warn", &html! { (lang.t("many.repeat")) }))
                }
                form.line method="post" enctype="multipart/form-data" action=(address(id)) {
                    input type="hidden" name="act" value=(act.name());
                    input type="hidden" name="request_id" value=(request);
                    label { (lang.t("codes.file"))
                        input type="file" name="file" required accept="text/csv,.csv,.txt";
                    }
                    @if act.has_reason() {
                        label { (lang.t("form.reason"))
                            input name="reason" maxlength="1024"
                                value=[repeated.and(asked.reason.as_deref())];
                        }
                    }
                    @if act == Act::Forget {
                        label { (lang.with("form.type-id", id))
                            input name="typed" required maxlength="128" autocomplete="off";
                        }
                    }
                    button.stop[matches!(act, Act::Revoke | Act::Forget)] type="submit" {
                        (lang.t(act.key()))
                    }
                }
            }
        }
    })
}

/// Does what a form says with each line of its file, and reports.
pub(in crate::console) async fn submit(
    visit: Visit,
    Path(id): Path<String>,
    upload: Upload,
) -> Response {
    let lang = visit.language;
    let back = address(&id);
    let given = match given(&visit, upload, &back) {
        Ok(given) => given,
        Err(page) => return *page,
    };
    let wrong = |why: &str| refused(&visit, Place::Campaigns, &html! { (why) }, &back);
    let act = Act::ALL
        .into_iter()
        .find(|act| act.name() == given.text("act"));
    let Some(act) = act else {
        return wrong(lang.t("upload.broken"));
    };
    if act == Act::Forget && given.text("typed").trim() != id {
        return wrong(lang.t("form.not-typed"));
    }
    let mut lines = match read(act, given.text("file")) {
        Some(lines) if lines.is_empty() => return wrong(lang.t("many.empty")),
        Some(lines) => lines,
        None => return wrong(&lang.with("many.too-many", &number(LINES_MAX as u64))),
    };
    let said = Said {
        campaign: id,
        request: given.text("request_id").into(),
        operator: visit.operator(),
        reason: given.text("reason").into(),
    };
    match act {
        Act::Deliver | Act::Revoke | Act::Forget => singly(&visit, act, &said, &mut lines).await,
        Act::Grant | Act::Block | Act::Unblock => users(&visit, act, &said, &mut lines).await,
    }
    let is_left = |line: &Line| !matches!(line.outcome, Outcome::Done);
    let back = match said.request.as_str() {
        // With another id, those who got draws would get them again.
        request if act == Act::Grant && !request.is_empty() && lines.iter().any(is_left) => {
            ui::address(&back, &[("request", request), ("reason", &said.reason)])
        }
        _ => back,
    };
    report(&visit, act, &lines, &back)
}

/// What the form says of all lines.
#[derive(Clone)]
struct Said {
    campaign: String,
    request: String,
    operator: String,
    reason: String,
}

/// Acts on users: one call for all lines, or for all that grant the same number of draws.
async fn users(visit: &Visit, act: Act, said: &Said, lines: &mut [Line]) {
    let mut calls: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, line) in lines.iter().enumerate() {
        if matches!(line.outcome, Outcome::Open) {
            let draws = match act {
                Act::Grant => line.value.parse().unwrap_or_default(),
                _ => 0,
            };
            calls.entry(draws).or_default().push(index);
        }
    }
    for (draws, indexes) in calls {
        let users = indexes
            .iter()
            .map(|index| lines[*index].id.clone())
            .collect();
        let request_id = match said.request.as_str() {
            "" => String::new(),
            request => format!("{request}-{draws}"),
        };
        let result = call(visit, act, said, (draws, users, request_id)).await;
        for index in indexes {
            lines[index].outcome = match &result {
                Ok(()) => Outcome::Done,
                Err(status) => Outcome::Refused(status.clone()),
            };
        }
    }
}

async fn call(
    visit: &Visit,
    act: Act,
    said: &Said,
    (draws, user_ids, request_id): (u32, Vec<String>, String),
) -> Result<(), Status> {
    let mut client = visit.campaigns();
    let (campaign_id, operator) = (said.campaign.clone(), said.operator.clone());
    let reason = said.reason.clone();
    match act {
        Act::Grant => {
            let request = GrantDrawsRequest {
                campaign_id,
                user_ids,
                draws,
                request_id,
                operator,
                reason,
                ..GrantDrawsRequest::default()
            };
            client.grant_draws(request).await.map(drop)
        }
        Act::Block => {
            let request = BlockUsersRequest {
                campaign_id,
                user_ids,
                request_id,
                operator,
                reason,
            };
            client.block_users(request).await.map(drop)
        }
        Act::Unblock | Act::Deliver | Act::Revoke | Act::Forget => {
            let request = UnblockUsersRequest {
                campaign_id,
                user_ids,
                request_id,
                operator,
                reason,
            };
            client.unblock_users(request).await.map(drop)
        }
    }
}

/// Acts on wins, or on users in all campaigns: one call for each line. To do it again changes
/// nothing.
async fn singly(visit: &Visit, act: Act, said: &Said, lines: &mut [Line]) {
    let open: Vec<usize> = (0..lines.len())
        .filter(|index| matches!(lines[*index].outcome, Outcome::Open))
        .collect();
    let mut is_stopped = false;
    for part in open.chunks(CALLS_MAX) {
        let mut calls = JoinSet::new();
        for index in part.iter().copied().filter(|_| !is_stopped) {
            let call = call_singly(visit.clone(), act, said.clone(), lines[index].clone());
            calls.spawn(async move { (index, call.await) });
        }
        for index in part {
            lines[*index].outcome = Outcome::Skipped;
        }
        for (index, result) in calls.join_all().await {
            lines[index].outcome = match result {
                Ok(()) => Outcome::Done,
                Err(status) => {
                    is_stopped |= !is_of_line(&status);
                    Outcome::Refused(status)
                }
            };
        }
    }
}

async fn call_singly(visit: Visit, act: Act, said: Said, line: Line) -> Result<(), Status> {
    let mut client = visit.ledger();
    match act {
        Act::Revoke => {
            let request = RevokeWinRequest {
                campaign_id: said.campaign,
                unit_id: line.id,
                reason: line.value,
                operator: said.operator,
                ..RevokeWinRequest::default()
            };
            client.revoke_win(request).await.map(drop)
        }
        Act::Forget => {
            let request = ForgetUserRequest {
                user_id: line.id,
                dry_run: false,
                operator: said.operator,
                reason: said.reason,
            };
            client.forget_user(request).await.map(drop)
        }
        Act::Deliver | Act::Grant | Act::Block | Act::Unblock => {
            let request = MarkDeliveredRequest {
                campaign_id: said.campaign,
                unit_id: line.id,
                reference: line.value,
                operator: said.operator,
                ..MarkDeliveredRequest::default()
            };
            client.mark_delivered(request).await.map(drop)
        }
    }
}

/// Whether another line may succeed although this one was refused.
fn is_of_line(status: &Status) -> bool {
    let code = status.code();
    matches!(
        code,
        Code::NotFound | Code::FailedPrecondition | Code::InvalidArgument
    )
}

fn report(visit: &Visit, act: Act, lines: &[Line], back: &str) -> Response {
    let lang = visit.language;
    let is_done = |line: &&Line| matches!(line.outcome, Outcome::Done);
    let done = lines.iter().filter(is_done).count();
    let kind = if done == lines.len() { "good" } else { "warn" };
    let sum = lang.with("many.sum", &grouped(done as u64)).replacen(
        "{}",
        &grouped(lines.len() as u64),
        1,
    );
    let contents = html! {
        h1 { (lang.t("many.report")) ": " (lang.t(act.key())) }
        (ui::notice(kind, &html! { (sum) }))
        (ui::scroll(lang.t("many.report"), &html! { table {
            thead { tr {
                th.n scope="col" { (lang.t("many.line")) }
                @for column in act.columns() { th scope="col" { code { (column) } } }
                th scope="col" { (lang.t("list.result")) }
            } }
            tbody { @for line in lines { tr {
                td.n { (line.number) }
                td { (line.id) }
                @if act.columns().len() > 1 { td { (line.value) } }
                td { (outcome(visit, &line.outcome)) }
            } } }
        } }))
        p { a href=(back) { (lang.t("form.back")) } }
    };
    let page = visit.page(Place::Campaigns, lang.t("many.report"), Ok(contents));
    let refusal = lines.iter().find_map(|line| match &line.outcome {
        Outcome::Refused(status) => Some(http_status(status)),
        _ => None,
    });
    match refusal {
        Some(code) if done == 0 => (code, page).into_response(),
        _ => page,
    }
}

fn outcome(visit: &Visit, outcome: &Outcome) -> Markup {
    let lang = visit.language;
    html! {
        @match outcome {
            Outcome::Done => span.badge.outcome-1 { (lang.t("many.done")) },
            Outcome::Wrong(key) => (lang.find(key).unwrap_or(key)),
            Outcome::Refused(status) => (visit.trouble(status)),
            Outcome::Open | Outcome::Skipped => (lang.t("many.skipped")),
        }
    }
}
