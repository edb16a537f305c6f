//! The write-ahead log's size. It stays in proportion to the database.
//!
//! Once the log has grown by a step, the checkpointer copies it into the database beside the
//! writer's work. What the writer has added meanwhile it copies in a further pass, and so on, until
//! little is left. The writer copies this rest between two batches, and the next batch overwrites
//! the log from its beginning. If the log has grown to several steps and a pass leaves hardly less
//! than the one before, the writer copies all that is left, while draws wait: it adds more than can
//! be copied beside it.
//!
//! What came after a read began cannot be copied until it ends, and a backup reads for minutes.
//! Meanwhile the log grows, and each time that it has grown by a step, the checkpointer tries
//! again.
//!
//! The file of the log keeps its size: to cut it off takes tens of milliseconds, and to let it grow
//! again makes each commit change the size of a file. It is cut off only if it has become larger
//! than its bound, and on a full disk.
//!
//! The checkpointer syncs the database after each pass, since draws read the copied pages from the
//! database as soon as the pass ends. SQLite itself syncs while it copies, too. If a sync fails,
//! the process ends. The system drops pages that it could not write, and reports that only once for
//! each open file. SQLite would not copy them again, and would later overwrite the log. The next
//! start copies all of the log.

use std::{
    fmt::Display,
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    },
    time::Duration,
};

use rusqlite::{Connection, ffi, hooks};
use tracing::warn;

use super::{open::BUSY_PATIENCE, reserve::Reserve};
use crate::ending;

/// The log is copied after it has grown to a quarter of the database, but within these bounds, in
/// bytes. It grows on meanwhile, up to four times as large if each pass leaves three quarters.
const STEP_BYTES_MIN: u64 = 8 << 20;
const STEP_BYTES_MAX: u64 = 64 << 20;
/// The writer does not copy a log of fewer steps if a pass leaves hardly less than the one before:
/// a slow disk may be fast again at the next one.
const STEPS_MIN: u64 = 4;

/// The file of the log is as large as the database at most, but its bound is within these, in
/// bytes. A larger one is cut off.
const BOUND_BYTES_MIN: u64 = 32 << 20;
const BOUND_BYTES_MAX: u64 = 512 << 20;

/// At most this much, in bytes, is left to the writer if the passes leave less and less: some
/// milliseconds of its time. If a pass could not copy more than this, a long read is in the way.
const LITTLE_BYTES: u64 = 2 << 20;

/// How long the writer waits for readers before it empties a log that was copied.
const PATIENCE: Duration = Duration::from_millis(5);

/// How long it waits for room on a full disk.
const PATIENCE_FOR_ROOM: Duration = Duration::from_millis(200);

/// How the writer empties the log: its file keeps its size, or is cut off.
const OVERWRITE: &str = "RESTART";
const CUT_OFF: &str = "TRUNCATE";

/// What the log has beside each page.
const FRAME_HEADER_BYTES: u64 = 24;

/// How often the checkpointer looks after the reserve, at least.
const RESERVE_INTERVAL: Duration = Duration::from_secs(10);

/// The log as the writer sees it.
pub(super) struct Wal {
    log: PathBuf,
    database: PathBuf,
    /// The size of what is in the log. What its file has behind that is from before.
    used_bytes: Arc<AtomicU64>,
    /// The same after the batch before.
    seen_bytes: u64,
    /// The size of a page in the log.
    frame_bytes: u64,
    /// The size at which the checkpointer is woken.
    wake_bytes: u64,
    /// The checkpointer was woken and has not reported since.
    is_woken: bool,
    wake: SyncSender<()>,
    reports: Receiver<Pass>,
    /// How much there was to copy when the checkpointer was last woken.
    left_bytes: u64,
}

/// What a checkpoint did, in pages of the log.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    /// It failed, another connection was at it, or a reader kept the writer from emptying the log.
    is_busy: bool,
    /// What was in the log when it began.
    found: u64,
    /// What of that is in the database now.
    copied: u64,
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
        let (report, reports) = sync_channel(1);
        let checkpointer = Checkpointer {
            file: open(database)?,
            db,
            wakes,
            report,
            reserve,
        };
        let page_bytes: u64 = writer.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        let frame_bytes = page_bytes + FRAME_HEADER_BYTES;
        let used_bytes = Arc::new(AtomicU64::new(0));
        let used = Arc::clone(&used_bytes);
        writer.wal_hook(Some(move |_: &mut hooks::Wal, pages| {
            let pages = u64::try_from(pages).unwrap_or(0);
            used.store(pages * frame_bytes, Ordering::Relaxed);
            Ok(())
        }))?;
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let (wake_bytes, _) = limits(file_bytes(database));
        let wal = Self {
            log: log.into(),
            database: database.to_owned(),
            used_bytes,
            frame_bytes,
            seen_bytes: 0,
            wake_bytes,
            is_woken: false,
            wake,
            reports,
            left_bytes: 0,
        };
        Ok((wal, checkpointer))
    }

    /// Bounds the log after a batch; `db` is the writer's connection.
    pub(super) fn bound(&mut self, db: &Connection) {
        let bytes = self.used_bytes.load(Ordering::Relaxed);
        let report = self.report();
        if bytes < self.seen_bytes {
            // All of the log was copied, so SQLite has begun it again by itself.
            self.wake_bytes = limits(file_bytes(&self.database)).0;
            if self.mode() == CUT_OFF {
                self.empty(db, CUT_OFF, PATIENCE);
            }
        } else if let Some(pass) = report {
            self.follow(db, pass, bytes);
        } else if bytes >= self.wake_bytes && !self.is_woken {
            self.left_bytes = bytes;
            self.wake(db);
        }
        self.seen_bytes = self.used_bytes.load(Ordering::Relaxed);
    }

    /// What the checkpointer has done since it was woken, once it is done.
    fn report(&mut self) -> Option<Pass> {
        let report = self.reports.try_recv();
        self.is_woken &= matches!(report, Err(TryRecvError::Empty));
        report.ok()
    }

    fn wake(&mut self, db: &Connection) {
        self.is_woken = self.wake.try_send(()).is_ok();
        if !self.is_woken {
            // The checkpointer is gone.
            self.empty(db, self.mode(), PATIENCE);
        }
    }

    /// After a pass of the checkpointer: another one, or the writer empties the log, or neither can
    /// do anything for now.
    fn follow(&mut self, db: &Connection, pass: Pass, bytes: u64) {
        let left = bytes.saturating_sub(pass.copied * self.frame_bytes);
        let is_less = left <= self.left_bytes / 4 * 3;
        let unread = pass.found.saturating_sub(pass.copied) * self.frame_bytes;
        let is_read = pass.is_busy || unread > LITTLE_BYTES;
        let (step, _) = limits(file_bytes(&self.database));
        let is_short = bytes < STEPS_MIN * step;
        if !pass.is_busy && left > LITTLE_BYTES && (is_less || is_short && !is_read) {
            self.left_bytes = left;
            self.wake(db);
        } else if is_read {
            // Someone reads an old state for long: to wait for them at every batch would stop all
            // draws.
            self.wait_for_a_step();
        } else {
            self.empty(db, self.mode(), PATIENCE);
        }
    }

    /// The checkpointer is woken again once the log has grown by a step.
    fn wait_for_a_step(&mut self) {
        let (step, _) = limits(file_bytes(&self.database));
        self.wake_bytes = self.used_bytes.load(Ordering::Relaxed) + step;
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
        file_bytes(&self.log) > 0 && self.empty(db, CUT_OFF, PATIENCE_FOR_ROOM)
    }

    /// Copies the rest of the log and empties it in this mode; false if a reader did not let it in
    /// time.
    fn empty(&mut self, db: &Connection, mode: &str, patience: Duration) -> bool {
        let is_empty = empty(db, mode, patience).unwrap_or_else(|error| {
            report(&error);
            false
        });
        if is_empty {
            self.used_bytes.store(0, Ordering::Relaxed);
        }
        self.wait_for_a_step();
        is_empty
    }
}

/// The size of the log at which the checkpointer is woken, and the bound of its file.
fn limits(database_bytes: u64) -> (u64, u64) {
    let wake = (database_bytes / 4).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
    let bound = database_bytes.clamp(BOUND_BYTES_MIN, BOUND_BYTES_MAX);
    (wake, bound)
}

/// Opens a database to sync it. The file is never closed. POSIX locks belong to the process, so
/// closing it would end the locks of all connections of this process.
fn open(database: &Path) -> rusqlite::Result<&'static File> {
    let file = File::open(database).map_err(|error| {
        let code = ffi::Error::new(ffi::SQLITE_CANTOPEN);
        rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
    })?;
    Ok(Box::leak(Box::new(file)))
}

fn file_bytes(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |file| file.len())
}

fn empty(db: &Connection, mode: &str, patience: Duration) -> rusqlite::Result<bool> {
    db.busy_timeout(patience)?;
    let pass = checkpoint(db, mode);
    db.busy_timeout(BUSY_PATIENCE)?;
    Ok(!pass?.is_busy)
}

/// Copies the write-ahead log into the database.
fn checkpoint(db: &Connection, mode: &str) -> rusqlite::Result<Pass> {
    db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        // Both are -1 if another connection was at it.
        let (found, copied): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(Pass {
            is_busy: row.get(0)?,
            found: u64::try_from(found).unwrap_or(0),
            copied: u64::try_from(copied).unwrap_or(0),
        })
    })
}

/// Reports that the log could not be copied. Ends the process if that was because of a sync.
fn report(error: &rusqlite::Error) {
    let code = error.sqlite_error().map(|error| error.extended_code);
    if code == Some(ffi::SQLITE_IOERR_FSYNC) {
        end(error);
    }
    warn!(%error, "the write-ahead log could not be checkpointed");
}

/// Ends the process. The database is not closed, because SQLite would then copy the rest of the log
/// and delete it.
fn end(error: &dyn Display) -> ! {
    ending::end(&format!(
        "the disk failed to keep what was written to the store ({error}), so the process ends: \
         check the disk, then start again, which copies the write-ahead log once more"
    ))
}

/// Copies the log beside the writer's work, without waiting for readers, and looks after the
/// reserve.
pub(super) struct Checkpointer {
    /// The database. It was opened before anything was copied, so it gets the error of any write.
    file: &'static File,
    db: Connection,
    wakes: Receiver<()>,
    report: SyncSender<Pass>,
    reserve: Reserve,
}

impl Checkpointer {
    /// Works until the writer is gone.
    pub(super) fn run(&self) {
        loop {
            self.reserve.keep();
            match self.wakes.recv_timeout(RESERVE_INTERVAL) {
                Ok(()) => self.copy(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn copy(&self) {
        let pass = checkpoint(&self.db, "PASSIVE").unwrap_or_else(|error| {
            report(&error);
            Pass {
                is_busy: true,
                ..Pass::default()
            }
        });
        if let Err(error) = self.file.sync_data() {
            end(&error);
        }
        // The writer wakes for one pass at a time, so there is room.
        let _ = self.report.try_send(pass);
    }
}

#[cfg(test)]
#[path = "wal_tests.rs"]
mod tests;
