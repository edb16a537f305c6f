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
    faults::stopped,
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
        while let Some(mut batch) = self.inbox.next_batch() {
            let now = self.now();
            let mut outcome = self.transact(now, &mut batch);
            // A batch that may be committed is not run again.
            let is_undone = |fault: &StoreError| fault.executed() == Executed::No;
            if outcome.as_ref().err().is_some_and(is_undone) && self.make_room() {
                let now = self.now();
                outcome = self.transact(now, &mut batch);
            }
            match outcome {
                Ok(()) => self.answer(batch, Ok(())),
                // If the batch may be committed, a second attempt could return a wrong answer.
                Err(fault) if fault.executed() == Executed::Unknown => self.fail(batch, &fault),
                Err(_) if batch.len() > 1 => self.run_alone(batch),
                Err(fault) => self.fail(batch, &fault),
            }
            self.wal.bound(&self.db);
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

    /// A fault in a batch: each command has a transaction of its own, so that only the one at fault
    /// fails.
    fn run_alone(&mut self, batch: Vec<Box<dyn Job>>) {
        for job in batch {
            let mut single = vec![job];
            // One transaction per command takes time: none may begin after its deadline.
            let now = self.now();
            match self.transact(now, &mut single) {
                Ok(()) => self.answer(single, Ok(())),
                Err(fault) => self.fail(single, &fault),
            }
        }
    }

    /// Runs a batch in a transaction, to whose span those of its calls are linked.
    fn transact(&mut self, now: Moment, batch: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        let calls = batch.iter().map(|job| job.call());
        let Some(span) = trace::batch(Operation::Transaction, calls) else {
            return self.transact_untraced(now, batch);
        };
        let outcome = span.enter(|| self.transact_untraced(now, batch));
        span.end(outcome.as_ref().err().map(StoreError::kind));
        outcome
    }

    fn transact_untraced(
        &mut self,
        now: Moment,
        batch: &mut [Box<dyn Job>],
    ) -> Result<(), StoreError> {
        self.recover()?;
        let end = self.core.sequence;
        let begun = Instant::now();
        let outcome = self.try_transact(now, batch);
        STORE.call_s.observe(begun.elapsed().as_secs_f64());
        let Err(fault) = outcome else {
            return Ok(());
        };
        self.core.forget();
        let recovered = self.recover();
        if let Err(error) = &recovered {
            warn!(%error, "a failed transaction may still be open, or the ledger's end unread");
        }
        let is_rolled_back = recovered.is_ok() && self.core.sequence == end;
        Err(match fault {
            NotCommitted::Before(fault) => fault,
            NotCommitted::At(error) if is_failed_write(&error) && is_rolled_back => error.into(),
            NotCommitted::At(error) => StoreError::from(error).after_write(),
        })
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
        for job in batch {
            if !job.run(&mut step) {
                let detail = "the batch was rolled back".into();
                let executed = Executed::No;
                return Err(StoreError::Unavailable { executed, detail }.into());
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

/// Why a transaction is not committed.
enum NotCommitted {
    /// Something failed before the commit was tried, so nothing happened.
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
