//! A store in memory: plain maps behind one lock, for tests and simulations. It keeps nothing: what
//! it holds is gone when it is dropped.
//!
//! The rules and the views are those of the other stores. A step reads and decides first, and
//! changes the maps last, so what a rule refuses leaves nothing.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;

mod bonus;
mod campaign;
mod codes;
mod core;
mod draw;
mod envelope;
mod envelopes;
mod ledger;
mod proposals;
mod queue;
mod read;
mod removal;
mod settling;
mod steps;

use self::{
    core::Core,
    ledger::{Ledger, PARTITION, id as ledger_id},
};
use super::{
    AdjustCommand, ApplyCommand, BlockedUsers, BonusAnswer, BonusCommand, CampaignView,
    DealCommand, DrawAnswer, DrawCommand, Drawn, DueCampaign, Durability, Entry, Executed,
    FillCommand, Filled, Filling, FreezeCommand, OperateCommand, Operated, Result, Stats, Step,
    Store, StoreError, StoreInfo, Sweep, Swept, UserDetails, UserView, WinCommand, WinOperated,
    WindowView, clock::Clock, rules,
};
use crate::model::{Campaign, CampaignId, Moment, PoolNo, RequestId, UserId};

/// A store in memory.
pub struct MemoryStore {
    info: StoreInfo,
    core: Mutex<Core>,
}

impl MemoryStore {
    /// An empty store on a clock. Request ids are remembered for `request_memory`.
    pub fn new(clock: Arc<dyn Clock>, request_memory: Duration) -> Self {
        Self {
            info: StoreInfo {
                store_id: "memory".into(),
                durability: Durability::Volatile,
                test_clock: clock.is_test(),
                clock_speed: clock.speed(),
                partitions: 1,
            },
            core: Mutex::new(Core::new(clock, request_memory)),
        }
    }

    /// An empty store for a simulation, on a clock: it forgets requests at once, and its ledger
    /// numbers entries and keeps none. All else is as in any store.
    pub fn forgetful(clock: Arc<dyn Clock>) -> Self {
        let store = Self::new(clock, Duration::ZERO);
        store
            .core
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .ledger = Ledger::forgetful();
        store
    }

    /// The maps, for a step or a read: other tasks go on before it, as they do while another store
    /// waits for its disk.
    async fn turn(&self) -> Result<MutexGuard<'_, Core>> {
        tokio::task::yield_now().await;
        self.core()
    }

    /// The maps, for one of many draws: other tasks go on now and then.
    async fn short_turn(&self) -> Result<MutexGuard<'_, Core>> {
        tokio::task::coop::consume_budget().await;
        self.core()
    }

    /// The maps, of which the caller is the only user. A step that panicked may have changed a part
    /// of them, so nothing is done with them any more.
    fn core(&self) -> Result<MutexGuard<'_, Core>> {
        self.core.lock().map_err(|_| StoreError::Unavailable {
            executed: Executed::No,
            detail: "a step has panicked: restart the service".into(),
        })
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn clock_hint(&self) -> Moment {
        self.core().map_or(Moment::EPOCH, |mut core| core.now())
    }

    async fn now(&self) -> Result<Moment> {
        Ok(self.turn().await?.now())
    }

    async fn draw(&self, command: Arc<DrawCommand>) -> Result<Drawn> {
        self.short_turn().await?.draw(Arc::unwrap_or_clone(command))
    }

    async fn grant_bonus(&self, command: BonusCommand) -> Result<BonusAnswer> {
        self.short_turn().await?.grant_bonus(command)
    }

    async fn find_draw(
        &self,
        campaign: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<DrawAnswer> {
        self.short_turn().await?.find_draw(campaign, user, request)
    }

    async fn user(&self, campaign: &CampaignId, user: &UserId) -> Result<UserView> {
        let mut core = self.turn().await?;
        let now = core.now();
        Ok(core.campaign(campaign)?.user(user, now))
    }

    async fn user_details(&self, campaign: &CampaignId, user: &UserId) -> Result<UserDetails> {
        let mut core = self.turn().await?;
        let now = core.now();
        Ok(core.campaign(campaign)?.user_details(user, now))
    }

    async fn blocked_users(
        &self,
        campaign: &CampaignId,
        after: Option<&UserId>,
        limit: usize,
    ) -> Result<BlockedUsers> {
        let core = self.turn().await?;
        Ok(core.campaign(campaign)?.blocked_users(after, limit))
    }

    async fn apply(&self, command: ApplyCommand) -> Result<Operated> {
        self.turn().await?.apply(&command)
    }

    async fn operate(&self, command: OperateCommand) -> Result<Operated> {
        self.turn().await?.operate(&command)
    }

    async fn operate_win(&self, command: WinCommand) -> Result<WinOperated> {
        self.turn().await?.operate_win(&command)
    }

    async fn campaign(&self, id: &CampaignId) -> Result<CampaignView> {
        Ok(self.turn().await?.campaign(id)?.state.view.clone())
    }

    async fn version(&self, id: &CampaignId, version: u32) -> Result<Arc<Campaign>> {
        self.turn().await?.campaign(id)?.definition(version)
    }

    async fn campaigns(&self, after: Option<&str>, limit: usize) -> Result<Vec<CampaignView>> {
        Ok(self.turn().await?.campaigns(after, limit))
    }

    async fn campaign_ids(
        &self,
        partition: u32,
        after: Option<&CampaignId>,
        limit: usize,
    ) -> Result<Vec<CampaignId>> {
        if partition != PARTITION {
            return Ok(Vec::new());
        }
        let after = after.map(CampaignId::as_str);
        let views = self.turn().await?.campaigns(after, limit);
        let ids = views.iter().map(|view| view.campaign.id.clone());
        Ok(ids.collect())
    }

    async fn due_campaigns(
        &self,
        partition: u32,
        lead: Duration,
        after: Option<&DueCampaign>,
        limit: usize,
    ) -> Result<Vec<DueCampaign>> {
        if partition != PARTITION {
            return Ok(Vec::new());
        }
        Ok(self.turn().await?.due_campaigns(lead, after, limit))
    }

    async fn index(&self, id: &CampaignId) -> Result<()> {
        // Every step brings the moment along.
        self.turn().await?.step(id, &[], |_| Ok(()))
    }

    async fn complete_index(&self, _partition: u32) -> Result<()> {
        // Every campaign knows when it is due.
        Ok(())
    }

    async fn filling(&self, id: &CampaignId) -> Result<Filling> {
        let mut core = self.turn().await?;
        let now = core.now();
        core.campaign(id)?.filling(now)
    }

    async fn freeze(&self, command: FreezeCommand) -> Result<Step> {
        let mut core = self.turn().await?;
        core.step(&command.campaign, &[], |state| {
            rules::freeze(state, &command)
        })
    }

    async fn adjust(&self, command: AdjustCommand) -> Result<Step> {
        let asked = [(command.pool, command.window)];
        let mut core = self.turn().await?;
        core.step(&command.campaign, &asked, |state| {
            rules::adjust(state, &command)
        })
    }

    async fn fill(&self, command: FillCommand) -> Result<Filled> {
        let asked = [(command.pool, command.window)];
        let mut core = self.turn().await?;
        core.step(&command.campaign, &asked, |state| {
            rules::fill(state, &command)
        })
    }

    async fn deal(&self, command: DealCommand) -> Result<Step> {
        let mut core = self.turn().await?;
        core.step(&command.campaign, &[], |state| rules::deal(state, &command))
    }

    async fn sweep(&self, campaign: &CampaignId, sweep: Sweep) -> Result<Swept> {
        self.turn().await?.sweep(campaign, sweep)
    }

    async fn forget(&self) -> Result<bool> {
        Ok(self.turn().await?.forget())
    }

    async fn stats(&self, id: &CampaignId) -> Result<Stats> {
        let mut core = self.turn().await?;
        let now = core.now();
        let head = ledger_id(core.ledger.last());
        let entries = core.ledger.entries_of(id);
        Ok(core.campaign(id)?.stats(now, (head, entries)))
    }

    async fn windows(
        &self,
        id: &CampaignId,
        pool: PoolNo,
        after: Moment,
        limit: usize,
    ) -> Result<Vec<WindowView>> {
        let mut core = self.turn().await?;
        let now = core.now();
        core.campaign(id)?.windows(pool, after, limit, now)
    }

    async fn ledger(&self, partition: u32, sequence: u64, limit: usize) -> Result<Vec<Entry>> {
        if partition != PARTITION {
            return Ok(Vec::new());
        }
        Ok(self.turn().await?.ledger.after(sequence, limit))
    }
}
