//! The embedded store: SQLite in WAL mode, one writer thread, one transaction for each batch,
//! acknowledged after its fsync.
//!
//! The flow of a command: [`SqliteStore`] makes a [`job`](mod@job), the [`inbox`] holds it, the
//! [`writer`] runs it in a batch on a [`step`], commits, and answers. Reads go past the writer,
//! each on a connection of a small pool.

use std::{
    ops::Bound::{Excluded, Unbounded},
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use async_trait::async_trait;
use rusqlite::Connection;

mod backup;
mod bonus;
mod changed;
mod codes;
mod columns;
mod commands;
mod deliveries;
mod draw;
mod envelopes;
mod faults;
mod forget;
mod inbox;
mod job;
mod jumps;
mod kept;
mod limit_checks;
pub mod lists;
mod load;
pub mod lookup;
mod open;
mod open_error;
pub mod page_cache;
mod probe;
mod proposals;
mod read;
mod readers;
mod removal;
mod reserve;
mod rows;
mod save;
pub mod search;
mod seen;
mod settling;
mod state;
mod step;
mod tables;
mod units;
mod users;
mod wal;
mod windows;
mod writer;

pub use backup::BegunFork;
pub use open::{
    BUSY_PATIENCE, DATABASE_FILE, DirectoryLock, Inspected, Options, is_up_to_date,
    needs_later_version,
};
pub use open_error::OpenError;
pub use tables::LedgerTables;

use self::{
    changed::Waiting,
    commands::{IndexCommand, SweepCommand},
    faults::stopped,
    forget::ForgetCommand,
    inbox::{Inbox, NotTaken},
    job::{Command, job},
    limit_checks::LimitChecks,
    open::{KnownCampaign, LIST_READERS},
    probe::{Committed, ProbeCommand},
    readers::Readers,
    reserve::Reserve,
    rows::{Key, Row, user_row},
    step::{Bound, Core, Published},
    wal::Wal,
    writer::Writer,
};
use super::{
    AdjustCommand, ApplyCommand, Backup, BlockedUsers, BonusAnswer, BonusCommand, CampaignView,
    DealCommand, DrawAnswer, DrawCommand, Drawn, DueCampaign, Durability, Entry, Executed,
    FillCommand, Filled, Filling, FreezeCommand, LaneKind, LaneUse, OperateCommand, Operated,
    Result, StandingStill, Stats, Step, Store, StoreError, StoreInfo, Sweep, Swept, UserDetails,
    UserView, WinCommand, WinOperated, WindowView, clock::Clock,
};
use crate::{
    metrics::SHED,
    model::{Campaign, CampaignId, Moment, PoolNo, RequestId, UserId},
};

/// The store's time stands still if the clock is this far behind it.
const STILL_MIN: Duration = Duration::from_secs(3);

/// The embedded store. Dropping it finishes what waits and closes the files.
pub struct SqliteStore {
    info: StoreInfo,
    directory: PathBuf,
    clock: Arc<dyn Clock>,
    request_memory: Duration,
    inbox: Arc<Inbox>,
    published: Published,
    readers: Readers,
    tables: LedgerTables,
    /// Changed users that are not in their table yet: looked at before a reader begins.
    waiting: Waiting,
    limit_checks: LimitChecks,
    failing: Arc<AtomicBool>,
    /// The moment of the last batch, in microseconds.
    last: Arc<AtomicI64>,
    committed: Arc<Committed>,
    bound: Bound,
    /// This service settles the ledger.
    settles: AtomicBool,
    threads: Vec<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens the store, and makes it if there is none.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing is changed by any of them.
    pub fn open(options: Options) -> std::result::Result<Self, OpenError> {
        let lock = DirectoryLock::take(&options.directory)?;
        Self::open_locked(lock, options)
    }

    /// Opens a copy of a backup. [`Self::begin_fork`] must be the first thing that is done with it.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing is changed by any of them.
    pub fn open_backup(options: Options) -> std::result::Result<Self, OpenError> {
        let lock = DirectoryLock::take(&options.directory)?;
        Self::open_files(lock, options, true)
    }

    /// Whether a locked directory holds a store; changes nothing.
    ///
    /// # Errors
    /// [`OpenError::NotOurs`], [`OpenError::Damaged`], [`OpenError::NewerSchema`] and
    /// [`OpenError::Database`].
    pub fn exists(_lock: &DirectoryLock, directory: &Path) -> std::result::Result<bool, OpenError> {
        open::check_version(&directory.join(DATABASE_FILE))
    }

    /// A file that a locked directory without a store has of one that was there, if there is any.
    pub fn remains(_lock: &DirectoryLock, directory: &Path) -> Option<PathBuf> {
        open::remains(directory)
    }

    /// Opens the store in a directory that is locked already: what must be read or made there first
    /// is safe from others.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing is changed by any of them.
    pub fn open_locked(
        lock: DirectoryLock,
        options: Options,
    ) -> std::result::Result<Self, OpenError> {
        Self::open_files(lock, options, false)
    }

    fn open_files(
        lock: DirectoryLock,
        options: Options,
        is_restore: bool,
    ) -> std::result::Result<Self, OpenError> {
        backup::remove_unfinished(&options.directory);
        let reserve = Reserve::new(&options.directory);
        let mut opened = open::open(&options, is_restore)?;
        let published: Published = Arc::new(RwLock::new(opened.campaigns));
        let inbox = Arc::new(Inbox::default());
        let failing = Arc::new(AtomicBool::new(false));
        let last = Arc::new(AtomicI64::new(0));
        let committed = Arc::new(Committed::now());
        let database = options.directory.join(DATABASE_FILE);
        let connections = (&mut opened.writer, opened.checkpointer);
        let (wal, checkpointer) =
            Wal::new(&database, connections, reserve.clone()).map_err(OpenError::database)?;
        let bound = Bound::default();
        let waiting = Waiting::default();
        let core = Core::load(
            &opened.writer,
            options.request_memory,
            options.clock.is_test(),
            Arc::clone(&published),
            waiting.clone(),
            Arc::clone(&bound),
        )
        .map_err(OpenError::database)?;
        last.store(core.last.as_micros(), Ordering::Relaxed);
        let writer = Writer {
            db: opened.writer,
            core,
            clock: Arc::clone(&options.clock),
            inbox: Arc::clone(&inbox),
            failing: Arc::clone(&failing),
            last: Arc::clone(&last),
            committed: Arc::clone(&committed),
            wal,
            reserve,
            logged: None,
            unlogged: 0,
        };
        let threads = vec![
            open::spawn("tombola-writer", move || {
                let _lock = lock;
                writer.run();
            })?,
            open::spawn("tombola-checkpointer", move || {
                checkpointer.run();
            })?,
        ];
        let mut readers = opened.readers;
        let of_lists = readers.split_off(readers.len().saturating_sub(LIST_READERS));
        let readers = Readers::new(readers);
        Ok(Self {
            info: StoreInfo {
                store_id: opened.store_id,
                durability: Durability::Embedded,
                test_clock: options.clock.is_test(),
                clock_speed: options.clock.speed(),
                partitions: 1,
            },
            directory: options.directory,
            clock: options.clock,
            request_memory: options.request_memory,
            tables: LedgerTables::new(&inbox, of_lists),
            inbox,
            published,
            limit_checks: LimitChecks::new(readers.clone(), waiting.clone()),
            readers,
            waiting,
            failing,
            last,
            committed,
            bound,
            settles: AtomicBool::default(),
            threads,
        })
    }

    /// Sends a command to the writer and awaits its answer. A caller that goes away leaves nothing
    /// half done: the command is run whole, or not begun.
    async fn submit<C: Command>(&self, command: C) -> Result<C::Reply> {
        submit(&self.inbox, command).await
    }

    /// Reads on a connection of its own, in one transaction.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        readers::read(&self.readers, work).await
    }

    /// A campaign as of the last commit.
    async fn view(&self, id: &CampaignId) -> Result<CampaignView> {
        Ok(self.known(id).await?.view)
    }

    /// The same with its number.
    async fn known(&self, id: &CampaignId) -> Result<KnownCampaign> {
        if let Some(known) = self.published(id) {
            return Ok(known);
        }
        let id = id.clone();
        self.read(move |db| Err(removal::not_found(db, &id)?)).await
    }

    fn published(&self, id: &CampaignId) -> Option<KnownCampaign> {
        let published = self
            .published
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        published.get(id).cloned()
    }

    /// The store's clock as readers see it: never behind what anyone has seen.
    fn clock_now(&self) -> Moment {
        let now = self.clock.now().as_micros();
        let last = self.last.fetch_max(now, Ordering::Relaxed);
        Moment::from_micros(now.max(last))
    }
}

/// Sends a command to the writer and awaits its answer.
async fn submit<C: Command>(inbox: &Inbox, command: C) -> Result<C::Reply> {
    let (job, answer) = job(command);
    inbox.push(job).map_err(|not_taken| match not_taken {
        NotTaken::Full => {
            SHED.in_queue.inc();
            StoreError::Overloaded
        }
        NotTaken::Closed => stopped(Executed::No),
    })?;
    answer
        .await
        .unwrap_or_else(|_| Err(stopped(Executed::Unknown)))
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.inbox.close();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn clock_hint(&self) -> Moment {
        self.clock_now()
    }

    fn standing_still(&self) -> Vec<StandingStill> {
        let until = Moment::from_micros(self.last.load(Ordering::Relaxed));
        let is_still = !self.info.test_clock && until.since(self.clock.now()) >= STILL_MIN;
        let partition = columns::PARTITION;
        is_still
            .then_some(StandingStill { partition, until })
            .into_iter()
            .collect()
    }

    async fn backup(&self) -> Result<Option<Backup>> {
        backup::make(&self.directory).await.map(Some)
    }

    async fn now(&self) -> Result<Moment> {
        if self.failing.load(Ordering::Relaxed) || !self.committed.is_fresh() {
            self.submit(ProbeCommand).await?;
        }
        self.read(|db| columns::scalar::<i64>(db, "SELECT COUNT(*) FROM meta", []))
            .await?;
        Ok(self.clock_now())
    }

    fn bound_delay(&self, target: Duration) {
        self.inbox.bound_delay(target);
    }

    fn is_congested(&self) -> bool {
        self.inbox.is_congested()
    }

    fn lanes(&self) -> Vec<LaneUse> {
        let (waiting, since) = self.inbox.busy();
        vec![LaneUse {
            kind: LaneKind::Writes,
            lanes: 1,
            waiting,
            busy: since.map(|since| since.elapsed()),
        }]
    }

    async fn draw(&self, command: Arc<DrawCommand>) -> Result<Drawn> {
        self.submit(command).await
    }

    async fn grant_bonus(&self, command: BonusCommand) -> Result<BonusAnswer> {
        self.submit(command).await
    }

    async fn find_draw(
        &self,
        campaign: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<DrawAnswer> {
        let no = self.known(campaign).await?.no;
        let key = Key::record(no, user);
        let waiting = self.waiting.get(&key);
        let known = match waiting {
            Some(Row::Record(columns)) => Some(columns),
            waiting => {
                self.read(move |db| Ok(user_row(db, waiting, &key)?))
                    .await?
            }
        };
        let waiting = self.waiting.get(&Key::request(no, (user, request)));
        let oldest = self.clock_now() - self.request_memory;
        let (campaign, user, request) = (campaign.clone(), user.clone(), request.clone());
        self.read(move |db| {
            let name = (&user, &request);
            read::find_draw(db, known.as_deref(), waiting, &campaign, name, oldest)
        })
        .await
    }

    async fn user(&self, campaign: &CampaignId, user: &UserId) -> Result<UserView> {
        let known = self.known(campaign).await?;
        self.limit_checks
            .user(known, user.clone(), self.clock_now())
            .await
    }

    async fn user_details(&self, campaign: &CampaignId, user: &UserId) -> Result<UserDetails> {
        let KnownCampaign { no, view } = self.known(campaign).await?;
        let waiting = self.waiting.get(&Key::record(no, user));
        let (user, now) = (user.clone(), self.clock_now());
        self.read(move |db| read::user_details(db, waiting, view, &user, now))
            .await
    }

    async fn blocked_users(
        &self,
        campaign: &CampaignId,
        after: Option<&UserId>,
        limit: usize,
    ) -> Result<BlockedUsers> {
        let (id, after) = (campaign.clone(), after.cloned());
        self.read(move |db| read::blocked_users(db, &id, after.as_ref(), limit))
            .await
    }

    async fn apply(&self, command: ApplyCommand) -> Result<Operated> {
        self.submit(command).await
    }

    async fn operate(&self, command: OperateCommand) -> Result<Operated> {
        self.submit(command).await
    }

    async fn operate_win(&self, command: WinCommand) -> Result<WinOperated> {
        self.submit(command).await
    }

    async fn campaign(&self, id: &CampaignId) -> Result<CampaignView> {
        self.view(id).await
    }

    async fn version(&self, id: &CampaignId, version: u32) -> Result<Arc<Campaign>> {
        let id = id.clone();
        self.read(move |db| read::version(db, &id, version)).await
    }

    async fn campaigns(&self, after: Option<&str>, limit: usize) -> Result<Vec<CampaignView>> {
        let published = self
            .published
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let after = after.map_or(Unbounded, Excluded);
        let known = published.range::<str, _>((after, Unbounded));
        Ok(known.take(limit).map(|(_, it)| it.view.clone()).collect())
    }

    async fn campaign_ids(
        &self,
        partition: u32,
        after: Option<&CampaignId>,
        limit: usize,
    ) -> Result<Vec<CampaignId>> {
        if partition != columns::PARTITION {
            return Ok(Vec::new());
        }
        let published = self.published.read();
        let published = published.unwrap_or_else(PoisonError::into_inner);
        let after = after.map_or(Unbounded, Excluded);
        let known = published.range::<CampaignId, _>((after, Unbounded));
        Ok(known.take(limit).map(|(id, _)| id.clone()).collect())
    }

    async fn due_campaigns(
        &self,
        partition: u32,
        lead: Duration,
        after: Option<&DueCampaign>,
        limit: usize,
    ) -> Result<Vec<DueCampaign>> {
        if partition != columns::PARTITION {
            return Ok(Vec::new());
        }
        let (until, after) = (self.clock_now() + lead, after.cloned());
        self.read(move |db| read::due_campaigns(db, until, after.as_ref(), limit))
            .await
    }

    async fn index(&self, id: &CampaignId) -> Result<()> {
        self.submit(IndexCommand {
            campaign: id.clone(),
        })
        .await
    }

    async fn complete_index(&self, _partition: u32) -> Result<()> {
        // The index is a column that older data get when they are opened, and nobody else writes
        // them.
        Ok(())
    }

    async fn filling(&self, id: &CampaignId) -> Result<Filling> {
        let (known, now) = (self.view(id).await?, self.clock_now());
        self.read(move |db| read::filling(db, &known, now)).await
    }

    async fn freeze(&self, command: FreezeCommand) -> Result<Step> {
        self.submit(command).await
    }

    async fn adjust(&self, command: AdjustCommand) -> Result<Step> {
        self.submit(command).await
    }

    async fn fill(&self, command: FillCommand) -> Result<Filled> {
        self.submit(command).await
    }

    async fn deal(&self, command: DealCommand) -> Result<Step> {
        self.submit(command).await
    }

    async fn sweep(&self, campaign: &CampaignId, sweep: Sweep) -> Result<Swept> {
        self.submit(SweepCommand {
            campaign: campaign.clone(),
            sweep,
        })
        .await
    }

    async fn forget(&self) -> Result<bool> {
        self.submit(ForgetCommand).await
    }

    async fn stats(&self, id: &CampaignId) -> Result<Stats> {
        let (known, now) = (self.view(id).await?, self.clock_now());
        self.read(move |db| read::stats(db, &known, now)).await
    }

    async fn windows(
        &self,
        id: &CampaignId,
        pool: PoolNo,
        after: Moment,
        limit: usize,
    ) -> Result<Vec<WindowView>> {
        let (id, now) = (id.clone(), self.clock_now());
        self.read(move |db| read::windows(db, &id, pool, after, limit, now))
            .await
    }

    async fn ledger(&self, partition: u32, sequence: u64, limit: usize) -> Result<Vec<Entry>> {
        if partition != columns::PARTITION {
            return Ok(Vec::new());
        }
        self.read(move |db| read::ledger(db, sequence, limit)).await
    }
}
