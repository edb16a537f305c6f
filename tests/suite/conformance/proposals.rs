//! Changes that one identity proposes and another approves.

use std::{sync::Arc, time::Duration};

use tombola::{
    model::{Campaign, CampaignId, OperatorId, PoolNo, RequestId},
    store::{
        ApproveCommand, Author, Change, Lifecycle, OperateCommand, Operated, Operation, Proposal,
        ProposalBase, ProposalReply, ProposalState, ProposeCommand, Proposed, ProposedAct, Refusal,
        RejectCommand, Result, StoreError,
        entry::Body,
        proposal::{DONE_PROPOSAL_KEPT, DONE_PROPOSALS_MAX, OPEN_PROPOSALS_MAX},
    },
};

use crate::support::{World, campaign, draw, hours, minutes};

promises![
    an_approved_version_comes_into_force_with_both_identities_in_its_entry,
    a_new_campaign_can_be_proposed_and_approved,
    a_close_and_a_recall_can_be_proposed_and_approved,
    nobody_approves_a_change_of_their_own,
    names_that_are_not_proved_propose_and_approve_nothing,
    a_proposal_is_void_once_its_base_version_moved,
    a_proposal_expires_and_is_removed_later,
    proposals_that_nobody_needs_leave_with_the_next_step,
    a_campaign_whose_proposals_nobody_needs_is_not_listed,
    parallel_approvals_apply_once,
    an_approval_and_a_rejection_at_once_have_one_winner,
    retries_are_answered_again_and_reused_ids_are_refused,
    a_campaign_that_requires_approval_refuses_changes_by_one,
    switching_the_requirement_off_needs_approval,
    open_proposals_are_bounded,
    an_id_never_stands_for_another_proposal,
    proposals_of_a_closed_campaign_are_void,
    proposals_survive_a_restart_and_leave_with_the_campaign,
];

const PLAIN: &str = "
    prizes: [{id: mug, stock: 1000}]
    pools: [{id: hours, schedule: {perHour: {mug: 1}}}]
";
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The same with a requirement, and another stock.
fn yaml(required: bool, stock: u32) -> Arc<Campaign> {
    let plain = PLAIN.replace("1000", &stock.to_string());
    campaign(&format!("{plain}\n    approvalRequired: {required}\n"))
}

/// An author whose identity is proved.
fn by(identity: &str, request: &str) -> Author {
    Author {
        authenticated: true,
        ..Author::named(
            RequestId::parse("request", request).unwrap(),
            OperatorId::parse("operator", identity).unwrap(),
            format!("{identity} says so"),
        )
    }
}

async fn version(world: &World) -> u32 {
    let id = yaml(false, 1000).id.clone();
    world
        .store()
        .campaign(&id)
        .await
        .map_or(0, |view| view.version)
}

async fn apply(world: &World, campaign: &Arc<Campaign>, author: Author) -> Result<Operated> {
    let base = version(world).await;
    world
        .injector()
        .apply(Arc::clone(campaign), base, author)
        .await
}

async fn begin(world: &World, required: bool) {
    let campaign = yaml(required, 1000);
    apply(world, &campaign, by("ann", "begin")).await.unwrap();
    world.set_time(campaign.start).await;
    world.tick().await;
}

async fn propose(world: &World, proposed: Proposed, author: Author) -> Result<ProposalReply> {
    let command = ProposeCommand {
        campaign: yaml(false, 1000).id.clone(),
        base_version: version(world).await,
        proposed,
        ttl: WEEK,
        author,
    };
    world.store().propose(command).await
}

async fn propose_stock(world: &World, stock: u32, request: &str) -> Proposal {
    let proposed = Proposed::Version(yaml(true, stock));
    let reply = propose(world, proposed, by("ann", request)).await;
    reply.unwrap().proposal
}

async fn approve(world: &World, proposal: &Proposal, author: Author) -> Result<Operated> {
    let id = yaml(false, 1000).id.clone();
    let change = match &proposal.act {
        ProposedAct::Version(_) => {
            let definition = world.store().proposed_definition(&id, &proposal.id).await?;
            let injector = world.injector();
            let base = proposal.base_version;
            Change::Version(injector.new_version(definition.unwrap(), base, author))
        }
        ProposedAct::Operation(operation) => Change::Operation(OperateCommand {
            campaign: id,
            operation: operation.clone(),
            blocks: Vec::new(),
            author,
        }),
    };
    let proposal = proposal.id.clone();
    world
        .injector()
        .approve(ApproveCommand { proposal, change })
        .await
}

async fn reject(world: &World, proposal: &Proposal, author: Author) -> Result<ProposalReply> {
    let command = RejectCommand {
        campaign: yaml(false, 1000).id.clone(),
        proposal: proposal.id.clone(),
        author,
    };
    world.store().reject(command).await
}

async fn state(world: &World, proposal: &Proposal) -> ProposalState {
    let id = yaml(false, 1000).id.clone();
    let base = world.store().campaign(&id).await;
    let base = base.map_or_else(|_| ProposalBase::default(), |view| ProposalBase::of(&view));
    let known = world.store().proposals(&id).await.unwrap();
    let now = world.store().now().await.unwrap();
    known.get(&proposal.id).unwrap().state(base, now)
}

fn refusal<T: std::fmt::Debug>(result: Result<T>) -> Refusal {
    match result {
        Err(StoreError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// The authors of the entries of versions and of operators' acts, in order.
async fn authors(world: &World) -> Vec<Author> {
    let mut authors = Vec::new();
    for partition in 0..world.store().info().partitions {
        for entry in world.store().ledger(partition, 0, 1_000).await.unwrap() {
            match entry.body {
                Body::Applied(applied) => authors.push(applied.author),
                Body::Operated { author, .. } => authors.push(author),
                _ => {}
            }
        }
    }
    authors
}

async fn an_approved_version_comes_into_force_with_both_identities_in_its_entry(world: &mut World) {
    begin(world, true).await;
    let before = authors(world).await.len();
    let proposal = propose_stock(world, 2000, "p").await;
    assert_eq!(state(world, &proposal).await, ProposalState::Open);
    assert_eq!(
        authors(world).await.len(),
        before,
        "nothing has changed yet"
    );
    assert_eq!(world.prize("mug").await.stock, 1000);
    let approved = approve(world, &proposal, by("ben", "a")).await.unwrap();
    assert_eq!((approved.replayed, approved.version), (false, 2));
    assert_eq!(world.prize("mug").await.stock, 2000);
    assert_eq!(state(world, &proposal).await, ProposalState::Approved);
    let author = authors(world).await.pop().unwrap();
    assert_eq!(author.operator.as_str(), "ben");
    let proposed = author.approved.unwrap();
    assert_eq!(proposed.operator.as_str(), "ann");
    assert_eq!(proposed.reason, "ann says so");
    assert_eq!((&proposed.id, proposed.at), (&proposal.id, proposal.at));
    let id = yaml(true, 1000).id.clone();
    let view = world.store().campaign(&id).await.unwrap();
    let made = view.versions.last().unwrap();
    assert_eq!(made.operator.as_str(), "ben");
    assert_eq!(made.proposed_by.as_ref().unwrap().as_str(), "ann");
    assert_eq!(view.versions[0].proposed_by, None);
}

async fn a_new_campaign_can_be_proposed_and_approved(world: &mut World) {
    let proposal = propose_stock(world, 1000, "p").await;
    assert_eq!((proposal.base_version, version(world).await), (0, 0));
    let id = yaml(true, 1000).id.clone();
    let waiting = world.store().campaigns_with_proposals(None, 10).await;
    assert_eq!(waiting.unwrap(), std::slice::from_ref(&id));
    let after = world.store().campaigns_with_proposals(Some(&id), 10).await;
    assert_eq!(after.unwrap(), []);
    let approved = approve(world, &proposal, by("ben", "a")).await.unwrap();
    assert_eq!((approved.replayed, approved.version), (false, 1));
    let again = approve(world, &proposal, by("ben", "a")).await.unwrap();
    assert_eq!((again.replayed, again.ledger), (true, approved.ledger));
    let other = propose_stock(world, 3000, "p-2").await;
    assert_eq!(other.base_version, 1);
}

async fn a_close_and_a_recall_can_be_proposed_and_approved(world: &mut World) {
    begin(world, true).await;
    let recall = Operation::Recall {
        pool: PoolNo(0),
        window: None,
        prize: None,
        withdraw: true,
    };
    world.pass(hours(1)).await;
    world.tick().await;
    let reply = propose(world, Proposed::Operation(recall), by("ann", "r")).await;
    let proposal = reply.unwrap().proposal;
    approve(world, &proposal, by("ben", "ra")).await.unwrap();
    assert!(world.prize("mug").await.withdrawn > 0);
    let close = Proposed::Operation(Operation::Close);
    let proposal = propose(world, close, by("ann", "c"))
        .await
        .unwrap()
        .proposal;
    assert_eq!(state(world, &proposal).await, ProposalState::Open);
    approve(world, &proposal, by("ben", "ca")).await.unwrap();
    let view = world.store().campaign(&yaml(true, 1000).id).await.unwrap();
    assert_eq!(view.lifecycle, Lifecycle::Closed);
}

async fn nobody_approves_a_change_of_their_own(world: &mut World) {
    begin(world, true).await;
    let proposal = propose_stock(world, 2000, "p").await;
    let mut ann = by("ann", "a");
    ann.on_behalf_of = OperatorId::parse("operator", "ben").ok();
    for author in [by("ann", "p"), by("ann", "a"), ann] {
        let refused = refusal(approve(world, &proposal, author).await);
        assert!(matches!(refused, Refusal::OwnProposal(_)), "{refused:?}");
    }
    assert_eq!(world.prize("mug").await.stock, 1000);
    // Whoever proposed it may still end it.
    reject(world, &proposal, by("ann", "r")).await.unwrap();
    assert_eq!(state(world, &proposal).await, ProposalState::Rejected);
}

async fn names_that_are_not_proved_propose_and_approve_nothing(world: &mut World) {
    begin(world, false).await;
    let named = |request| Author {
        authenticated: false,
        ..by("cat", request)
    };
    let proposed = Proposed::Version(yaml(false, 2000));
    let refused = refusal(propose(world, proposed, named("p")).await);
    assert_eq!(refused, Refusal::IdentityNeeded);
    let proposal = propose_stock(world, 2000, "q").await;
    let refused = refusal(approve(world, &proposal, named("a")).await);
    assert_eq!(refused, Refusal::IdentityNeeded);
    let refused = refusal(reject(world, &proposal, named("r")).await);
    assert_eq!(refused, Refusal::IdentityNeeded);
    // The requirement would bind nobody.
    let refused = refusal(apply(world, &yaml(true, 1000), named("on")).await);
    assert_eq!(refused, Refusal::IdentityNeeded);
    apply(world, &yaml(false, 1500), named("change"))
        .await
        .unwrap();
}

async fn a_proposal_is_void_once_its_base_version_moved(world: &mut World) {
    begin(world, false).await;
    let recall = Operation::Recall {
        pool: PoolNo(0),
        window: None,
        prize: None,
        withdraw: false,
    };
    let version = propose_stock(world, 2000, "p").await;
    let recall = propose(world, Proposed::Operation(recall), by("ann", "r")).await;
    apply(world, &yaml(false, 1500), by("ann", "other"))
        .await
        .unwrap();
    for (request, proposal) in [("a", version), ("b", recall.unwrap().proposal)] {
        assert_eq!(state(world, &proposal).await, ProposalState::Void);
        let refused = refusal(approve(world, &proposal, by("ben", request)).await);
        let Refusal::ProposalVoid { why, .. } = refused else {
            panic!("{refused:?}");
        };
        assert!(why.contains("version 1"), "{why}");
        assert!(why.contains("at version 2"), "{why}");
    }
    assert_eq!(world.prize("mug").await.stock, 1500);
    let stale = ProposeCommand {
        campaign: yaml(false, 1000).id.clone(),
        base_version: 1,
        proposed: Proposed::Operation(Operation::Close),
        ttl: WEEK,
        author: by("ann", "stale"),
    };
    let refused = refusal(world.store().propose(stale).await);
    assert!(matches!(
        refused,
        Refusal::VersionStale {
            named: 1,
            current: 2
        }
    ));
}

async fn a_proposal_expires_and_is_removed_later(world: &mut World) {
    // Long before its start, so that it lasts.
    apply(world, &yaml(true, 1000), by("ann", "begin"))
        .await
        .unwrap();
    let proposal = propose_stock(world, 2000, "p").await;
    world.pass(WEEK - Duration::from_secs(1)).await;
    assert_eq!(state(world, &proposal).await, ProposalState::Open);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(state(world, &proposal).await, ProposalState::Expired);
    let refused = refusal(approve(world, &proposal, by("ben", "a")).await);
    assert!(
        matches!(refused, Refusal::ProposalVoid { .. }),
        "{refused:?}"
    );
    let id = yaml(true, 1000).id.clone();
    world.pass(DONE_PROPOSAL_KEPT).await;
    let next = propose_stock(world, 3000, "q").await;
    let known = world.store().proposals(&id).await.unwrap();
    let ids: Vec<_> = known.0.iter().map(|known| &known.id).collect();
    assert_eq!(ids, [&next.id]);
    let definition = world.store().proposed_definition(&id, &proposal.id).await;
    assert!(definition.unwrap().is_none());
    let refused = refusal(reject(world, &proposal, by("ben", "r")).await);
    assert!(
        matches!(refused, Refusal::ProposalNotFound(_)),
        "{refused:?}"
    );
}

async fn proposals_that_nobody_needs_leave_with_the_next_step(world: &mut World) {
    // So many that some share a partition with the other campaign.
    let others: Vec<_> = (0..16).map(|n| format!("other-{n}")).collect();
    let others: Vec<_> = others
        .iter()
        .map(|id| CampaignId::parse("campaign", id).unwrap())
        .collect();
    for id in &others {
        let mut campaign = Campaign::clone(&yaml(true, 1000));
        campaign.id = id.clone();
        let command = ProposeCommand {
            campaign: id.clone(),
            base_version: 0,
            proposed: Proposed::Version(Arc::new(campaign)),
            ttl: WEEK,
            author: by("ann", "p"),
        };
        world.store().propose(command).await.unwrap();
    }
    world.pass(WEEK + DONE_PROPOSAL_KEPT).await;
    propose_stock(world, 2000, "next").await;
    let mut left = 0;
    for id in &others {
        left += world.store().proposals(id).await.unwrap().0.len();
    }
    assert!(left < others.len(), "all of them are still there");
}

/// Nobody proposes anything in between, so the proposal itself may still be there.
async fn a_campaign_whose_proposals_nobody_needs_is_not_listed(world: &mut World) {
    propose_stock(world, 1000, "p").await;
    let id = yaml(true, 1000).id.clone();
    let second = Duration::from_secs(1);
    world.pass(WEEK + DONE_PROPOSAL_KEPT - second).await;
    let listed = world.store().campaigns_with_proposals(None, 10).await;
    assert_eq!(listed.unwrap(), [id]);
    world.pass(2 * second).await;
    let listed = world.store().campaigns_with_proposals(None, 10).await;
    assert_eq!(listed.unwrap(), []);
}

async fn parallel_approvals_apply_once(world: &mut World) {
    begin(world, true).await;
    let another = world.another_replica().await;
    let proposal = propose_stock(world, 2000, "p").await;
    let mut tasks = Vec::new();
    for n in 0..20 {
        let world = if n % 2 == 0 {
            world.clone()
        } else {
            another.clone()
        };
        let proposal = proposal.clone();
        tasks.push(tokio::spawn(async move {
            approve(&world, &proposal, by("ben", &format!("a-{n}"))).await
        }));
    }
    let mut approved = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(operated) => {
                assert_eq!((operated.replayed, operated.version), (false, 2));
                approved += 1;
            }
            Err(StoreError::Refused(
                Refusal::ProposalVoid { .. } | Refusal::VersionStale { .. },
            )) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!((approved, version(world).await), (1, 2));
}

async fn an_approval_and_a_rejection_at_once_have_one_winner(world: &mut World) {
    begin(world, true).await;
    for n in 0..10 {
        let another = world.another_replica().await;
        let proposal = propose_stock(world, 2000 + n, &format!("p-{n}")).await;
        let (a, r) = (format!("a-{n}"), format!("r-{n}"));
        let before = version(world).await;
        let (approved, rejected) = tokio::join!(
            approve(world, &proposal, by("ben", &a)),
            reject(&another, &proposal, by("cat", &r)),
        );
        assert_ne!(
            approved.is_ok(),
            rejected.is_ok(),
            "{approved:?} {rejected:?}"
        );
        let is_made = version(world).await == before + 1;
        assert_eq!(is_made, approved.is_ok());
        let wanted = match approved.is_ok() {
            true => ProposalState::Approved,
            false => ProposalState::Rejected,
        };
        assert_eq!(state(world, &proposal).await, wanted);
    }
}

async fn retries_are_answered_again_and_reused_ids_are_refused(world: &mut World) {
    begin(world, true).await;
    let first = propose_stock(world, 2000, "p").await;
    let again = Proposed::Version(yaml(true, 2000));
    let again = propose(world, again, by("ann", "p")).await.unwrap();
    assert_eq!((again.replayed, &again.proposal), (true, &first));
    let other = Proposed::Version(yaml(true, 2001));
    let refused = refusal(propose(world, other, by("ann", "p")).await);
    assert_eq!(refused, Refusal::RequestIdReused);
    let second = propose_stock(world, 2500, "p-2").await;
    let rejected = reject(world, &second, by("ben", "r")).await.unwrap();
    assert!(!rejected.replayed);
    world.reopen().await;
    let rejected = reject(world, &second, by("ben", "r")).await.unwrap();
    assert!(rejected.replayed);
    let approved = approve(world, &first, by("ben", "a")).await.unwrap();
    world.reopen().await;
    let again = approve(world, &first, by("ben", "a")).await.unwrap();
    assert_eq!((again.replayed, again.ledger), (true, approved.ledger));
    let third = propose_stock(world, 3000, "p-3").await;
    let refused = refusal(approve(world, &third, by("ben", "a")).await);
    assert_eq!(refused, Refusal::RequestIdReused);
    assert_eq!(version(world).await, 2);
}

async fn a_campaign_that_requires_approval_refuses_changes_by_one(world: &mut World) {
    begin(world, true).await;
    let refused = refusal(apply(world, &yaml(true, 2000), by("ann", "c")).await);
    assert_eq!(refused, Refusal::ApprovalNeeded);
    let operate = async |operation| {
        let author = by("ann", &format!("{operation:?}"));
        let command = OperateCommand {
            campaign: yaml(true, 1000).id.clone(),
            operation,
            blocks: Vec::new(),
            author,
        };
        world.injector().operate(command).await
    };
    let recall = Operation::Recall {
        pool: PoolNo(0),
        window: None,
        prize: None,
        withdraw: false,
    };
    for operation in [Operation::Close, recall] {
        assert_eq!(refusal(operate(operation).await), Refusal::ApprovalNeeded);
    }
    let prize = world.prize_no("mug").await;
    for operation in [
        Operation::Pause,
        Operation::Resume,
        Operation::PausePrize { prize },
        Operation::ResumePrize { prize },
    ] {
        operate(operation).await.unwrap();
    }
    world.draw(draw("u")).await;
    assert_eq!(version(world).await, 1);
}

async fn switching_the_requirement_off_needs_approval(world: &mut World) {
    begin(world, false).await;
    apply(world, &yaml(true, 1000), by("ann", "on"))
        .await
        .unwrap();
    let off = yaml(false, 1000);
    let refused = refusal(apply(world, &off, by("ann", "off")).await);
    assert_eq!(refused, Refusal::ApprovalNeeded);
    let proposal = propose(world, Proposed::Version(off), by("ann", "p")).await;
    let proposal = proposal.unwrap().proposal;
    approve(world, &proposal, by("ben", "a")).await.unwrap();
    apply(world, &yaml(false, 1500), by("ann", "alone"))
        .await
        .unwrap();
    assert_eq!(version(world).await, 4);
}

async fn open_proposals_are_bounded(world: &mut World) {
    begin(world, true).await;
    let mut proposals = Vec::new();
    for n in 0..OPEN_PROPOSALS_MAX as u32 {
        proposals.push(propose_stock(world, 2000 + n, &format!("p-{n}")).await);
    }
    let more = || Proposed::Version(yaml(true, 5000));
    let refused = refusal(propose(world, more(), by("ann", "more")).await);
    assert_eq!(refused, Refusal::TooManyProposals);
    reject(world, &proposals[0], by("ben", "r")).await.unwrap();
    propose(world, more(), by("ann", "more")).await.unwrap();
    // The approval of one makes all others void, so there is room again.
    approve(world, &proposals[1], by("ben", "a")).await.unwrap();
    propose_stock(world, 6000, "next").await;
    let known = world.store().proposals(&yaml(true, 1000).id).await.unwrap();
    assert_eq!(known.0.len(), 21, "one open, and the newest twenty others");
}

/// The proposals in between push the first one out of the list.
async fn an_id_never_stands_for_another_proposal(world: &mut World) {
    begin(world, true).await;
    let first = propose_stock(world, 2000, "r").await;
    let mut last = first.clone();
    for round in 0..=DONE_PROPOSALS_MAX {
        reject(world, &last, by("bob", &format!("no-{round}")))
            .await
            .unwrap();
        world.pass(minutes(1)).await;
        last = propose_stock(world, 2001, &format!("r-{round}")).await;
    }
    let again = propose_stock(world, 3000, "r").await;
    assert_ne!(again.id, first.id);
    let found = refusal(reject(world, &first, by("bob", "no")).await);
    assert!(matches!(found, Refusal::ProposalNotFound(_)), "{found:?}");
}

async fn proposals_of_a_closed_campaign_are_void(world: &mut World) {
    begin(world, false).await;
    let proposal = propose_stock(world, 2000, "p").await;
    world.operate(Operation::Close).await;
    assert_eq!(state(world, &proposal).await, ProposalState::Void);
    let refused = refusal(approve(world, &proposal, by("ben", "a")).await);
    assert!(
        matches!(refused, Refusal::ProposalVoid { .. }),
        "{refused:?}"
    );
    let close = Proposed::Operation(Operation::Close);
    let refused = refusal(propose(world, close, by("ann", "c")).await);
    assert_eq!(refused, Refusal::Closed);
}

async fn proposals_survive_a_restart_and_leave_with_the_campaign(world: &mut World) {
    begin(world, false).await;
    let proposal = propose_stock(world, 2000, "p").await;
    world.reopen().await;
    assert_eq!(state(world, &proposal).await, ProposalState::Open);
    let id = yaml(false, 1000).id.clone();
    world.operate(Operation::Close).await;
    world.tick().await;
    super::removals::remove(world, &id).await;
    assert!(world.store().proposals(&id).await.unwrap().0.is_empty());
    let definition = world.store().proposed_definition(&id, &proposal.id).await;
    assert!(definition.unwrap().is_none());
    let listed = world.store().campaigns_with_proposals(None, 10).await;
    assert!(listed.unwrap().is_empty());
    let command = ProposeCommand {
        campaign: id,
        base_version: 0,
        proposed: Proposed::Version(yaml(false, 1000)),
        ttl: WEEK,
        author: by("ann", "anew"),
    };
    let refused = refusal(world.store().propose(command).await);
    assert!(matches!(refused, Refusal::Removed { .. }), "{refused:?}");
}
