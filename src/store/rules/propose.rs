//! Proposals: who may approve what, and until when.

use crate::{
    model::Moment,
    store::{
        Approved, Author, Change, Refusal, Result, StoreError,
        proposal::{
            ApproveCommand, DONE_PROPOSAL_KEPT, DONE_PROPOSALS_MAX, Decision, OPEN_PROPOSALS_MAX,
            Proposal, ProposalBase, ProposalId, ProposalReply, ProposalState, Proposals,
            ProposeCommand, Proposed, ProposedAct, RejectCommand,
        },
    },
};

use super::apply::digest;

/// Adds a proposal to those of its campaign; those that are no longer needed leave.
pub(in crate::store) fn propose(
    proposals: &mut Proposals,
    command: &ProposeCommand,
    base: ProposalBase,
    now: Moment,
) -> Result<ProposalReply> {
    refuse_unproved(&command.author)?;
    let request = &command.author.request;
    let act = match &command.proposed {
        Proposed::Version(campaign) => ProposedAct::Version(digest(campaign)),
        Proposed::Operation(operation) => ProposedAct::Operation(operation.clone()),
    };
    if let Some(known) = proposals.of_request(request) {
        if known.act != act || known.base_version != command.base_version {
            return Err(Refusal::RequestIdReused.into());
        }
        return Ok(ProposalReply {
            proposal: known.clone(),
            replayed: true,
        });
    }
    if base.is_closed {
        return Err(Refusal::Closed.into());
    }
    if base.version != command.base_version {
        return Err(Refusal::VersionStale {
            named: command.base_version,
            current: base.version,
        }
        .into());
    }
    tidy(proposals, base, now);
    let is_open = |known: &&Proposal| known.state(base, now) == ProposalState::Open;
    if proposals.0.iter().filter(is_open).count() >= OPEN_PROPOSALS_MAX {
        return Err(Refusal::TooManyProposals.into());
    }
    let id = ProposalId::of(request, now);
    if proposals.get(&id).is_some() {
        return Err(Refusal::RequestIdReused.into());
    }
    let proposal = Proposal {
        id,
        act,
        base_version: command.base_version,
        at: now,
        expires: now + command.ttl,
        author: command.author.clone(),
        decision: None,
    };
    proposals.0.push(proposal.clone());
    Ok(ProposalReply {
        proposal,
        replayed: false,
    })
}

/// Removes proposals that are no longer open: those that ended long ago, and the oldest of too
/// many.
fn tidy(proposals: &mut Proposals, base: ProposalBase, now: Moment) {
    let is_open = |known: &Proposal| known.state(base, now) == ProposalState::Open;
    let is_recent = |known: &Proposal| known.ended_by() + DONE_PROPOSAL_KEPT > now;
    let list = &mut proposals.0;
    list.retain(|known| is_open(known) || is_recent(known));
    let done = list.iter().filter(|known| !is_open(known)).count();
    let mut too_many = done.saturating_sub(DONE_PROPOSALS_MAX);
    list.retain(|known| {
        let leaves = !is_open(known) && too_many > 0;
        too_many -= usize::from(leaves);
        !leaves
    });
}

/// Notes that a proposal is approved; the change that is to be made, by an author who names the
/// proposal.
pub(in crate::store) fn approve(
    proposals: &mut Proposals,
    command: &ApproveCommand,
    base: ProposalBase,
    now: Moment,
) -> Result<Change> {
    let author = command.change.author();
    refuse_unproved(author)?;
    let known = find(proposals, &command.proposal)?;
    refuse_done(known, base, now)?;
    if known.author.operator == author.operator {
        return Err(Refusal::OwnProposal(author.operator.clone()).into());
    }
    let is_same = match (&command.change, &known.act) {
        (Change::Version(command), ProposedAct::Version(sha256)) => {
            command.base_version == known.base_version && digest(&command.campaign) == *sha256
        }
        (Change::Operation(command), ProposedAct::Operation(operation)) => {
            command.operation == *operation
        }
        _ => false,
    };
    if !is_same {
        let id = &known.id;
        let text = format!("what is approved is not what the proposal {id} says");
        return Err(StoreError::corrupt(text));
    }
    known.decision = Some(Decision {
        approved: true,
        at: now,
        author: author.clone(),
    });
    let approved = Approved {
        id: known.id.clone(),
        operator: known.author.operator.clone(),
        on_behalf_of: known.author.on_behalf_of.clone(),
        reason: known.author.reason.clone(),
        at: known.at,
    };
    let mut change = command.change.clone();
    change.author_mut().approved = Some(Box::new(approved));
    Ok(change)
}

/// Notes that a proposal is rejected.
pub(in crate::store) fn reject(
    proposals: &mut Proposals,
    command: &RejectCommand,
    base: ProposalBase,
    now: Moment,
) -> Result<ProposalReply> {
    refuse_unproved(&command.author)?;
    let known = find(proposals, &command.proposal)?;
    if let Some(decision) = &known.decision
        && !decision.approved
        && decision.author.request == command.author.request
    {
        return Ok(ProposalReply {
            proposal: known.clone(),
            replayed: true,
        });
    }
    refuse_done(known, base, now)?;
    known.decision = Some(Decision {
        approved: false,
        at: now,
        author: command.author.clone(),
    });
    Ok(ProposalReply {
        proposal: known.clone(),
        replayed: false,
    })
}

/// Only an identity can be told from another one.
fn refuse_unproved(author: &Author) -> Result<()> {
    match author.authenticated {
        true => Ok(()),
        false => Err(Refusal::IdentityNeeded.into()),
    }
}

fn find<'a>(proposals: &'a mut Proposals, id: &ProposalId) -> Result<&'a mut Proposal> {
    let found = proposals.0.iter_mut().find(|known| known.id == *id);
    found.ok_or_else(|| Refusal::ProposalNotFound(id.to_string()).into())
}

fn refuse_done(known: &Proposal, base: ProposalBase, now: Moment) -> Result<()> {
    let decided_at = known.decision.as_ref().map_or(now, |decision| decision.at);
    let why = match known.state(base, now) {
        ProposalState::Open => return Ok(()),
        ProposalState::Approved => format!("was approved at {decided_at}"),
        ProposalState::Rejected => format!("was rejected at {decided_at}"),
        ProposalState::Expired => format!("expired at {}", known.expires),
        ProposalState::Void if base.is_closed => "is void: the campaign was closed".to_owned(),
        ProposalState::Void => format!(
            "changes version {} of the campaign, which is at version {} now",
            known.base_version, base.version
        ),
    };
    let id = known.id.to_string();
    Err(Refusal::ProposalVoid { id, why }.into())
}

/// A change of a campaign that needs an approval has one.
pub(super) fn refuse_unapproved(is_required: bool, author: &Author) -> Result<()> {
    match is_required && author.approved.is_none() {
        true => Err(Refusal::ApprovalNeeded.into()),
        false => Ok(()),
    }
}

/// Approvals can only be required where identities are known.
pub(super) fn refuse_unverifiable(is_required: bool, author: &Author) -> Result<()> {
    match is_required {
        true => refuse_unproved(author),
        false => Ok(()),
    }
}
