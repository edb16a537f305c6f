//! Changes that one identity proposes and another approves, by real tokens.

use tombola::{
    proto::{
        ApplyCampaignRequest, ApproveProposalRequest, ApproveProposalResponse, Campaign,
        CloseCampaignRequest, GetProposalRequest, ListOperationsRequest, ListProposalsRequest,
        PauseCampaignRequest, Proposal, ProposalState, ProposeChangeRequest, ProposeChangeResponse,
        ProposedClose, ProposedRecall, RejectProposalRequest, ResumeCampaignRequest,
        propose_change_request::Change,
    },
    store::proposal::DONE_PROPOSALS_MAX,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{Calls, Gate, is_denied, reason};
use crate::process::{Ended, Start, tombola};

/// Ann and bea plan and approve, pat only proposes, sam only reads.
const POLICY: &str = r#"
roles:
  planner: [read, plan, stop, admin, propose, approve]
  proposer: [read, propose]
  reader: [read]
identities:
  - {name: ann, tokens: [{sha256: <ann>}, {sha256: <ann-2>}]}
  - {name: bea, tokens: [{sha256: <bea>}]}
  - {name: pat, tokens: [{sha256: <pat>}]}
  - {name: sam, tokens: [{sha256: <sam>}]}
bindings:
  - {identity: ann, role: planner, campaigns: ["*"], senders: ["*"]}
  - {identity: bea, role: planner, campaigns: ["*"]}
  - {identity: pat, role: proposer, campaigns: ["spring"]}
  - {identity: sam, role: reader, campaigns: ["autumn"]}
"#;

fn campaign(id: &str, stock: u32, required: bool) -> Campaign {
    let yaml = format!(
        "
id: {id}
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-12-31T00:00:00+08:00
approvalRequired: {required}
prizes: [{{id: mug, stock: {stock}}}]
pools: [{{id: deck, deck: {{size: 2, cards: {{mug: 1}}, onExhausted: RESHUFFLE}}}}]
"
    );
    tombola::model::file::parse(&yaml).unwrap().pop().unwrap()
}

async fn apply(calls: &Calls, campaign: Campaign, base: u32, dry_run: bool) -> Result<(), Status> {
    let request = ApplyCampaignRequest {
        campaign: Some(campaign),
        base_version: base,
        dry_run,
        ..ApplyCampaignRequest::default()
    };
    calls.campaigns().apply_campaign(request).await.map(drop)
}

async fn propose(
    calls: &Calls,
    campaign: Campaign,
    base_version: u32,
) -> Result<ProposeChangeResponse, Status> {
    let request = ProposeChangeRequest {
        campaign_id: campaign.id.clone(),
        change: Some(Change::Campaign(campaign)),
        base_version,
        reason: "more mugs".into(),
        ..ProposeChangeRequest::default()
    };
    let answer = calls.campaigns().propose_change(request).await;
    answer.map(tonic::Response::into_inner)
}

async fn approve(calls: &Calls, proposal: &Proposal) -> Result<ApproveProposalResponse, Status> {
    let request = ApproveProposalRequest {
        campaign_id: proposal.campaign_id.clone(),
        proposal_id: proposal.proposal_id.clone(),
        reason: "checked".into(),
        ..ApproveProposalRequest::default()
    };
    let answer = calls.campaigns().approve_proposal(request).await;
    answer.map(tonic::Response::into_inner)
}

async fn list(calls: &Calls, campaign: &str) -> Vec<Proposal> {
    let request = ListProposalsRequest {
        campaign_id: campaign.into(),
        page_size: 1,
        ..ListProposalsRequest::default()
    };
    let (mut all, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListProposalsRequest {
            page_token,
            ..request.clone()
        };
        let page = calls.campaigns().list_proposals(request).await.unwrap();
        let page = page.into_inner();
        all.extend(page.proposals);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}

#[tokio::test]
async fn a_campaign_that_requires_approval_changes_by_two_identities_only() {
    let gate = Gate::new(POLICY);
    let (ann, bea) = (gate.by("ann").await, gate.by("bea").await);
    apply(&ann, campaign("spring", 1000, true), 0, false)
        .await
        .unwrap();
    let refused = apply(&ann, campaign("spring", 2000, true), 1, false).await;
    let refused = refused.unwrap_err();
    assert_eq!(
        reason(Code::FailedPrecondition, &refused),
        "APPROVAL_NEEDED"
    );
    assert!(refused.message().contains("ProposeChange"), "{refused:?}");
    let close = CloseCampaignRequest {
        campaign_id: "spring".into(),
        ..CloseCampaignRequest::default()
    };
    let refused = ann.campaigns().close_campaign(close).await.unwrap_err();
    assert_eq!(
        reason(Code::FailedPrecondition, &refused),
        "APPROVAL_NEEDED"
    );
    // It shows what it would change all the same, and the brake needs nobody else.
    apply(&ann, campaign("spring", 2000, true), 1, true)
        .await
        .unwrap();
    let pause = PauseCampaignRequest {
        campaign_id: "spring".into(),
        ..PauseCampaignRequest::default()
    };
    ann.campaigns().pause_campaign(pause).await.unwrap();
    let resume = ResumeCampaignRequest {
        campaign_id: "spring".into(),
        ..ResumeCampaignRequest::default()
    };
    ann.campaigns().resume_campaign(resume).await.unwrap();

    let proposed = propose(&ann, campaign("spring", 2000, true), 1)
        .await
        .unwrap();
    assert_eq!(proposed.changes.len(), 1, "{proposed:?}");
    assert_eq!(proposed.changes[0].path, "prizes[mug].stock");
    let proposal = proposed.proposal.unwrap();
    assert_eq!(proposal.state(), ProposalState::Open);
    assert_eq!(proposal.operator, "ann");
    let other_token = gate.by("ann-2").await;
    for own in [&ann, &other_token] {
        let refused = approve(own, &proposal).await.unwrap_err();
        assert_eq!(reason(Code::PermissionDenied, &refused), "OWN_PROPOSAL");
    }
    let shown = GetProposalRequest {
        campaign_id: "spring".into(),
        proposal_id: proposal.proposal_id.clone(),
    };
    let shown = bea.campaigns().get_proposal(shown).await.unwrap();
    let shown = shown.into_inner();
    assert_eq!(
        (shown.changes, shown.problem.as_str()),
        (proposed.changes, "")
    );
    let approved = approve(&bea, &proposal).await.unwrap();
    let version = approved.status.unwrap().versions.pop().unwrap();
    assert_eq!((version.version, version.operator.as_str()), (2, "bea"));
    assert_eq!(version.proposed_by, "ann");
    let decided = approved.proposal.unwrap();
    assert_eq!(decided.state(), ProposalState::Approved);
    assert_eq!(
        (
            decided.decided_by.as_str(),
            decided.decision_reason.as_str()
        ),
        ("bea", "checked")
    );
    let again = approve(&bea, &proposal).await.unwrap_err();
    assert_eq!(reason(Code::FailedPrecondition, &again), "PROPOSAL_VOID");

    let request = ListOperationsRequest {
        campaign_id: "spring".into(),
        ..ListOperationsRequest::default()
    };
    let mut acts = loop {
        let acts = ann.ledger().list_operations(request.clone()).await.unwrap();
        let acts = acts.into_inner().operations;
        if acts.iter().any(|act| act.version == 2) {
            break acts;
        }
        tokio::task::yield_now().await;
    };
    acts.retain(|act| act.version == 2);
    let act = acts.pop().unwrap();
    assert_eq!(
        (act.operator.as_str(), act.proposed_by.as_str()),
        ("bea", "ann")
    );
    assert_eq!(
        (act.reason.as_str(), act.proposal_reason.as_str()),
        ("checked", "more mugs")
    );
    assert!(act.authenticated && act.proposal_id == proposal.proposal_id);
}

#[tokio::test]
async fn whoever_may_only_propose_changes_nothing_alone() {
    let gate = Gate::new(POLICY);
    let (ann, pat, sam) = (
        gate.by("ann").await,
        gate.by("pat").await,
        gate.by("sam").await,
    );
    let refused = apply(&pat, campaign("spring", 1000, false), 0, false).await;
    let refused = refused.unwrap_err();
    assert_eq!(
        reason(Code::FailedPrecondition, &refused),
        "APPROVAL_NEEDED"
    );
    apply(&pat, campaign("spring", 1000, false), 0, true)
        .await
        .unwrap();
    is_denied(apply(&pat, campaign("autumn", 1000, false), 0, true).await);
    is_denied(propose(&pat, campaign("autumn", 1000, false), 0).await);
    is_denied(propose(&sam, campaign("autumn", 1000, false), 0).await);
    let proposed = propose(&pat, campaign("spring", 1000, false), 0)
        .await
        .unwrap();
    assert!(proposed.plan.is_some());
    let proposal = proposed.proposal.unwrap();
    is_denied(approve(&pat, &proposal).await);
    is_denied(approve(&sam, &proposal).await);
    // Lists show what the identity may see.
    assert_eq!(list(&ann, "").await.len(), 1);
    assert_eq!(list(&pat, "spring").await.len(), 1);
    assert!(list(&sam, "").await.is_empty());
    approve(&ann, &proposal).await.unwrap();
    ann.get("spring").await.unwrap();

    let second = propose(&pat, campaign("spring", 1500, false), 1)
        .await
        .unwrap();
    let second = second.proposal.unwrap();
    let reject = RejectProposalRequest {
        campaign_id: "spring".into(),
        proposal_id: second.proposal_id.clone(),
        reason: "too many".into(),
        ..RejectProposalRequest::default()
    };
    is_denied(pat.campaigns().reject_proposal(reject.clone()).await);
    ann.campaigns().reject_proposal(reject).await.unwrap();
    let listed = list(&pat, "").await;
    let states: Vec<_> = listed.iter().map(Proposal::state).collect();
    assert_eq!(states, [ProposalState::Approved, ProposalState::Rejected]);
    let refused = approve(&ann, &second).await.unwrap_err();
    assert_eq!(reason(Code::FailedPrecondition, &refused), "PROPOSAL_VOID");
}

#[tokio::test]
async fn pages_of_proposals_go_on_behind_one_that_was_removed() {
    let gate = Gate::new(POLICY);
    let (ann, bea) = (gate.by("ann").await, gate.by("bea").await);
    apply(&ann, campaign("spring", 1000, true), 0, false)
        .await
        .unwrap();
    let propose = async |stock| {
        let proposed = propose(&ann, campaign("spring", stock, true), 1).await;
        proposed.unwrap().proposal.unwrap().proposal_id
    };
    let propose_and_reject = async |stock| {
        let request = RejectProposalRequest {
            campaign_id: "spring".into(),
            proposal_id: propose(stock).await,
            reason: "too many".into(),
            ..RejectProposalRequest::default()
        };
        bea.campaigns().reject_proposal(request).await.unwrap();
    };
    let page = async |page_token: &str, campaign: &str, page_size| {
        let request = ListProposalsRequest {
            campaign_id: campaign.into(),
            page_size,
            page_token: page_token.into(),
            ..ListProposalsRequest::default()
        };
        let page = ann.campaigns().list_proposals(request).await;
        page.map(tonic::Response::into_inner)
    };
    let open = propose(2000).await;
    for stock in 0..=DONE_PROPOSALS_MAX as u32 {
        propose_and_reject(2001 + stock).await;
    }
    let all = list(&ann, "spring").await;
    let first = page("", "spring", 2).await.unwrap();
    assert_eq!(first.proposals, all[..2]);
    assert_eq!(first.proposals[0].proposal_id, open);
    propose_and_reject(3000).await;
    let left = list(&ann, "spring").await;
    assert_eq!(
        left[..2],
        [all[0].clone(), all[2].clone()],
        "one is removed"
    );
    let second = page(&first.next_page_token, "spring", 100).await.unwrap();
    assert_eq!(second.proposals, left[1..]);
    let wrong = page(&first.next_page_token, "autumn", 100).await;
    assert_eq!(wrong.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_proposal_that_is_not_right_is_refused_at_once() {
    let gate = Gate::new(POLICY);
    let (ann, bea) = (gate.by("ann").await, gate.by("bea").await);
    let mut wrong = campaign("spring", 1000, true);
    wrong.prizes.clear();
    let refused = propose(&ann, wrong, 0).await.unwrap_err();
    assert_eq!(reason(Code::InvalidArgument, &refused), "INVALID_REQUEST");
    let refused = propose(&ann, campaign("spring", 1000, true), 1).await;
    let refused = refused.unwrap_err();
    assert_eq!(reason(Code::Aborted, &refused), "VERSION_STALE");
    for (ttl, change) in [(Some(30), true), (Some(31 * 86_400), true), (None, false)] {
        let asked = campaign("spring", 1000, true);
        let request = ProposeChangeRequest {
            campaign_id: "spring".into(),
            change: change.then_some(Change::Campaign(asked)),
            ttl: ttl.map(|seconds| prost_types::Duration { seconds, nanos: 0 }),
            ..ProposeChangeRequest::default()
        };
        let refused = ann.campaigns().propose_change(request).await.unwrap_err();
        let bad = refused.get_details_bad_request().unwrap();
        let wanted = if change { "ttl" } else { "change" };
        assert_eq!(bad.field_violations[0].field, wanted);
    }
    let other = ProposeChangeRequest {
        campaign_id: "autumn".into(),
        change: Some(Change::Campaign(campaign("spring", 1000, true))),
        ..ProposeChangeRequest::default()
    };
    let refused = ann.campaigns().propose_change(other).await.unwrap_err();
    assert_eq!(reason(Code::InvalidArgument, &refused), "INVALID_REQUEST");
    let none = Proposal {
        campaign_id: "spring".into(),
        proposal_id: "0123456789ab".into(),
        ..Proposal::default()
    };
    let refused = approve(&bea, &none).await.unwrap_err();
    assert_eq!(reason(Code::NotFound, &refused), "PROPOSAL_NOT_FOUND");
    let none = Proposal {
        proposal_id: "x".into(),
        ..none
    };
    let refused = approve(&bea, &none).await.unwrap_err();
    assert_eq!(reason(Code::InvalidArgument, &refused), "INVALID_REQUEST");
}

#[tokio::test]
async fn a_close_or_a_recall_that_could_not_be_made_is_refused_at_once() {
    let gate = Gate::new(POLICY);
    let ann = gate.by("ann").await;
    let hourly = "
id: hourly
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
prizes: [{id: mug, stock: 1000}]
pools: [{id: hours, schedule: {perHour: {mug: 1}}}]
";
    ann.apply_file(hourly).await.unwrap();
    let close = || Change::Close(ProposedClose {});
    // Half past midnight: no hour starts then.
    let start = prost_types::Timestamp {
        seconds: 1_796_056_200,
        nanos: 0,
    };
    let recall = Change::Recall(ProposedRecall {
        pool_id: "hours".into(),
        window_start_time: Some(start),
        ..ProposedRecall::default()
    });
    for (campaign, change, base_version, code, wanted) in [
        ("none", close(), 0, Code::NotFound, "CAMPAIGN_NOT_FOUND"),
        ("hourly", close(), 7, Code::Aborted, "VERSION_STALE"),
        ("hourly", recall, 1, Code::NotFound, "WINDOW_NOT_FOUND"),
    ] {
        for dry_run in [true, false] {
            let request = ProposeChangeRequest {
                campaign_id: campaign.into(),
                change: Some(change.clone()),
                base_version,
                dry_run,
                ..ProposeChangeRequest::default()
            };
            let refused = ann.campaigns().propose_change(request).await.unwrap_err();
            assert_eq!(reason(code, &refused), wanted, "dry run: {dry_run}");
        }
    }
    assert!(list(&ann, "").await.is_empty());
    let request = ProposeChangeRequest {
        campaign_id: "hourly".into(),
        change: Some(close()),
        base_version: 1,
        ..ProposeChangeRequest::default()
    };
    let proposed = ann.campaigns().propose_change(request).await.unwrap();
    let proposal = proposed.into_inner().proposal.unwrap();
    let shown = GetProposalRequest {
        campaign_id: "hourly".into(),
        proposal_id: proposal.proposal_id,
    };
    let shown = ann.campaigns().get_proposal(shown).await.unwrap();
    assert_eq!(shown.into_inner().problem, "");
}

#[tokio::test]
async fn without_identities_approvals_can_neither_be_required_nor_made() {
    let directory = tempfile::tempdir().unwrap();
    let server = Start::on(directory.path()).serve();
    let calls = Calls::new(&server, None).await;
    let mut request = ApplyCampaignRequest {
        campaign: Some(campaign("spring", 1000, true)),
        operator: "ann".into(),
        dry_run: true,
        ..ApplyCampaignRequest::default()
    };
    for dry_run in [true, false] {
        request.dry_run = dry_run;
        let refused = calls.campaigns().apply_campaign(request.clone()).await;
        let refused = refused.unwrap_err();
        assert_eq!(
            reason(Code::FailedPrecondition, &refused),
            "IDENTITY_NEEDED"
        );
        assert!(refused.message().contains("--access"), "{refused:?}");
    }
    let proposal = ProposeChangeRequest {
        campaign_id: "spring".into(),
        change: Some(Change::Campaign(campaign("spring", 1000, false))),
        operator: "ann".into(),
        ..ProposeChangeRequest::default()
    };
    let refused = calls
        .campaigns()
        .propose_change(proposal)
        .await
        .unwrap_err();
    assert_eq!(
        reason(Code::FailedPrecondition, &refused),
        "IDENTITY_NEEDED"
    );
}

#[test]
fn commands_propose_list_approve_and_reject() {
    let gate = Gate::new(POLICY);
    let file = gate.path("spring.yaml");
    let by = |token: &str, words: &[&str]| {
        let mut command = tombola(words);
        command.args(["--server", &gate.server.url()]);
        Ended::of(command.env("TOMBOLA_TOKEN", token))
    };
    let write = |stock, required| {
        let yaml = tombola::model::file::to_yaml(&campaign("spring", stock, required));
        std::fs::write(&file, yaml).unwrap();
    };
    let path = file.to_str().unwrap();
    write(1000, true);
    by("ann", &["apply", path]).well();
    write(2000, true);
    let change = ["apply", path, "--base-version", "1", "--reason", "more"];
    let refused = by("ann", &change);
    for word in ["APPROVAL_NEEDED", "--propose"] {
        assert!(refused.stderr.contains(word), "{refused:#?}");
    }
    let said = by("ann", &[&change[..], &["--propose"]].concat()).well();
    assert!(said.contains("prizes[mug].stock"), "{said}");
    let (_, rest) = said.split_once("tombola approve spring ").unwrap();
    let id = &rest[..12];
    let listed = by("bea", &["proposals", "--state", "open"]).well();
    assert!(listed.contains(id) && listed.contains("ann"), "{listed}");
    let shown = by("bea", &["proposals", "spring", id]).well();
    assert!(
        shown.contains("is open") && shown.contains("2,000"),
        "{shown}"
    );
    let own = by("ann", &["approve", "spring", id]);
    assert!(own.stderr.contains("OWN_PROPOSAL"), "{own:#?}");
    let approved = by("bea", &["approve", "spring", id, "--json"]).well();
    assert!(approved.contains("\"proposedBy\": \"ann\""), "{approved}");
    let closed = by("ann", &["close", "spring", "--propose", "--json"]).well();
    let (_, rest) = closed.split_once("\"proposalId\": \"").unwrap();
    let id = &rest[..12];
    let rejected = by("bea", &["reject", "spring", id, "--reason", "not yet"]).well();
    assert!(rejected.contains("is rejected"), "{rejected}");
    let listed = by("sam", &["proposals"]).well();
    assert!(listed.contains("no proposals"), "{listed}");
}
