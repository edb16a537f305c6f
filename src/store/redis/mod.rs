//! The store on Redis, shared by several services: one script a command, all keys of a campaign in
//! one partition.
//!
//! A draw waits in a lane until the batch before it is answered ([`batch`]). The script `draw.lua`
//! then decides and writes all draws of the batch ([`draw`]); grabs work likewise ([`envelopes`]).
//! Every other step is decided by the same rules as in the embedded store, on what was read, and
//! written by `commit.lua` if nothing that rules read has changed since ([`step`]). [`mod@format`]
//! names keys and packs values, and [`link`] connects to the servers. Every call to a server goes
//! through [`core`], which notices when data are lost ([`forks`]).

use std::{
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::{Mutex, Semaphore};

mod batch;
mod clock;
mod core;
mod draw;
mod envelopes;
mod forks;
mod format;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod gone;
mod lane;
mod level;
mod link;
mod memory;
mod open;
mod read;
mod removal;
mod settings;
mod step;

pub use self::{
    forks::{FORK_PAUSE, Halt},
    format::{
        keys::{BadPrefix, KeyPrefix},
        script::Script,
        words::Words,
    },
    level::{LevelOptions, OnWeakerLevel},
    link::{
        checks::check,
        connect::{Connections, Master},
        fault::Fault,
        fault_kind::FaultKind,
        findings::{CheckError, Checked},
        pool::SetupError,
        url::{PasswordFiles, RedisUrl, UrlError},
    },
    open::{
        identity::{Found, Made, PARTITIONS_MAX},
        open_error::OpenError,
        options::{Expected, Options},
        recovery::{HaltedPartition, Recovery},
        upgrade::{OlderService, Upgrade},
    },
};

use self::{
    clock::StoreClock,
    core::{Core, LIST_READS_MAX},
    draw::{Lanes, RecentProgress},
    envelopes::{CreateLanes, GrabLanes, KnownEnvelopes},
    forks::Witnesses,
    level::Level,
    memory::Trend,
    read::limit_checks::LimitChecks,
    step::{decide::until_made, layout::Layouts},
};
use super::{
    AdjustCommand, ApplyCommand, BlockedUsers, BonusAnswer, BonusCommand, CampaignPage,
    CampaignView, DealCommand, DrawAnswer, DrawCommand, Drawn, DueCampaign, Durability, Entry,
    Executed, FillCommand, Filled, Filling, FreezeCommand, LaneKind, LaneUse, OperateCommand,
    Operated, Refusal, Replica, ReplicaView, Result, StandingStill, Stats, Step, Store, StoreError,
    StoreInfo, Sweep, Swept, Trouble, Unread, UserDetails, UserView, WinCommand, WinOperated,
    WindowView, fill::CHUNK_UNITS_MAX, rules,
};
use crate::model::{Campaign, CampaignId, Moment, PoolNo, RequestId, UserId};

/// Locks for the steps of a service. Steps of one campaign take the same lock, so within a service
/// they never make each other begin again.
const TURNS: usize = 64;

/// A store on Redis.
pub struct RedisStore {
    info: StoreInfo,
    core: Arc<Core>,
    lanes: Lanes,
    create_lanes: CreateLanes,
    grab_lanes: GrabLanes,
    limit_checks: LimitChecks,
    turns: Vec<Mutex<()>>,
}

impl RedisStore {
    /// Opens the store that was found; [`Found::init`] makes one. It belongs to one master key for
    /// ever (see [`crate::chance::MasterKey`]).
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(found: Found, key_fingerprint: &str) -> std::result::Result<Self, OpenError> {
        let store_id = found.open(key_fingerprint)?;
        Ok(Self::of(found, store_id, false))
    }

    fn of(found: Found, store_id: String, is_recovery: bool) -> Self {
        let options = found.options;
        let info = StoreInfo {
            store_id: store_id.clone(),
            durability: options.durability,
            test_clock: options.clock.is_some(),
            clock_speed: options.clock.as_ref().map_or(1, |clock| clock.speed()),
            partitions: options.partitions,
        };
        let partitions = found.partitions.len();
        let core = Arc::new(Core {
            clock: StoreClock::new(options.clock, &found.lasts),
            connections: found.connections,
            partitions: found.partitions,
            store_id,
            request_memory: options.request_memory,
            backlog: RwLock::new("".into()),
            settles: AtomicBool::default(),
            memory: Trend::default(),
            layouts: Layouts::default(),
            rollback_mark: AtomicU64::default(),
            recent: RecentProgress::default(),
            list_turns: Arc::new(Semaphore::new(LIST_READS_MAX)),
            envelopes: KnownEnvelopes::default(),
            has_logged_loss: AtomicBool::new(false),
            witnesses: Witnesses::new(partitions),
            fork_pause: options.fork_pause,
            is_recovery,
            troubles: std::sync::Mutex::default(),
            level: Level::new(options.durability, options.level.on_weaker)
                .having_logged(found.warnings),
        });
        tokio::spawn(settings::watch_settings(Arc::downgrade(&core)));
        Self {
            info,
            lanes: Lanes::start(&core),
            create_lanes: CreateLanes::start(&core),
            grab_lanes: GrabLanes::start(&core),
            limit_checks: LimitChecks::start(&core),
            turns: (0..TURNS).map(|_| Mutex::default()).collect(),
            core,
        }
    }

    /// The lock for the steps of a campaign or of an envelope in this service.
    fn turn(&self, id: &impl std::hash::Hash) -> &Mutex<()> {
        use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(id);
        &self.turns[hash as usize % TURNS]
    }

    /// How long the slowest batch has been at Redis, if so long that its lane must hang.
    fn stuck(&self) -> Option<Duration> {
        let lanes = [
            self.lanes.stuck(),
            self.create_lanes.stuck(),
            self.grab_lanes.stuck(),
            self.limit_checks.stuck(),
        ];
        lanes.into_iter().flatten().max()
    }

    /// Takes a step of a campaign.
    async fn step<T>(
        &self,
        id: &CampaignId,
        named: &[(PoolNo, Moment)],
        rule: impl FnMut(&mut rules::State) -> Result<T> + Send,
    ) -> Result<T> {
        let _turn = self.turn(id).lock().await;
        self.core.step(id, named, rule).await
    }

    /// Takes a chunk of units out of pools; none if the campaign has changed since it was read.
    async fn try_sweep(&self, id: &CampaignId, sweep: Sweep) -> Result<Option<Swept>> {
        let mut loaded = self.core.load(id, &[]).await?;
        let ranges = rules::search(&loaded.state, sweep);
        let mut found = Vec::new();
        if let Some(layout) = loaded.layout.clone().filter(|_| !ranges.is_empty()) {
            found = self.core.units(&layout, &ranges, CHUNK_UNITS_MAX).await?;
            let windows = rules::windows_of(&loaded.state, &found)?;
            self.core.load_windows(&mut loaded, &windows).await?;
        }
        let swept = rules::sweep(&mut loaded.state, sweep, found)?;
        Ok(self.core.write(&loaded).await?.map(|_| swept))
    }
}

#[async_trait]
impl Store for RedisStore {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn durability(&self) -> Durability {
        self.core.level.stated()
    }

    fn rollback_mark(&self) -> u64 {
        self.core.rollback_mark.load(Ordering::Relaxed)
    }

    fn clock_hint(&self) -> Moment {
        self.core.clock.hint()
    }

    fn bound_delay(&self, target: Duration) {
        self.lanes.bound_delay(target);
        self.create_lanes.bound_delay(target);
        self.grab_lanes.bound_delay(target);
        self.limit_checks.bound_delay(target);
    }

    async fn now(&self) -> Result<Moment> {
        let now = self.core.probe().await?;
        match self.stuck() {
            None => Ok(now),
            Some(busy) => Err(StoreError::Unavailable {
                executed: Executed::No,
                detail: format!("a batch has been at Redis for {} s", busy.as_secs()),
            }),
        }
    }

    async fn time_of(&self, campaign: &CampaignId) -> Result<Moment> {
        self.core.time(campaign).await
    }

    fn troubles(&self) -> Vec<Trouble> {
        self.core.troubles()
    }

    fn standing_still(&self) -> Vec<StandingStill> {
        self.core.clock.standing_still()
    }

    fn lanes(&self) -> Vec<LaneUse> {
        vec![
            self.lanes.busy(LaneKind::Draws),
            self.grab_lanes.busy(LaneKind::Grabs),
            self.create_lanes.busy(LaneKind::NewEnvelopes),
            self.limit_checks.busy(LaneKind::LimitChecks),
        ]
    }

    async fn announce(&self, id: &str, replica: &Replica) -> Result<Option<Moment>> {
        self.core.announce(id, replica).await.map(Some)
    }

    async fn retire(&self, id: &str) -> Result<()> {
        self.core.retire(id).await
    }

    async fn replicas(&self) -> Result<Vec<ReplicaView>> {
        self.core.replicas().await
    }

    async fn draw(&self, command: Arc<DrawCommand>) -> Result<Drawn> {
        self.core.level.admit()?;
        let drawn = self.lanes.draw(&self.core, &command).await;
        drawn.map_err(|error| error.of_draw(self.core.clock.hint()))
    }

    async fn grant_bonus(&self, command: BonusCommand) -> Result<BonusAnswer> {
        self.core.level.admit()?;
        let granted = self.lanes.grant_bonus(&self.core, command).await;
        granted.map_err(|error| error.of_draw(self.core.clock.hint()))
    }

    async fn find_draw(
        &self,
        campaign: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<DrawAnswer> {
        self.core.level.admit()?;
        self.core.find_draw(campaign, user, request).await
    }

    async fn user(&self, campaign: &CampaignId, user: &UserId) -> Result<UserView> {
        self.limit_checks.user(&self.core, campaign, user).await
    }

    async fn user_details(&self, campaign: &CampaignId, user: &UserId) -> Result<UserDetails> {
        self.core.user_details(campaign, user).await
    }

    async fn blocked_users(
        &self,
        campaign: &CampaignId,
        after: Option<&UserId>,
        limit: usize,
    ) -> Result<BlockedUsers> {
        self.core.blocked_users(campaign, after, limit).await
    }

    async fn apply(&self, command: ApplyCommand) -> Result<Operated> {
        let id = &command.campaign.id;
        let _turn = self.turn(id).lock().await;
        let attempt = || async {
            match self.core.read(id).await {
                Ok(_) => self.core.change(&command, None).await,
                Err(StoreError::Refused(Refusal::CampaignNotFound)) => {
                    self.core.create(&command, None).await
                }
                Err(error) => Err(error),
            }
        };
        until_made(attempt).await
    }

    async fn operate(&self, command: OperateCommand) -> Result<Operated> {
        let _turn = self.turn(&command.campaign).lock().await;
        until_made(|| self.core.try_operate(&command, None)).await
    }

    async fn operate_win(&self, command: WinCommand) -> Result<WinOperated> {
        let _turn = self.turn(&command.campaign).lock().await;
        until_made(|| self.core.try_operate_win(&command)).await
    }

    async fn campaign(&self, id: &CampaignId) -> Result<CampaignView> {
        self.core.view(id).await
    }

    async fn version(&self, id: &CampaignId, version: u32) -> Result<Arc<Campaign>> {
        self.core.read(id).await?;
        self.core.definition(id, version).await
    }

    async fn campaigns(&self, after: Option<&str>, limit: usize) -> Result<Vec<CampaignView>> {
        self.readable_campaigns(after, limit).await?.whole()
    }

    async fn readable_campaigns(&self, after: Option<&str>, limit: usize) -> Result<CampaignPage> {
        let (ids, mut unread) = self.core.readable_ids(after, limit).await?;
        let next = ids.last().filter(|_| ids.len() == limit).cloned();
        let mut views = Vec::with_capacity(ids.len());
        for (id, view) in self.core.views(ids).await {
            match view {
                Ok(view) => views.push(view),
                // Its data have begun to leave since the ids were read.
                Err(StoreError::Refused(Refusal::Removed { .. })) => {}
                Err(error) => unread.push(Unread {
                    partition: self.core.partition(&id).number,
                    campaign: Some(id),
                    error,
                }),
            }
        }
        Ok(CampaignPage {
            views,
            unread,
            next,
        })
    }

    async fn campaign_ids(
        &self,
        partition: u32,
        after: Option<&CampaignId>,
        limit: usize,
    ) -> Result<Vec<CampaignId>> {
        let after = after.map(CampaignId::as_str);
        self.core.campaign_ids(partition, after, limit).await
    }

    async fn due_campaigns(
        &self,
        partition: u32,
        lead: Duration,
        after: Option<&DueCampaign>,
        limit: usize,
    ) -> Result<Vec<DueCampaign>> {
        let due = self.core.due_campaigns(partition, lead, after, limit);
        due.await
    }

    async fn index(&self, id: &CampaignId) -> Result<()> {
        let _turn = self.turn(id).lock().await;
        self.core.index(id).await
    }

    async fn complete_index(&self, partition: u32) -> Result<()> {
        self.core.complete_index(partition).await
    }

    async fn filling(&self, id: &CampaignId) -> Result<Filling> {
        let loaded = self.core.load(id, &[]).await?;
        let available = loaded.available()?;
        rules::filling(&loaded.state, |pool| available[usize::from(pool.0)])
    }

    async fn freeze(&self, command: FreezeCommand) -> Result<Step> {
        self.step(&command.campaign, &[], |state| {
            rules::freeze(state, &command)
        })
        .await
    }

    async fn adjust(&self, command: AdjustCommand) -> Result<Step> {
        let named = [(command.pool, command.window)];
        self.step(&command.campaign, &named, |state| {
            rules::adjust(state, &command)
        })
        .await
    }

    async fn fill(&self, command: FillCommand) -> Result<Filled> {
        let named = [(command.pool, command.window)];
        self.step(&command.campaign, &named, |state| {
            rules::fill(state, &command)
        })
        .await
    }

    async fn deal(&self, command: DealCommand) -> Result<Step> {
        self.step(&command.campaign, &[], |state| rules::deal(state, &command))
            .await
    }

    async fn sweep(&self, campaign: &CampaignId, sweep: Sweep) -> Result<Swept> {
        let _turn = self.turn(campaign).lock().await;
        until_made(|| self.try_sweep(campaign, sweep)).await
    }

    async fn forget(&self) -> Result<bool> {
        self.core.forget().await.map(|()| false)
    }

    async fn stats(&self, id: &CampaignId) -> Result<Stats> {
        self.core.stats(id).await
    }

    async fn windows(
        &self,
        id: &CampaignId,
        pool: PoolNo,
        after: Moment,
        limit: usize,
    ) -> Result<Vec<WindowView>> {
        self.core.windows(id, pool, after, limit).await
    }

    async fn ledger(&self, partition: u32, sequence: u64, limit: usize) -> Result<Vec<Entry>> {
        self.core.ledger(partition, sequence, limit).await
    }
}
