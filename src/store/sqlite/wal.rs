//! The write-ahead log's size. It stays in proportion to the database.
//!
//! Once the log has grown by a step, the checkpointer copies it into the database beside the
//! writer's work. Then little is left to copy, so the writer copies the rest between two batches,
//! and the next batch overwrites the log from its beginning. Only if the log reaches its bound
//! before, or a long read is in the way, does the writer wait for others.
//!
//! The file of the log keeps its size: to cut it off takes tens of milliseconds, and to let it grow
//! again makes each commit change the size of a file. It is cut off only if it has become larger
//! than its bound, and on a full disk.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    time::Duration,
};

use rusqlite::{Connection, hooks};
use tracing::warn;

use super::{open::BUSY_PATIENCE, reserve::Reserve};

/// The log is copied after it has grown to half of the database, but within these bounds, in bytes.
const STEP_BYTES_MIN: u64 = 8 << 20;
const STEP_BYTES_MAX: u64 = 64 << 20;

/// The log is as large as the database at most, but its bound is within these, in bytes.
const BOUND_BYTES_MIN: u64 = 32 << 20;
const BOUND_BYTES_MAX: u64 = 512 << 20;

/// How long the writer waits for readers before it empties a log that was copied.
const PATIENCE: Duration = Duration::from_millis(5);

/// How long it waits for a log that has reached its bound, or for room on a full disk.
const PATIENCE_AT_BOUND: Duration = Duration::from_millis(200);

/// How the writer empties the log: its file keeps its size, or is cut off.
const OVERWRITE: &str = "RESTART";
const CUT_OFF: &str = "TRUNCATE";

/// What the log has beside each page.
const FRAME_HEADER_BYTES: u64 = 24;

/// How often the checkpointer looks after the reserve.
const RESERVE_INTERVAL: Duration = Duration::from_secs(10);

/// The log as the writer sees it.
pub(super) struct Wal {
    log: PathBuf,
    database: PathBuf,
    /// The size of what is in the log. What its file has behind that is from before.
    used_bytes: Arc<AtomicU64>,
    /// The size at which the checkpointer is woken.
    wake_bytes: u64,
    /// The size at which the writer empties the log itself.
    bound_bytes: u64,
    is_woken: bool,
    /// The checkpointer has copied the log since it was woken.
    is_copied: Arc<AtomicBool>,
    wake: SyncSender<()>,
}

impl Wal {
    /// The log of a database that one connection writes to, and the checkpointer that works for it
    /// over another.
    pub(super) fn new(
        database: &Path,
        (writer, db): (&mut Connection, Connection),
        reserve: Reserve,
    ) -> rusqlite::Result<(Self, Checkpointer)> {
        let (wake, wakes) = sync_channel(1);
        let is_copied = Arc::new(AtomicBool::new(false));
        let checkpointer = Checkpointer {
            db,
            wakes,
            is_copied: Arc::clone(&is_copied),
            reserve,
        };
        let page_bytes: u64 = writer.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        let used_bytes = Arc::new(AtomicU64::new(0));
        let used = Arc::clone(&used_bytes);
        writer.wal_hook(Some(move |_: &mut hooks::Wal, pages| {
            let pages = u64::try_from(pages).unwrap_or(0);
            used.store(pages * (page_bytes + FRAME_HEADER_BYTES), Ordering::Relaxed);
            Ok(())
        }))?;
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let (wake_bytes, bound_bytes) = limits(file_bytes(database));
        let wal = Self {
            log: log.into(),
            database: database.to_owned(),
            used_bytes,
            wake_bytes,
            bound_bytes,
            is_woken: false,
            is_copied,
            wake,
        };
        Ok((wal, checkpointer))
    }

    /// Bounds the log after a batch; `db` is the writer's connection.
    pub(super) fn bound(&mut self, db: &Connection) {
        let bytes = self.used_bytes.load(Ordering::Relaxed);
        if bytes < self.wake_bytes {
            // If the checkpointer has copied all of the log, SQLite begins it again by itself.
            self.is_woken = false;
            return;
        }
        if bytes >= self.bound_bytes {
            self.empty(db, self.mode(), PATIENCE_AT_BOUND);
        } else if !self.is_woken {
            self.is_copied.store(false, Ordering::Relaxed);
            // If the channel is full, the checkpointer has work already.
            self.is_woken = !matches!(self.wake.try_send(()), Err(TrySendError::Disconnected(())));
        } else if self.is_copied.load(Ordering::Relaxed) {
            self.empty(db, self.mode(), PATIENCE);
        }
    }

    /// How to empty the log: a file beyond the bound, as after a long read, is not kept.
    fn mode(&self) -> &'static str {
        let (_, bound_bytes) = limits(file_bytes(&self.database));
        match file_bytes(&self.log) < bound_bytes {
            true => OVERWRITE,
            false => CUT_OFF,
        }
    }

    /// Cuts the log off on a full disk, if it is worth it. True if that made room.
    pub(super) fn make_room(&mut self, db: &Connection) -> bool {
        file_bytes(&self.log) > 0 && self.empty(db, CUT_OFF, PATIENCE_AT_BOUND)
    }

    /// Copies the rest of the log and empties it in this mode; false if a reader did not let it in
    /// time.
    fn empty(&mut self, db: &Connection, mode: &str, patience: Duration) -> bool {
        let is_empty = empty(db, mode, patience).unwrap_or_else(|error| {
            warn!(%error, "the write-ahead log could not be checkpointed");
            false
        });
        let (wake_bytes, bound_bytes) = limits(file_bytes(&self.database));
        self.is_woken = false;
        (self.wake_bytes, self.bound_bytes) = if is_empty {
            self.used_bytes.store(0, Ordering::Relaxed);
            (wake_bytes, bound_bytes)
        } else {
            // Someone reads an old state for long: to wait for them at every batch would stop all
            // draws.
            let later = self.used_bytes.load(Ordering::Relaxed) + wake_bytes;
            (later, bound_bytes.max(later))
        };
        is_empty
    }
}

/// The sizes of the log at which the checkpointer is woken, and at which the writer empties it.
fn limits(database_bytes: u64) -> (u64, u64) {
    let wake = (database_bytes / 2).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
    let bound = database_bytes.clamp(BOUND_BYTES_MIN, BOUND_BYTES_MAX);
    (wake, bound)
}

fn file_bytes(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |file| file.len())
}

fn empty(db: &Connection, mode: &str, patience: Duration) -> rusqlite::Result<bool> {
    db.busy_timeout(patience)?;
    let is_busy = checkpoint(db, mode);
    db.busy_timeout(BUSY_PATIENCE)?;
    Ok(!is_busy?)
}

/// Copies the write-ahead log into the database; true if others kept it from doing all of it.
fn checkpoint(db: &Connection, mode: &str) -> rusqlite::Result<bool> {
    db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        row.get(0)
    })
}

/// Copies the log beside the writer's work, without waiting for readers, and looks after the
/// reserve.
pub(super) struct Checkpointer {
    db: Connection,
    wakes: Receiver<()>,
    is_copied: Arc<AtomicBool>,
    reserve: Reserve,
}

impl Checkpointer {
    /// Works until the writer is gone.
    pub(super) fn run(&self) {
        self.reserve.keep();
        loop {
            match self.wakes.recv_timeout(RESERVE_INTERVAL) {
                Ok(()) => self.copy(),
                Err(RecvTimeoutError::Timeout) => self.reserve.keep(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn copy(&self) {
        if let Err(error) = checkpoint(&self.db, "PASSIVE") {
            warn!(%error, "the write-ahead log could not be checkpointed");
        }
        self.is_copied.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database with a row of 64 KiB, the writer's view of its log, and the checkpointer at work.
    fn at_work(directory: &Path) -> (Connection, Wal, std::thread::JoinHandle<()>) {
        let file = directory.join("database");
        let connect = || {
            let db = Connection::open(&file).unwrap();
            db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;")
                .unwrap();
            db
        };
        let mut db = connect();
        db.execute_batch("CREATE TABLE t (v BLOB); INSERT INTO t VALUES (randomblob(65536));")
            .unwrap();
        let connections = (&mut db, connect());
        let (wal, checkpointer) = Wal::new(&file, connections, Reserve::new(directory)).unwrap();
        (db, wal, std::thread::spawn(move || checkpointer.run()))
    }

    /// Writes this many bytes and more to the log; the greatest size that it had.
    fn write(db: &Connection, wal: &mut Wal, bytes: u64) -> u64 {
        let mut greatest = 0;
        for _ in 0..bytes / 65536 {
            db.execute("UPDATE t SET v = randomblob(65536)", [])
                .unwrap();
            wal.bound(db);
            greatest = greatest.max(file_bytes(&wal.log));
        }
        greatest
    }

    #[test]
    fn a_small_database_has_a_small_log_however_much_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let (db, mut wal, checkpointer) = at_work(directory.path());
        let greatest = write(&db, &mut wal, 3 * BOUND_BYTES_MIN);
        assert!(greatest < BOUND_BYTES_MIN + STEP_BYTES_MIN, "{greatest}");
        drop(wal);
        checkpointer.join().unwrap();
    }

    #[test]
    fn a_log_that_was_copied_is_overwritten_and_keeps_its_size() {
        let directory = tempfile::tempdir().unwrap();
        let (db, mut wal, checkpointer) = at_work(directory.path());
        for _ in 0..3 {
            while !wal.is_woken {
                write(&db, &mut wal, 65_536);
            }
            while !wal.is_copied.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let before = file_bytes(&wal.log);
            write(&db, &mut wal, 2 * 65_536);
            let used = wal.used_bytes.load(Ordering::Relaxed);
            assert!((65_536..STEP_BYTES_MIN / 2).contains(&used), "{used}");
            assert!(!wal.is_woken);
            assert!(file_bytes(&wal.log) >= before && before >= STEP_BYTES_MIN);
        }
        drop(wal);
        checkpointer.join().unwrap();
    }

    #[test]
    fn a_long_read_lets_the_log_grow_and_its_end_empties_it() {
        let directory = tempfile::tempdir().unwrap();
        let (db, mut wal, checkpointer) = at_work(directory.path());
        let reader = Connection::open(directory.path().join("database")).unwrap();
        reader
            .execute_batch("BEGIN; SELECT length(v) FROM t;")
            .unwrap();
        assert!(write(&db, &mut wal, 2 * BOUND_BYTES_MIN) > BOUND_BYTES_MIN);
        reader.execute_batch("COMMIT").unwrap();
        write(&db, &mut wal, 2 * BOUND_BYTES_MIN);
        let left = file_bytes(&wal.log);
        assert!(left < BOUND_BYTES_MIN + STEP_BYTES_MIN, "{left}");
        drop(wal);
        checkpointer.join().unwrap();
    }

    #[test]
    fn the_log_is_in_proportion_to_the_database() {
        const MIB: u64 = 1 << 20;
        for (database, wake, bound) in [(0, 8, 32), (3, 8, 32), (100, 50, 100), (4000, 64, 512)] {
            assert_eq!(
                limits(database * MIB),
                (wake * MIB, bound * MIB),
                "{database}"
            );
        }
    }
}
