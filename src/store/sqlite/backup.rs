//! Backups, which are made while the store works, and the fork with which a restored one goes on.
//!
//! What was done after a backup is lost with the data it replaces, but the numbers of entries and
//! the ids of units that were given out then must not be used again. So a restored store begins a
//! fork, as a partition on Redis does when it finds itself on another server: its entries go on far
//! beyond all earlier ones, and units that are put from then on have the fork's mark.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rusqlite::{Connection, params};
use tracing::warn;

use super::{
    DATABASE_FILE, Inspected, OpenError, SqliteStore,
    faults::unavailable,
    job::Command,
    open::{self, BACKUP_MARK},
    reserve::{FREE_BYTES_AMPLE, Reserve},
    step::{Step, last_entry},
};
use crate::{
    model::{EnvelopeId, Moment},
    store::{Author, Backup, Executed, Result, StoreError, entry::Body},
};

/// What the names of unfinished backups begin with.
const UNFINISHED: &str = ".unfinished-backup-";
/// Steps of SQLite's machine after which a backup looks whether somebody still awaits it.
const STEPS_BETWEEN_LOOKS: i32 = 1000;
/// Entries go on this far beyond the last one of the backup, or up to twice as far: no store
/// writes as many between two backups.
const STEP_MIN: u64 = 1 << 31;

/// A fork that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunFork {
    /// The last entry before it.
    pub base: u64,
    /// The first entry of it.
    pub first: u64,
    /// Its mark.
    pub mark: u32,
}

/// Makes a backup. It takes as much room beside the data as they have. If its caller goes away, it
/// ends at once: a process that stops does not wait for it.
pub(super) async fn make(directory: &Path) -> Result<Backup> {
    let directory = directory.to_owned();
    let caller = Caller::default();
    let is_gone = Arc::clone(&caller.is_gone);
    let made = tokio::task::spawn_blocking(move || copy(&directory, is_gone)).await;
    made.unwrap_or_else(|_| Err(unavailable(Executed::No, "a backup has failed")))
}

/// Who awaits a backup.
#[derive(Default)]
struct Caller {
    is_gone: Arc<AtomicBool>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }
}

fn copy(directory: &Path, is_gone: Arc<AtomicBool>) -> Result<Backup> {
    check_room(directory)?;
    let file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(directory)
        .map_err(failed)?
        .into_temp_path();
    let name = file
        .to_str()
        .ok_or_else(|| unavailable(Executed::No, "the path of the data directory is not UTF-8"))?;
    let mut db = Connection::open(directory.join(DATABASE_FILE))?;
    let is_abandoned = move || is_gone.load(Ordering::Relaxed);
    db.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_abandoned))?;
    // It reads as of one moment, and the writer goes on.
    db.execute("VACUUM INTO ?1", [name])?;
    let (head, at) = mark(&file)?;
    let bytes = fs::metadata(&file).map_err(failed)?.len();
    Ok(Backup {
        file,
        bytes,
        head,
        at,
    })
}

/// Marks a copy as a backup, which is served only once it is restored. Returns the number and the
/// moment of its last entry.
fn mark(file: &Path) -> Result<(u64, Moment)> {
    let db = Connection::open(file)?;
    // Nobody needs this copy after a crash: who keeps what is sent of it syncs that.
    db.execute_batch("PRAGMA synchronous = OFF")?;
    let (head, at) = last_entry(&db)?;
    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
    db.execute(sql, params![BACKUP_MARK, head.to_string()])?;
    Ok((head, at))
}

/// Removes what a process that was killed has left of a backup.
pub(super) fn remove_unfinished(directory: &Path) {
    let Ok(files) = fs::read_dir(directory) else {
        return; // whoever opens the store will say why
    };
    for file in files.flatten() {
        let name = file.file_name();
        if name.to_string_lossy().starts_with(UNFINISHED)
            && let Err(error) = fs::remove_file(file.path())
        {
            let path = file.path();
            warn!(%error, "an unfinished backup stays: remove {}", path.display());
        }
    }
}

fn check_room(directory: &Path) -> Result<()> {
    let database = directory.join(DATABASE_FILE);
    let mut log = database.clone().into_os_string();
    log.push("-wal");
    let bytes = |file: &Path| fs::metadata(file).map_or(0, |file| file.len());
    let needed = bytes(&database) + bytes(&PathBuf::from(log)) + FREE_BYTES_AMPLE;
    let free = Reserve::new(directory).free_bytes().map_err(failed)?;
    if free < needed {
        let text = format!(
            "a backup needs {} MiB of room beside the data, and there are {} MiB: make room",
            needed >> 20,
            free >> 20
        );
        return Err(unavailable(Executed::No, &text));
    }
    Ok(())
}

fn failed(error: io::Error) -> StoreError {
    unavailable(Executed::No, &format!("a backup cannot be made: {error}"))
}

impl SqliteStore {
    /// Looks at a backup, and reads all of it.
    ///
    /// # Errors
    /// It is no embedded store, it is damaged, or a newer version has made it.
    pub fn inspect(file: &Path) -> std::result::Result<Inspected, OpenError> {
        open::inspect(file)
    }

    /// Begins a fork: the store was restored from a backup. `lost` is the number of the last entry
    /// that is known to be lost, 0 if none is: the fork begins beyond it, whatever the clock shows.
    ///
    /// # Errors
    /// Faults of the file.
    pub async fn begin_fork(&self, author: &Author, lost: u64) -> Result<BegunFork> {
        let author = author.clone();
        self.submit(ForkCommand { author, lost }).await
    }

    /// Envelopes that have packets left.
    ///
    /// # Errors
    /// Faults of the file.
    pub async fn open_envelopes(&self) -> Result<Vec<EnvelopeId>> {
        self.read(|db| {
            let sql = "SELECT id FROM envelopes WHERE refund_due IS NOT NULL ORDER BY no";
            let mut statement = db.prepare_cached(sql)?;
            let ids = statement.query_map([], |row| row.get::<_, String>(0))?;
            ids.map(|id| {
                EnvelopeId::parse("envelope", &id?)
                    .map_err(|problem| StoreError::corrupt(problem.message))
            })
            .collect()
        })
        .await
    }
}

/// Begins a fork.
struct ForkCommand {
    author: Author,
    /// The last entry that is known to be lost.
    lost: u64,
}

impl Command for ForkCommand {
    type Reply = BegunFork;

    fn run(&self, step: &mut Step<'_>) -> Result<BegunFork> {
        let base = step.core.sequence;
        let mark = rand::random_range(1..1 << 24);
        // A later restore of the same backup begins behind what an earlier one has given out.
        let by_time = step.now.as_seconds().unsigned_abs() << 20;
        let by_time = by_time + rand::random_range(0..1 << 20);
        let last = base.max(self.lost);
        let first = (last + rand::random_range(STEP_MIN..2 * STEP_MIN)).max(by_time);
        step.db
            .prepare_cached("DELETE FROM meta WHERE key = ?1")?
            .execute([BACKUP_MARK])?;
        step.db
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES ('fork', ?1)")?
            .execute(params![mark.to_string()])?;
        step.core.fork = mark;
        let settled = step.core.settled.map_or(0, |settled| settled.sequence);
        step.core.jumps.add(base, first, settled);
        step.core.jumps.write(step.db)?;
        step.core.sequence = first - 1;
        let replid: [u8; 20] = rand::random();
        let author = self.author.clone();
        step.append_of_partition(&Body::Forked {
            replid: crate::chance::hex(&replid),
            base,
            mark,
        })?;
        let halt = format!("- - {base}");
        step.append_of_partition(&Body::Recovered { halt, author })?;
        Ok(BegunFork { base, first, mark })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_that_nobody_awaits_ends_and_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let db = Connection::open(directory.path().join(DATABASE_FILE)).unwrap();
        db.execute_batch(
            "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
             CREATE TABLE ledger (sequence INTEGER PRIMARY KEY, at INTEGER);
             WITH RECURSIVE numbers (no) AS (SELECT 1 UNION ALL SELECT no + 1 FROM numbers
                 LIMIT 10000)
             INSERT INTO ledger SELECT no, no FROM numbers;",
        )
        .unwrap();
        drop(db);
        let copy = |is_gone| copy(directory.path(), Arc::new(AtomicBool::new(is_gone)));
        assert_eq!(copy(false).unwrap().head, 10_000);
        assert!(copy(true).is_err());
        let files = fs::read_dir(directory.path()).unwrap();
        let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names, [DATABASE_FILE]);
        let caller = Caller::default();
        let is_gone = Arc::clone(&caller.is_gone);
        drop(caller);
        assert!(is_gone.load(Ordering::Relaxed));
    }
}
