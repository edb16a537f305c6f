//! Proposals of changes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use async_trait::async_trait;

use super::{MemoryStore, core::Core};
use crate::{
    model::{Campaign, CampaignId},
    store::{
        ApproveCommand, Change, Operated, ProposalBase, ProposalId, ProposalReply, ProposalStore,
        Proposals, ProposeCommand, Proposed, Refusal, RejectCommand, Result, rules,
    },
};

/// The proposals of a campaign.
#[derive(Clone, Default)]
pub(super) struct Kept {
    list: Proposals,
    definitions: HashMap<ProposalId, Arc<Campaign>>,
}

/// By campaign.
pub(super) type AllProposals = BTreeMap<CampaignId, Kept>;

#[async_trait]
impl ProposalStore for MemoryStore {
    async fn propose(&self, command: ProposeCommand) -> Result<ProposalReply> {
        self.turn().await?.propose(&command)
    }

    async fn approve(&self, command: ApproveCommand) -> Result<Operated> {
        self.turn().await?.approve(&command)
    }

    async fn reject(&self, command: RejectCommand) -> Result<ProposalReply> {
        self.turn().await?.reject(&command)
    }

    async fn proposals(&self, campaign: &CampaignId) -> Result<Proposals> {
        let core = self.turn().await?;
        Ok(core
            .proposals
            .get(campaign)
            .map_or_else(Proposals::default, |kept| kept.list.clone()))
    }

    async fn proposed_definition(
        &self,
        campaign: &CampaignId,
        proposal: &ProposalId,
    ) -> Result<Option<Arc<Campaign>>> {
        let core = self.turn().await?;
        let kept = core.proposals.get(campaign);
        Ok(kept.and_then(|kept| kept.definitions.get(proposal).cloned()))
    }

    async fn campaigns_with_proposals(
        &self,
        after: Option<&CampaignId>,
        limit: usize,
    ) -> Result<Vec<CampaignId>> {
        let mut core = self.turn().await?;
        let now = core.now();
        // What nobody needs any more stays in the map until the next proposal.
        let kept = core.proposals.iter();
        let kept = kept.filter(|(_, kept)| kept.list.kept_until() >= now);
        let ids = kept.map(|(id, _)| id);
        let ids = ids.filter(|id| after.is_none_or(|after| *id > after));
        Ok(ids.take(limit).cloned().collect())
    }
}

impl Core {
    fn proposal_base(&self, id: &CampaignId) -> Result<ProposalBase> {
        match self.campaigns.get(id) {
            Some(campaign) => Ok(ProposalBase::of(&campaign.state.view)),
            None => match self.not_found(id) {
                Refusal::CampaignNotFound => Ok(ProposalBase::default()),
                removed => Err(removed.into()),
            },
        }
    }

    fn propose(&mut self, command: &ProposeCommand) -> Result<ProposalReply> {
        let now = self.now();
        self.proposals
            .retain(|_, kept| kept.list.kept_until() > now);
        let base = self.proposal_base(&command.campaign)?;
        let mut kept = self.kept(&command.campaign);
        let reply = rules::propose(&mut kept.list, command, base, now)?;
        if let (Proposed::Version(campaign), false) = (&command.proposed, reply.replayed) {
            let id = reply.proposal.id.clone();
            kept.definitions.insert(id, Arc::clone(campaign));
        }
        self.keep(&command.campaign, kept);
        Ok(reply)
    }

    fn approve(&mut self, command: &ApproveCommand) -> Result<Operated> {
        let (id, now) = (command.change.campaign(), self.now());
        if self.campaigns.contains_key(id) {
            let is_same = |body: &_| rules::is_same_approval(body, command);
            let request = &command.change.author().request;
            if let Some(operated) = self.replay_of(id, request, is_same)? {
                return Ok(operated);
            }
        }
        let base = self.proposal_base(id)?;
        let mut kept = self.kept(id);
        let operated = match rules::approve(&mut kept.list, command, base, now)? {
            Change::Version(command) => self.apply(&command)?,
            Change::Operation(command) => self.operate(&command)?,
        };
        self.keep(id, kept);
        Ok(operated)
    }

    fn reject(&mut self, command: &RejectCommand) -> Result<ProposalReply> {
        let now = self.now();
        let base = self.proposal_base(&command.campaign)?;
        let mut kept = self.kept(&command.campaign);
        let reply = rules::reject(&mut kept.list, command, base, now)?;
        self.keep(&command.campaign, kept);
        Ok(reply)
    }

    fn kept(&self, id: &CampaignId) -> Kept {
        self.proposals.get(id).cloned().unwrap_or_default()
    }

    fn keep(&mut self, id: &CampaignId, mut kept: Kept) {
        let list = &kept.list;
        kept.definitions.retain(|id, _| list.get(id).is_some());
        self.proposals.insert(id.clone(), kept);
    }
}
