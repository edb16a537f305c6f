//! The end of a campaign's data.

use std::time::Duration;

use async_trait::async_trait;

use super::{MemoryStore, core::Core, ledger::PARTITION};
use crate::{
    model::{CampaignId, Moment},
    store::{ClosedCampaign, RemovalFence, RemovalStore, Result, removal::REMOVED_FIELDS_MAX},
};

#[async_trait]
impl RemovalStore for MemoryStore {
    async fn closed_campaigns(
        &self,
        partition: u32,
        keep: Duration,
        after: Option<&ClosedCampaign>,
        limit: usize,
    ) -> Result<Vec<ClosedCampaign>> {
        if partition != PARTITION {
            return Ok(Vec::new());
        }
        Ok(self.turn().await?.closed_campaigns(keep, after, limit))
    }

    async fn begin_removal(&self, id: &CampaignId, fence: &RemovalFence) -> Result<bool> {
        self.turn().await?.begin_removal(id, fence)
    }

    async fn remove_some(&self, id: &CampaignId) -> Result<bool> {
        Ok(self.turn().await?.remove_some(id))
    }
}

impl Core {
    fn closed_campaigns(
        &mut self,
        keep: Duration,
        after: Option<&ClosedCampaign>,
        limit: usize,
    ) -> Vec<ClosedCampaign> {
        let latest = ClosedCampaign::latest(self.now(), keep);
        let order = |closed: &ClosedCampaign| (closed.since, closed.id.clone());
        let after = after.map(order);
        let leaving = self.leaving.keys().map(|id| (id, Moment::EPOCH));
        let closed = self.campaigns.iter();
        let closed = closed.filter_map(|(id, campaign)| Some((id, campaign.closed?)));
        let mut closed: Vec<_> = leaving
            .chain(closed)
            .filter(|(_, since)| *since <= latest)
            .map(|(id, since)| ClosedCampaign {
                since,
                id: id.clone(),
            })
            .filter(|closed| after.as_ref().is_none_or(|after| order(closed) > *after))
            .collect();
        closed.sort_unstable_by_key(order);
        closed.truncate(limit);
        closed
    }

    fn begin_removal(&mut self, id: &CampaignId, fence: &RemovalFence) -> Result<bool> {
        let latest = ClosedCampaign::latest(self.now(), self.request_memory);
        let campaign = self.campaign(id)?;
        let is_closed = campaign.closed.is_some_and(|since| since <= latest);
        if !is_closed || self.ledger.entries_of(id) != fence.entries {
            return Ok(false);
        }
        let end = campaign.state.view.campaign.end;
        self.removed_campaigns.insert(id.clone(), end);
        if let Some(campaign) = self.campaigns.remove(id) {
            self.leaving.insert(id.clone(), campaign);
        }
        Ok(true)
    }

    fn remove_some(&mut self, id: &CampaignId) -> bool {
        let Some(campaign) = self.leaving.get_mut(id) else {
            return false;
        };
        let users = campaign.users.keys().take(REMOVED_FIELDS_MAX).cloned();
        for user in users.collect::<Vec<_>>() {
            campaign.users.remove(&user);
        }
        if !campaign.users.is_empty() {
            return true;
        }
        self.leaving.remove(id);
        self.proposals.remove(id);
        self.salts.remove(id.as_str());
        false
    }
}
