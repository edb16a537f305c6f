//! The writer thread: one transaction for each batch, every answer after its commit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, ffi};
use tracing::{error, info, warn};

use super::{
    faults::{stopped, unavailable},
    inbox::Inbox,
    job::Job,
    probe::Committed,
    reserve::Reserve,
    step::{Core, Step},
    wal::Wal,
};
use crate::{
    ending,
    metrics::STORE,
    model::Moment,
    store::{Executed, StoreError, clock::Clock},
    trace::{self, Operation},
};

/// A clock that jumps further than this between two batches raises an alarm.
const JUMP_SECONDS_MAX: u64 = 3600;
/// Faults are logged at most this often: on a full disk every batch fails, and the log must not be
/// what fills the disk.
const LOG_PAUSE: Duration = Duration::from_secs(1);

/// What the writer works with.
pub(super) struct Writer {
    pub(super) db: Connection,
    pub(super) core: Core,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) inbox: Arc<Inbox>,
    /// The last transaction failed.
    pub(super) failing: Arc<AtomicBool>,
    /// The latest moment that the last batch or a reader has seen, in microseconds.
    pub(super) last: Arc<AtomicI64>,
    /// When a batch was last committed.
    pub(super) committed: Arc<Committed>,
    pub(super) wal: Wal,
    pub(super) reserve: Reserve,
    /// When a fault was last logged, and how many there were since.
    pub(super) logged: Option<Instant>,
    pub(super) unlogged: u64,
}

impl Writer {
    /// Runs batches until the inbox is closed and empty.
    pub(super) fn run(mut self) {
        let _end = WriterEnd {
            inbox: Arc::clone(&self.inbox),
            failing: Arc::clone(&self.failing),
        };
        while let Some(batch) = self.inbox.next_batch() {
            let mut undone = self.attempt(batch);
            if undone.is_some() && self.make_room() {
                undone = undone.and_then(|undone| self.attempt(undone.batch));
            }
            if let Some(undone) = undone {
                self.run_again(undone);
            }
            self.wal.bound(&self.db);
            self.core.users.read_on(&self.db);
        }
    }

    /// The store's clock: never behind the last batch, nor what a reader has seen.
    fn now(&mut self) -> Moment {
        let now = self.clock.now();
        let last = self.core.last;
        if last != Moment::EPOCH
            && !self.clock.is_test()
            && now.since(last).as_secs() > JUMP_SECONDS_MAX
        {
            info!(last = %last, now = %now, "the store was idle, or its clock jumped forward");
        }
        let now = now.max(last);
        let seen = self.last.fetch_max(now.as_micros(), Ordering::Relaxed);
        self.core.last = now.max(Moment::from_micros(seen));
        self.core.last
    }

    /// Runs a batch in a transaction and answers it. Gives it back if a fault has undone it.
    fn attempt(&mut self, mut batch: Vec<Box<dyn Job>>) -> Option<Undone> {
        if batch.is_empty() {
            return None;
        }
        // Earlier attempts take time: no command may begin after its deadline.
        let now = self.now();
        match self.transact(now, &mut batch) {
            Ok(()) => self.answer(batch, Ok(())),
            // The batch may be committed, so a second attempt could return a wrong answer.
            Err(fault) if fault.error.executed() == Executed::Unknown => {
                self.fail(batch, &fault.error);
            }
            Err(fault) => return Some(Undone { batch, fault }),
        }
        None
    }

    /// Runs an undone batch again, so that only the commands at fault fail. If one command was at
    /// fault, it has a transaction of its own, and so have all those before it together, and all
    /// those after it. Otherwise each command has one.
    fn run_again(&mut self, undone: Undone) {
        let mut undone = Some(undone);
        while let Some(Undone { mut batch, fault }) = undone.take() {
            if batch.len() == 1 {
                self.fail(batch, &fault.error);
            } else if let Some(failed) = fault.failed {
                let after = batch.split_off(failed + 1);
                let alone = batch.split_off(failed);
                if let Some(before) = self.attempt(batch) {
                    self.run_alone(before.batch);
                }
                self.run_alone(alone);
                undone = self.attempt(after);
            } else {
                self.run_alone(batch);
            }
        }
    }

    /// Runs each command in a transaction of its own.
    fn run_alone(&mut self, batch: Vec<Box<dyn Job>>) {
        for job in batch {
            if let Some(undone) = self.attempt(vec![job]) {
                self.fail(undone.batch, &undone.fault.error);
            }
        }
    }

    /// Runs a batch in a transaction, to whose span those of its calls are linked.
    fn transact(&mut self, now: Moment, batch: &mut [Box<dyn Job>]) -> Result<(), Fault> {
        let calls = batch.iter().map(|job| job.call());
        let Some(span) = trace::batch(Operation::Transaction, calls) else {
            return self.transact_untraced(now, batch);
        };
        let outcome = span.enter(|| self.transact_untraced(now, batch));
        span.end(outcome.as_ref().err().map(|fault| fault.error.kind()));
        outcome
    }

    fn transact_untraced(&mut self, now: Moment, batch: &mut [Box<dyn Job>]) -> Result<(), Fault> {
        self.recover().map_err(StoreError::from)?;
        let end = self.core.sequence;
        let begun = Instant::now();
        let outcome = self.try_transact(now, batch);
        STORE.call_s.observe(begun.elapsed().as_secs_f64());
        let Err(fault) = outcome else {
            return Ok(());
        };
        match fault {
            NotCommitted::Command(_) => self.core.undo(),
            NotCommitted::Before(_) | NotCommitted::At(_) => self.core.forget(),
        }
        let recovered = self.recover();
        if let Err(error) = &recovered {
            warn!(%error, "a failed transaction may still be open, or the ledger's end unread");
        }
        let is_rolled_back = recovered.is_ok() && self.core.sequence == end;
        let (failed, error) = match fault {
            NotCommitted::Command(index) => {
                let error = unavailable(Executed::No, "the batch was rolled back");
                (Some(index), error)
            }
            NotCommitted::Before(error) => (None, error),
            NotCommitted::At(error) if is_failed_write(&error) && is_rolled_back => {
                (None, StoreError::from(error))
            }
            NotCommitted::At(error) => (None, StoreError::from(error).after_write()),
        };
        Err(Fault { error, failed })
    }

    /// Ends a transaction that a fault has left open, and reads again what is committed. Otherwise
    /// does nothing.
    fn recover(&mut self) -> rusqlite::Result<()> {
        if !self.db.is_autocommit() {
            self.db.execute_batch("ROLLBACK")?;
        }
        self.core.find_again(&self.db)
    }

    fn try_transact(
        &mut self,
        now: Moment,
        batch: &mut [Box<dyn Job>],
    ) -> Result<(), NotCommitted> {
        let begun = Instant::now();
        let has_draws_only = batch.iter().all(|job| job.is_hot());
        let units = batch.iter().map(|job| job.units()).sum();
        self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut step = Step {
            db: &self.db,
            core: &mut self.core,
            now,
        };
        for (index, job) in batch.iter_mut().enumerate() {
            if !job.run(&mut step) {
                return Err(NotCommitted::Command(index));
            }
        }
        self.core.flush(&self.db)?;
        let worked = begun.elapsed();
        STORE.script_s.observe(worked.as_secs_f64());
        // Other work also leaves rows that the flush writes, so its share is not known.
        if has_draws_only {
            self.inbox.worked(units, worked);
        }
        trace::event("commit");
        let mut commit = self.db.prepare_cached("COMMIT")?;
        commit.execute([]).map(drop).map_err(NotCommitted::At)
    }

    fn answer(&mut self, batch: Vec<Box<dyn Job>>, commit: Result<(), &StoreError>) {
        self.failing.store(false, Ordering::Relaxed);
        self.committed.again();
        self.core.publish();
        for job in batch {
            job.answer(commit);
        }
    }

    fn fail(&mut self, batch: Vec<Box<dyn Job>>, fault: &StoreError) {
        self.failing.store(true, Ordering::Relaxed);
        for job in batch {
            job.answer(Err(fault));
        }
        self.unlogged += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_PAUSE) {
            let faults = std::mem::take(&mut self.unlogged);
            self.logged = Some(Instant::now());
            error!(%fault, faults, "the embedded store could not do its work");
        }
    }

    /// After a fault: makes room if the disk is full. True if it is worth to try again.
    fn make_room(&mut self) -> bool {
        self.reserve.is_full() && (self.reserve.release() | self.wal.make_room(&self.db))
    }
}

/// A batch that a fault has undone.
struct Undone {
    batch: Vec<Box<dyn Job>>,
    fault: Fault,
}

/// Why a batch is not committed, or may not be.
struct Fault {
    error: StoreError,
    /// The index of the command that has failed, if it was one.
    failed: Option<usize>,
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let failed = None;
        Self { error, failed }
    }
}

/// Why a transaction is not committed.
enum NotCommitted {
    /// The command with this index failed before anything was flushed, so nothing happened.
    Command(usize),
    /// Something else failed before the commit was tried, so nothing happened.
    Before(StoreError),
    /// The commit failed: what it wrote may still count once the database is opened again.
    At(rusqlite::Error),
}

impl<E: Into<StoreError>> From<E> for NotCommitted {
    fn from(fault: E) -> Self {
        Self::Before(fault.into())
    }
}

/// A write to the log failed, as on a full disk. The frame that makes a transaction count is the
/// last one that its commit writes, so it is not in the log, or not whole: unlike after a failed
/// sync, no later start of the service finds the transaction there.
fn is_failed_write(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        error.code == ErrorCode::DiskFull || error.extended_code == ffi::SQLITE_IOERR_WRITE
    })
}

/// The writer ends: in order, when its inbox is closed and empty, or by a panic. After a panic
/// nothing can be written until the next start, so the process ends.
struct WriterEnd {
    inbox: Arc<Inbox>,
    failing: Arc<AtomicBool>,
}

impl Drop for WriterEnd {
    fn drop(&mut self) {
        self.failing.store(true, Ordering::Relaxed);
        self.inbox.abandon(&stopped(Executed::No));
        if std::thread::panicking() {
            ending::end(
                "the embedded store's writer has panicked, and nothing can be written any more, so \
                 the process ends: start it again, and report the panic",
            );
        }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
