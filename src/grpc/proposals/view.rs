//! A proposal as clients see it.

use super::{Result, views};
use crate::{
    model::{Campaign, CampaignId, Moment, convert::moment_to_proto},
    proto,
    store::{
        Operation, Proposal, ProposalBase, ProposalState, ProposedAct, Refusal, Store, StoreError,
    },
};

/// A proposal as it stands.
pub(super) async fn view(
    store: &dyn Store,
    id: &CampaignId,
    known: &Proposal,
) -> Result<proto::Proposal> {
    let (base, campaign) = match store.campaign(id).await {
        Ok(view) => (ProposalBase::of(&view), Some(view.campaign)),
        Err(StoreError::Refused(Refusal::CampaignNotFound | Refusal::Removed { .. })) => {
            (ProposalBase::default(), None)
        }
        Err(error) => return Err(error.into()),
    };
    let recall = match &known.act {
        ProposedAct::Operation(operation) => match campaign {
            Some(current) if base.version == known.base_version => recall(operation, &current),
            Some(_) => recall(operation, &*store.version(id, known.base_version).await?),
            None => None,
        },
        ProposedAct::Version(_) => None,
    };
    let now = store.read_time().await?;
    Ok(message(id, known, known.state(base, now), recall))
}

fn recall(operation: &Operation, campaign: &Campaign) -> Option<proto::ProposedRecall> {
    let Operation::Recall {
        pool,
        window,
        prize,
        withdraw,
    } = operation
    else {
        return None;
    };
    Some(proto::ProposedRecall {
        pool_id: views::pool_id(campaign, *pool),
        window_start_time: window.map(moment_to_proto),
        prize_id: prize.map_or_else(String::new, |no| campaign.prize(no).id.to_string()),
        withdraw: *withdraw,
    })
}

fn message(
    id: &CampaignId,
    known: &Proposal,
    state: ProposalState,
    recall: Option<proto::ProposedRecall>,
) -> proto::Proposal {
    let author = &known.author;
    let on_behalf_of = author.on_behalf_of.as_ref();
    let decision = known.decision.as_ref();
    let moment = |at: Moment| Some(moment_to_proto(at));
    proto::Proposal {
        campaign_id: id.to_string(),
        proposal_id: known.id.to_string(),
        state: proto::ProposalState::from(state).into(),
        act: match &known.act {
            ProposedAct::Version(_) => proto::ProposedAct::Apply,
            ProposedAct::Operation(Operation::Recall { .. }) => proto::ProposedAct::Recall,
            ProposedAct::Operation(_) => proto::ProposedAct::Close,
        }
        .into(),
        base_version: known.base_version,
        operator: author.operator.as_str().into(),
        on_behalf_of: on_behalf_of.map_or_else(String::new, |by| by.as_str().into()),
        reason: author.reason.clone(),
        propose_time: moment(known.at),
        expire_time: moment(known.expires),
        decided_by: decision.map_or_else(String::new, |it| it.author.operator.as_str().into()),
        decision_reason: decision.map_or_else(String::new, |it| it.author.reason.clone()),
        decide_time: decision.and_then(|it| moment(it.at)),
        recall,
    }
}

impl From<ProposalState> for proto::ProposalState {
    fn from(state: ProposalState) -> Self {
        match state {
            ProposalState::Open => Self::Open,
            ProposalState::Approved => Self::Approved,
            ProposalState::Rejected => Self::Rejected,
            ProposalState::Expired => Self::Expired,
            ProposalState::Void => Self::Void,
        }
    }
}
