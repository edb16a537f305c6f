//! Plan to windows to store: fills pools ahead of time, on need, and after a time away; takes units back.
//!
//! Everything is idempotent and fenced by the store, so any number of injectors may run at once and any may die at any moment.
//! Cron ([`alarm`]) only wakes it; what counts are the records in the store.

use std::{sync::Arc, time::Duration};

use tracing::warn;

use self::{
    scattering::Scattering,
    totals::Totals,
    turns::{Turn, Turns},
};
use crate::{
    chance::{MasterKey, Nonce, Seed},
    model::{Campaign, CampaignId, PoolNo},
    store::{
        ApplyCommand, Author, CampaignView, Lifecycle, OperateCommand, Operated, Operation, Result,
        Store,
    },
};

pub use envelopes::RETENTION_DEFAULT as ENVELOPE_RETENTION_DEFAULT;

pub mod alarm;
mod decks;
mod draw;
mod envelopes;
mod scattering;
mod schedules;
mod splits;
mod totals;
mod turns;

/// Campaigns read at once.
const PAGE: usize = 100;
/// How long a new version waits for its hours to be filled, and a recall or an end for its units, before they are answered.
const APPLY_PATIENCE: Duration = Duration::from_secs(2);
const SWEEP_PATIENCE: Duration = Duration::from_secs(30);

/// Fills and empties pools.
pub struct Injector {
    store: Arc<dyn Store>,
    key: MasterKey,
    lead: Duration,
    totals: Totals,
    turns: Turns<(CampaignId, PoolNo)>,
    envelopes: envelopes::Envelopes,
    scattering: Scattering,
}

impl Injector {
    /// An injector that freezes each window `lead` before its start.
    pub fn new(store: Arc<dyn Store>, key: MasterKey, lead: Duration) -> Self {
        Self {
            store,
            key,
            lead,
            totals: Totals::default(),
            turns: Turns::default(),
            envelopes: envelopes::Envelopes::default(),
            scattering: Scattering::default(),
        }
    }

    /// The same injector, which keeps envelopes so long after their refund or their last grab.
    #[must_use]
    pub fn keeping_envelopes(mut self, retention: Duration) -> Self {
        self.envelopes.retention = retention;
        self
    }

    /// How long before its start a window is injected.
    pub fn lead(&self) -> Duration {
        self.lead
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The seed of a campaign.
    pub fn seed(&self, view: &CampaignView) -> Seed {
        self.key.campaign_seed(&view.campaign.id, &view.nonce)
    }

    /// Creates a campaign or a new version of one, and brings its injected windows to the new plan.
    pub async fn apply(
        self: &Arc<Self>,
        campaign: Arc<Campaign>,
        base_version: u32,
        author: Author,
    ) -> Result<Operated> {
        let id = campaign.id.clone();
        let nonce = Nonce(rand::random());
        let commitment = self.key.campaign_seed(&id, &nonce).commitment();
        let operated = self
            .store
            .apply(ApplyCommand {
                campaign,
                base_version,
                nonce,
                commitment,
                author,
            })
            .await?;
        self.follow_up(id, APPLY_PATIENCE).await;
        Ok(operated)
    }

    /// Does an operator's act, and what follows from it: recalled units are taken back, a closed campaign's units returned.
    pub async fn operate(self: &Arc<Self>, command: OperateCommand) -> Result<Operated> {
        let id = command.campaign.clone();
        let has_sequel = matches!(
            command.operation,
            Operation::Recall { .. } | Operation::Close
        );
        let operated = self.store.operate(command).await?;
        if has_sequel {
            self.follow_up(id, SWEEP_PATIENCE).await;
        }
        Ok(operated)
    }

    /// Settles a campaign beside the caller, who waits for it at most so long: the act is done and acknowledged whatever
    /// happens here, and the next tick goes on where this stops.
    async fn follow_up(self: &Arc<Self>, id: CampaignId, patience: Duration) {
        let injector = Arc::clone(self);
        let settled = tokio::spawn(async move {
            if let Err(error) = injector.settle(&id).await {
                warn!(campaign = %id, %error, "campaign {id} is not settled yet");
            }
        });
        // It goes on by itself where the patience ends.
        let _ = tokio::time::timeout(patience, settled).await;
    }

    /// Brings the pools of one campaign to where they should be now: due windows filled, recalls and returns done, an ended
    /// campaign's units returned.
    pub async fn settle(&self, id: &CampaignId) -> Result<()> {
        let view = self.store.campaign(id).await?;
        if view.lifecycle == Lifecycle::Closed {
            return Ok(());
        }
        if view.has_ended(self.store.clock_hint()) {
            return self.end(id).await;
        }
        for (pool, definition) in view.campaign.numbered_pools() {
            if matches!(definition.kind, crate::model::PoolKind::Schedule(_)) {
                self.settle_schedule(id, pool).await?;
            }
        }
        Ok(())
    }

    /// Settles every campaign that is not closed and every envelope that is due, and forgets old requests; goes on after a failure and tells the first one.
    pub async fn tick(self: &Arc<Self>) -> Result<()> {
        let mut outcome = Ok(());
        for partition in 0..self.store.info().partitions {
            let settled = self.settle_partition(partition).await;
            outcome = outcome.and(settled);
            let settled = self.settle_envelopes(partition).await;
            outcome = outcome.and(settled);
        }
        while self.store.forget().await? {}
        outcome
    }

    async fn settle_partition(&self, partition: u32) -> Result<()> {
        let mut outcome = Ok(());
        let mut after: Option<CampaignId> = None;
        loop {
            let from = after.as_ref().map(CampaignId::as_str);
            let page = self.store.campaign_ids(partition, from, PAGE).await?;
            let Some(last) = page.last() else {
                return outcome;
            };
            after = Some(last.clone());
            for id in page {
                if let Err(error) = self.settle(&id).await {
                    warn!(campaign = %id, %error, "campaign {id} could not be settled");
                    outcome = outcome.and(Err(error));
                }
            }
        }
    }

    /// Returns every unit of a campaign that has ended.
    async fn end(&self, id: &CampaignId) -> Result<()> {
        while self
            .store
            .sweep(id, crate::store::Sweep::Ending)
            .await?
            .more
        {}
        Ok(())
    }

    /// The turn of a pool's fill in this process.
    fn turn(&self, id: &CampaignId, pool: PoolNo) -> Arc<Turn> {
        self.turns.get(&(id.clone(), pool))
    }
}
