//! The injector: computes units from plans and seeds, and puts them into the store's pools, ahead
//! of time or when a draw needs them. It also takes units back.
//!
//! Every step can be repeated, and the store checks that it still applies. So any number of
//! injectors may run at once, and any may die at any moment. Cron ([`alarm`]) only wakes the
//! injector; the records in the store say what is to be done.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tracing::warn;

use self::{
    chances::Chances,
    codes::Codes,
    envelope_state::EnvelopeFills,
    scattering::Scattering,
    totals::Totals,
    turns::{Turn, Turns},
};
use crate::{
    chance::{MasterKey, Nonce, Seed},
    model::{Campaign, CampaignId, Moment, PoolNo},
    store::{
        ApplyCommand, ApproveCommand, Author, CampaignView, Change, Filling, Lifecycle,
        OperateCommand, Operated, Operation, Result, Store, fill::PoolFilling,
    },
};

pub use envelope_state::RETENTION_DEFAULT as ENVELOPE_RETENTION_DEFAULT;
pub use imported::{ImportCodes, ImportedCodes};

pub mod alarm;
mod chances;
mod codes;
mod decks;
mod draw;
mod envelope_state;
mod envelopes;
mod imported;
mod removal;
mod scattering;
mod schedules;
mod splits;
mod tick;
mod totals;
mod turns;

/// How long a new version waits for its hours to be filled, and a recall or an end for its units,
/// before they are answered.
const APPLY_PATIENCE: Duration = Duration::from_secs(2);
const SWEEP_PATIENCE: Duration = Duration::from_secs(30);

/// Fills and empties pools.
pub struct Injector {
    store: Arc<dyn Store>,
    key: MasterKey,
    lead: Duration,
    totals: Totals,
    turns: Turns<(CampaignId, PoolNo)>,
    envelopes: EnvelopeFills,
    scattering: Scattering,
    codes: Codes,
    chances: Chances,
    /// A busy deck is dealt ahead by how fast draws take its cards.
    watches_draws: bool,
    /// When the index of due campaigns was last looked through for campaigns that it lacks.
    completed: Mutex<Option<Moment>>,
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
            envelopes: EnvelopeFills::default(),
            scattering: Scattering::default(),
            codes: Codes::default(),
            chances: Chances::default(),
            watches_draws: true,
            completed: Mutex::default(),
        }
    }

    /// The same injector, which keeps envelopes for `retention` after their refund or last grab.
    #[must_use]
    pub fn keeping_envelopes(mut self, retention: Duration) -> Self {
        self.envelopes.retention = retention;
        self
    }

    /// The same injector, which does not watch how fast draws take cards. In a simulation draws
    /// follow a clock that stands between them, so their speed says nothing, and its runtime has no
    /// timers to watch them with.
    #[must_use]
    pub fn not_watching_draws(mut self) -> Self {
        self.watches_draws = false;
        self
    }

    /// The master key of the store.
    pub fn key(&self) -> &MasterKey {
        &self.key
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
        let command = self.new_version(campaign, base_version, author);
        let operated = self.store.apply(command).await?;
        self.follow_up(id, APPLY_PATIENCE).await;
        Ok(operated)
    }

    /// Approves a proposal, which makes its change, and does what follows from that.
    pub async fn approve(self: &Arc<Self>, command: ApproveCommand) -> Result<Operated> {
        let id = command.change.campaign().clone();
        let patience = match &command.change {
            Change::Version(_) => APPLY_PATIENCE,
            Change::Operation(_) => SWEEP_PATIENCE,
        };
        let operated = self.store.approve(command).await?;
        self.follow_up(id, patience).await;
        Ok(operated)
    }

    /// The command that makes a new campaign or version.
    pub fn new_version(
        &self,
        campaign: Arc<Campaign>,
        base_version: u32,
        author: Author,
    ) -> ApplyCommand {
        let nonce = Nonce(rand::random());
        let commitment = self.key.campaign_seed(&campaign.id, &nonce).commitment();
        ApplyCommand {
            campaign,
            base_version,
            nonce,
            commitment,
            author,
        }
    }

    /// Does an operator's act, and what follows from it: recalled units are taken back, a closed
    /// campaign's units returned.
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

    /// Settles a campaign in a task of its own; the caller waits for it only for a bounded time.
    /// The act itself is done already, and the next tick goes on where this stops.
    async fn follow_up(self: &Arc<Self>, id: CampaignId, patience: Duration) {
        let injector = Arc::clone(self);
        let settled = tokio::spawn(async move {
            if let Err(error) = injector.settle(&id).await {
                warn!(campaign = %id, %error, "campaign {id} is not settled yet");
            }
        });
        // The task goes on after the caller has stopped waiting.
        let _ = tokio::time::timeout(patience, settled).await;
    }

    /// Brings the pools of one campaign to where they should be now: due windows filled, recalls
    /// and returns done, an ended campaign's units returned. True if there was something to do.
    pub async fn settle(&self, id: &CampaignId) -> Result<bool> {
        let filling = self.store.filling(id).await?;
        self.settle_from(&filling).await
    }

    /// The same, for a campaign that has just been read.
    async fn settle_from(&self, filling: &Filling) -> Result<bool> {
        let (view, id) = (&filling.view, &filling.view.campaign.id);
        if view.lifecycle == Lifecycle::Closed {
            return Ok(false);
        }
        if view.has_ended(self.store.clock_hint()) {
            self.end(id).await?;
            return Ok(true);
        }
        let mut any = false;
        for ((pool, _), filling) in view.campaign.numbered_pools().zip(&filling.pools) {
            if let PoolFilling::Schedule(filling) = filling
                && !self.is_settled(view, pool, filling)
            {
                any |= self.settle_schedule(id, pool).await?;
            }
        }
        Ok(any)
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
