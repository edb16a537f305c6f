//! Proposals: changes that one person proposes and another approves. Where a change needs an
//! approval, its form proposes it.

use axum::{Form, extract::Path, response::Response};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;
use tonic::Status;

use super::{acts, change, fields::Fields, new, sent::Sent, status};
use crate::{
    console::{
        i18n::Language,
        layout::Place,
        ui::{self, Column::Text, named},
        visit::{Contents, Visit, reason},
    },
    proto::{
        ApproveProposalRequest, Change, GetProposalRequest, GetProposalResponse,
        ListProposalsRequest, Proposal, ProposalState, ProposeChangeRequest, RejectProposalRequest,
        propose_change_request::Change as Proposed,
    },
};

/// Open proposals that a page lists.
const LISTED_MAX: u32 = 50;

/// A change that a form asks for.
pub(super) struct Wanted {
    pub(super) campaign: String,
    pub(super) change: Proposed,
    /// The version that it changes; none: the current one.
    pub(super) base: Option<u32>,
    pub(super) request_id: String,
    pub(super) reason: String,
}

fn address(campaign: &str, proposal: &str) -> String {
    format!("/campaigns/{}/proposals/{proposal}", ui::encoded(campaign))
}

/// Whether a change was refused since it needs an approval.
pub(super) fn is_needed(status: &Status) -> bool {
    reason(status) == "APPROVAL_NEEDED"
}

/// Proposes a change; the address of its page.
pub(super) async fn send(visit: &Visit, wanted: Wanted) -> Result<String, Status> {
    let base_version = match wanted.base {
        Some(base) => base,
        None => status(visit, &wanted.campaign).await?.version,
    };
    let request = ProposeChangeRequest {
        campaign_id: wanted.campaign,
        change: Some(wanted.change),
        base_version,
        request_id: wanted.request_id,
        operator: visit.operator(),
        reason: wanted.reason,
        ..ProposeChangeRequest::default()
    };
    let response = visit.campaigns().propose_change(request).await?;
    let proposal = response.into_inner().proposal.unwrap_or_default();
    Ok(address(&proposal.campaign_id, &proposal.proposal_id))
}

/// Goes to the page that shows the effect, to the proposal that was made in its place, or shows why
/// there is none.
pub(super) async fn finish<T>(
    visit: &Visit,
    result: Result<T, Status>,
    wanted: Wanted,
    (target, done): (&str, &str),
    sent: &Sent<'_>,
) -> Response {
    match result {
        Err(status) if is_needed(&status) => match send(visit, wanted).await {
            Ok(address) => acts::gone_to(&address, "proposed"),
            Err(status) => sent.refused(visit, &status),
        },
        result => acts::finish(visit, result, (target, done), sent),
    }
}

/// Open proposals of a campaign, or of all if it is empty; nothing if there are none.
pub(super) async fn open(visit: &Visit, campaign: &str) -> Markup {
    let lang = visit.language;
    let request = ListProposalsRequest {
        campaign_id: campaign.into(),
        state: ProposalState::Open.into(),
        page_size: LISTED_MAX,
        page_token: String::new(),
    };
    let listed = visit.campaigns().list_proposals(request).await;
    // Whoever may not read them sees none; all else on the page is shown.
    let listed = listed.map(tonic::Response::into_inner).unwrap_or_default();
    if listed.proposals.is_empty() {
        return html! {};
    }
    html! {
        section.card #proposals {
            h2 { (lang.t("proposals.title")) }
            ul.plain { @for proposal in &listed.proposals { li {
                a href=(address(&proposal.campaign_id, &proposal.proposal_id)) {
                    (proposal.campaign_id) " · " (act(visit, proposal))
                }
                " · " (lang.with("proposals.by", &proposal.operator))
                @if !proposal.reason.is_empty() { ": " (proposal.reason) }
            } } }
            @if !listed.next_page_token.is_empty() {
                p.hint { (lang.with("proposals.more", &LISTED_MAX.to_string())) }
            }
        }
    }
}

fn act(visit: &Visit, proposal: &Proposal) -> String {
    named(
        visit.language,
        "proposed",
        "PROPOSED_ACT_",
        proposal.act().as_str_name(),
    )
}

/// What was just done.
#[derive(Debug, Default, Deserialize)]
pub(in crate::console) struct Asked {
    done: Option<String>,
}

/// A proposal with all that it would change.
pub(in crate::console) async fn page(
    visit: Visit,
    Path((id, proposal)): Path<(String, String)>,
    axum::extract::Query(asked): axum::extract::Query<Asked>,
) -> Response {
    let title = format!("{} {proposal} · {id}", visit.language.t("proposals.one"));
    let contents = contents(&visit, &id, proposal, &asked).await;
    visit.page(Place::Campaigns, &title, contents)
}

async fn contents(visit: &Visit, id: &str, proposal_id: String, asked: &Asked) -> Contents {
    let lang = visit.language;
    let request = GetProposalRequest {
        campaign_id: id.into(),
        proposal_id,
    };
    let response = visit.campaigns().get_proposal(request).await?.into_inner();
    let proposal = response.proposal.clone().unwrap_or_default();
    let is_open = proposal.state() == ProposalState::Open;
    // A campaign that is proposed may not exist yet.
    let status = super::status(visit, id).await;
    let zone = status.map_or(TimeZone::UTC, |status| super::definition(&status).1);
    Ok(html! {
        h1 { (lang.t("proposals.one")) " " span.id { (proposal.proposal_id) } }
        @if let Some(done) = ui::done(lang, asked.done.as_deref()) { (done) }
        @if proposal.base_version > 0 {
            p { a href={ "/campaigns/" (id) } { (lang.t("new.back")) } }
        }
        (facts(visit, &proposal, &zone))
        @if !response.problem.is_empty() {
            (ui::notice("bad", &html! {
                (lang.t("proposals.problem")) " " span lang="en" { (response.problem) }
            }))
        }
        (changes(lang, &response))
        (plan(visit, &response, &zone))
        @if is_open { (forms(visit, &proposal)) }
    })
}

fn facts(visit: &Visit, proposal: &Proposal, zone: &TimeZone) -> Markup {
    let lang = visit.language;
    let state = named(
        lang,
        "proposal",
        "PROPOSAL_STATE_",
        proposal.state().as_str_name(),
    );
    let time = |time: &Option<_>| {
        html! { (ui::time(Option::as_ref(time), zone)) " " (zone.iana_name().unwrap_or_default()) }
    };
    html! {
        section.card {
            dl.pairs {
                dt { (lang.t("proposals.campaign")) } dd { (proposal.campaign_id) }
                dt { (lang.t("proposals.act")) } dd { (act(visit, proposal)) }
                dt { (lang.t("proposals.state")) } dd #proposal-state { (state) }
                dt { (lang.t("proposals.base")) } dd { (proposal.base_version) }
                dt { (lang.t("proposals.proposer")) } dd { (proposal.operator) }
                dt { (lang.t("proposals.time")) } dd { (time(&proposal.propose_time)) }
                dt { (lang.t("proposals.until")) } dd { (time(&proposal.expire_time)) }
                @if !proposal.reason.is_empty() {
                    dt { (lang.t("form.reason")) } dd { (proposal.reason) }
                }
                @if !proposal.decided_by.is_empty() {
                    dt { (lang.t("proposals.decider")) }
                    dd {
                        (proposal.decided_by)
                        @if !proposal.decision_reason.is_empty() { ": " (proposal.decision_reason) }
                    }
                }
            }
        }
        @if let Some(recall) = &proposal.recall {
            p { code { (recall.pool_id) }
                @if !recall.prize_id.is_empty() { " · " code { (recall.prize_id) } }
                @if recall.window_start_time.is_some() { " · " (time(&recall.window_start_time)) }
                @if recall.withdraw { " · " (lang.t("ending.withdraw")) }
            }
        }
    }
}

/// All that differs, however much it is: whoever approves it must have seen it.
fn changes(lang: Language, response: &GetProposalResponse) -> Markup {
    let value = |text: &str| match text {
        "" => html! { "–" },
        text => html! { code { (text) } },
    };
    let rows = |changes: &[Change]| {
        html! { @for change in changes { tr {
            td { code { (change.path) } }
            td { (value(&change.before)) }
            td { (value(&change.after)) }
        } } }
    };
    html! {
        @if !response.changes.is_empty() {
            section.card {
                h2 { (lang.t("new.differences")) }
                (ui::table(
                    lang.t("new.differences"),
                    &[
                        Text(lang.t("new.where")),
                        Text(lang.t("plan.before")),
                        Text(lang.t("plan.after")),
                    ],
                    &rows(&response.changes),
                ))
            }
        }
        @if let (Some(campaign), true) = (&response.campaign, response.changes.is_empty()) {
            section.card {
                h2 { (lang.t("proposals.file")) }
                pre tabindex="0" { (crate::model::file::to_yaml(campaign)) }
            }
        }
    }
}

/// What the change does to hours that are injected already, and what the campaign needs then.
fn plan(visit: &Visit, response: &GetProposalResponse, zone: &TimeZone) -> Markup {
    let lang = visit.language;
    html! {
        (change::hours(lang, &response.window_changes, zone))
        @if let Some(plan) = &response.plan {
            section.card #needs { (new::sums(lang, plan)) (new::decks(lang, plan)) }
        }
    }
}

fn forms(visit: &Visit, proposal: &Proposal) -> Markup {
    let lang = visit.language;
    let base = address(&proposal.campaign_id, &proposal.proposal_id);
    // A form that is sent twice decides once.
    let request = format!("console-{:016x}", rand::random::<u64>());
    let is_own = proposal.operator == visit.name;
    html! {
        section.card {
            h2 { (lang.t("proposals.decide")) }
            @if is_own { p.hint { (lang.t("proposals.own")) } }
            @else {
                form.line method="post" action={ (base) "/approve" } {
                    input type="hidden" name="request_id" value=(request);
                    label { (lang.t("form.reason")) input name="reason" maxlength="1024"; }
                    button.primary #approve type="submit" { (lang.t("proposals.approve")) }
                }
            }
            form.line method="post" action={ (base) "/reject" } {
                input type="hidden" name="request_id" value={ (request) "-reject" };
                label { (lang.t("form.reason")) input name="reason" maxlength="1024"; }
                button.stop #reject type="submit" { (lang.t("proposals.reject")) }
            }
        }
    }
}

/// Approves a proposal, which makes its change.
pub(in crate::console) async fn approve(
    visit: Visit,
    Path((id, proposal)): Path<(String, String)>,
    Form(fields): Form<Fields>,
) -> Response {
    let target = address(&id, &proposal);
    let request = ApproveProposalRequest {
        campaign_id: id,
        proposal_id: proposal,
        request_id: fields.get("request_id").into(),
        operator: visit.operator(),
        reason: fields.get("reason").into(),
    };
    let result = visit.campaigns().approve_proposal(request).await;
    let sent = Sent::of(fields.pairs(), &[acts::REASON], None);
    acts::finish(&visit, result, (&target, "approved"), &sent)
}

/// Rejects a proposal.
pub(in crate::console) async fn reject(
    visit: Visit,
    Path((id, proposal)): Path<(String, String)>,
    Form(fields): Form<Fields>,
) -> Response {
    let target = address(&id, &proposal);
    let request = RejectProposalRequest {
        campaign_id: id,
        proposal_id: proposal,
        request_id: fields.get("request_id").into(),
        operator: visit.operator(),
        reason: fields.get("reason").into(),
    };
    let result = visit.campaigns().reject_proposal(request).await;
    let sent = Sent::of(fields.pairs(), &[acts::REASON], None);
    acts::finish(&visit, result, (&target, "rejected"), &sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_approves_sees_every_difference() {
        let change = |index: u32| Change {
            path: format!("prizes[p{index}].stock"),
            before: "1".into(),
            after: "2".into(),
        };
        let response = GetProposalResponse {
            changes: (1..=500).map(change).collect(),
            ..GetProposalResponse::default()
        };
        let page = changes(Language::ENGLISH, &response).into_string();
        // And the row of the columns' names.
        assert_eq!(page.matches("<tr>").count(), 501, "{page}");
        assert!(page.contains("prizes[p500].stock"), "{page}");
    }
}
