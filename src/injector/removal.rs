//! Removals: what is left in the store of campaigns that have a tombstone, whoever wrote it.

use std::time::Duration;

use tracing::{info, warn};

use super::Injector;
use crate::{
    model::CampaignId,
    store::{ClosedCampaign, Result},
};

/// Campaigns that are read at once.
const PAGE: usize = 32;
/// Steps of a removal at a tick, which has other work too. The next tick goes on.
const STEPS: usize = 100;

impl Injector {
    /// Removes what is left of the campaigns of a partition that have a tombstone, some of each;
    /// goes on after a failure and returns the first one.
    pub(super) async fn finish_removals(&self, partition: u32) -> Result<()> {
        let mut outcome = Ok(());
        let mut after: Option<ClosedCampaign> = None;
        loop {
            // Of closed campaigns only those that are leaving are asked for.
            let page = self
                .store
                .closed_campaigns(partition, Duration::MAX, after.as_ref(), PAGE)
                .await?;
            let is_last = page.len() < PAGE;
            after = page.last().cloned();
            for closed in page.iter().filter(|closed| closed.is_leaving()) {
                let id = &closed.id;
                let removed = self.finish_removal(id).await;
                if let Err(error) = &removed {
                    warn!(campaign = %id, %error, "campaign {id} could not be removed");
                }
                outcome = outcome.and(removed);
            }
            if is_last {
                return outcome;
            }
        }
    }

    async fn finish_removal(&self, id: &CampaignId) -> Result<()> {
        for _ in 0..STEPS {
            if !self.store.remove_some(id).await? {
                info!(campaign = %id, "the data of campaign {id} have left the store");
                break;
            }
        }
        Ok(())
    }
}
