//! The writer thread: one transaction for each batch, every answer after its commit.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
        mpsc::{Receiver, SyncSender},
    },
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, ffi};
use tracing::{error, info, warn};

use super::{
    job::Job,
    open::BUSY_PATIENCE,
    queue::Inbox,
    step::{Core, Step},
};
use crate::{
    model::Moment,
    store::{Executed, StoreError, clock::Clock},
};

/// Growth of the write-ahead log after which it is copied into the database beside the writer's work. A page that was written
/// often meanwhile is copied once.
pub(super) const WAL_BYTES_STEP: u64 = 64 << 20;
/// The size from which on the writer stops for it.
pub(super) const WAL_BYTES_MAX: u64 = 512 << 20;
/// How long it waits then for whoever reads; after that the log grows on for a while.
const WAL_PATIENCE: Duration = Duration::from_millis(200);
/// A clock that jumps further than this between two batches raises an alarm.
const JUMP_SECONDS_MAX: u64 = 3600;
/// Faults are logged at most this often: on a full disk every batch fails, and the log must not be what fills the disk.
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
    /// The write-ahead log's file.
    pub(super) wal: PathBuf,
    /// The size of the log at which the checkpointer is woken next.
    pub(super) wal_bytes_wake: u64,
    /// The size of the log at which the writer stops for it next.
    pub(super) wal_bytes_due: u64,
    pub(super) wake_checkpointer: SyncSender<()>,
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
            batch.retain(|job| !job.is_abandoned());
            if batch.is_empty() {
                continue;
            }
            let now = self.now();
            match self.transact(now, &mut batch) {
                Ok(()) => self.answer(batch, Ok(())),
                // Where the batch may be committed, a second attempt could tell a lie.
                Err(fault) if fault.executed() == Executed::Unknown => self.fail(batch, &fault),
                Err(_) if batch.len() > 1 => self.run_alone(batch),
                Err(fault) => self.fail(batch, &fault),
            }
            self.bound_wal();
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

    /// A fault in a batch: each command has a transaction of its own, so that only the one at fault fails.
    fn run_alone(&mut self, batch: Vec<Box<dyn Job>>) {
        for job in batch {
            let mut single = vec![job];
            // So many transactions take their time: none may begin after its deadline.
            let now = self.now();
            match self.transact(now, &mut single) {
                Ok(()) => self.answer(single, Ok(())),
                Err(fault) => self.fail(single, &fault),
            }
        }
    }

    fn transact(&mut self, now: Moment, batch: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        self.core.find_again(&self.db)?;
        let end = self.core.sequence;
        let Err(fault) = self.try_transact(now, batch) else {
            return Ok(());
        };
        if !self.db.is_autocommit()
            && let Err(error) = self.db.execute_batch("ROLLBACK")
        {
            warn!(%error, "a failed transaction could not be rolled back");
        }
        let found = self.core.forget(&self.db);
        if let Err(error) = &found {
            warn!(%error, "the ledger's end could not be read");
        }
        let is_rolled_back = self.db.is_autocommit() && found.is_ok() && self.core.sequence == end;
        Err(match fault {
            NotCommitted::Before(fault) => fault,
            NotCommitted::At(error) if is_failed_write(&error) && is_rolled_back => error.into(),
            NotCommitted::At(error) => StoreError::from(error).after_write(),
        })
    }

    fn try_transact(
        &mut self,
        now: Moment,
        batch: &mut [Box<dyn Job>],
    ) -> Result<(), NotCommitted> {
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
        for state in self.core.campaigns.values_mut() {
            state.flush(&self.db)?;
        }
        self.core.envelopes.flush(&self.db)?;
        let mut commit = self.db.prepare_cached("COMMIT")?;
        commit.execute([]).map(drop).map_err(NotCommitted::At)
    }

    fn answer(&mut self, batch: Vec<Box<dyn Job>>, commit: Result<(), &StoreError>) {
        self.failing.store(false, Ordering::Relaxed);
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

    /// Keeps the write-ahead log small: the checkpointer copies it step by step; the writer stops only to begin it anew.
    fn bound_wal(&mut self) {
        let bytes = std::fs::metadata(&self.wal).map_or(0, |file| file.len());
        if bytes > self.wal_bytes_due {
            let emptied = self.truncate_wal().unwrap_or_else(|error| {
                warn!(%error, "the write-ahead log could not be checkpointed");
                false
            });
            (self.wal_bytes_wake, self.wal_bytes_due) = if emptied {
                (WAL_BYTES_STEP, WAL_BYTES_MAX)
            } else {
                // Someone reads an old state for long: to wait for them at every batch would stop all draws.
                (bytes + WAL_BYTES_STEP, bytes + WAL_BYTES_STEP)
            };
        } else if bytes > self.wal_bytes_wake {
            self.wal_bytes_wake = bytes + WAL_BYTES_STEP;
            // Where the channel is full the checkpointer is at work already.
            let _ = self.wake_checkpointer.try_send(());
        }
    }

    /// Copies the log into the database and empties it; false where a reader did not let it in time.
    fn truncate_wal(&self) -> rusqlite::Result<bool> {
        self.db.busy_timeout(WAL_PATIENCE)?;
        let is_busy = checkpoint(&self.db, "TRUNCATE");
        self.db.busy_timeout(BUSY_PATIENCE)?;
        Ok(!is_busy?)
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

/// A write to the log failed, as on a full disk. The frame that makes a transaction count is the last one that its commit writes, so
/// it is not in the log, or not whole: unlike after a failed sync, no later start of the service finds the transaction there.
fn is_failed_write(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        error.code == ErrorCode::DiskFull || error.extended_code == ffi::SQLITE_IOERR_WRITE
    })
}

/// The writer ends: in order, when its inbox is closed and empty, or by a panic. Then the store must say so.
struct WriterEnd {
    inbox: Arc<Inbox>,
    failing: Arc<AtomicBool>,
}

impl Drop for WriterEnd {
    fn drop(&mut self) {
        self.failing.store(true, Ordering::Relaxed);
        if std::thread::panicking() {
            error!(
                "the embedded store's writer has panicked: nothing is written any more, restart the service"
            );
        }
        self.inbox.abandon(&super::stopped(Executed::No));
    }
}

/// Copies the write-ahead log into the database; true where others kept it from doing all of it.
fn checkpoint(db: &Connection, mode: &str) -> rusqlite::Result<bool> {
    db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        row.get(0)
    })
}

/// The checkpointer: copies the log beside the writer's work, without waiting for readers.
pub(super) fn run_checkpointer(db: &Connection, wakes: &Receiver<()>) {
    while wakes.recv().is_ok() {
        if let Err(error) = checkpoint(db, "PASSIVE") {
            warn!(%error, "the write-ahead log could not be checkpointed");
        }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
