use super::*;

const MIB: u64 = 1 << 20;

/// A database with a row of 64 KiB, the writer's view of its log, and the checkpointer, which
/// works when the test wants it.
struct Site {
    db: Connection,
    wal: Wal,
    checkpointer: Checkpointer,
}

impl Site {
    fn new(directory: &Path) -> Self {
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
        let reserve = Reserve::new(directory);
        let (wal, checkpointer) = Wal::new(&file, connections, reserve).unwrap();
        Self {
            db,
            wal,
            checkpointer,
        }
    }

    /// Writes as many bytes, and somewhat more, to the log in one batch.
    fn write(&mut self, bytes: u64) {
        self.db.execute_batch("BEGIN").unwrap();
        self.db.execute("DELETE FROM t", []).unwrap();
        for _ in 0..bytes / 65_536 {
            let sql = "INSERT INTO t VALUES (randomblob(65536))";
            self.db.execute(sql, []).unwrap();
        }
        self.db.execute_batch("COMMIT").unwrap();
    }

    /// Batches of a MiB until the checkpointer is woken.
    fn fill(&mut self) {
        while !self.wal.is_woken {
            self.write(MIB);
            self.wal.bound(&self.db);
        }
    }

    /// What the checkpointer does once it is woken.
    fn copy(&mut self) {
        self.checkpointer.wakes.try_recv().unwrap();
        self.checkpointer.copy();
    }

    /// A pass of the checkpointer during which as many bytes are written. The pass copies
    /// nothing, it only reports that it did: after a real pass with nothing left, SQLite would
    /// begin the log again at the next write.
    fn pass(&mut self, bytes: u64) {
        self.checkpointer.wakes.try_recv().unwrap();
        let pages = self.used() / self.wal.frame_bytes;
        let pass = Pass {
            found: pages,
            copied: pages,
            is_busy: false,
        };
        self.write(bytes);
        self.checkpointer.report.try_send(pass).unwrap();
        self.wal.bound(&self.db);
    }

    fn used(&self) -> u64 {
        self.wal.used_bytes.load(Ordering::Relaxed)
    }
}

#[test]
fn the_log_is_copied_in_passes_that_leave_less_and_less_and_its_file_keeps_its_size() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path());
    for _ in 0..3 {
        site.fill();
        for mib in [5, 3] {
            site.pass(mib * MIB);
            assert!(site.wal.is_woken, "{mib}");
        }
        site.pass(MIB);
        assert!(!site.wal.is_woken);
        assert_eq!(site.used(), 0);
        assert!(file_bytes(&site.wal.log) >= STEP_BYTES_MIN + 9 * MIB);
    }
}

#[test]
fn what_grows_faster_than_it_is_copied_is_copied_by_the_writer() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path());
    site.fill();
    // While it is short, it goes on being copied beside the writer.
    let mut sizes = Vec::new();
    while site.wal.is_woken {
        sizes.push(site.used());
        site.pass(9 * MIB);
    }
    assert_eq!(site.used(), 0);
    let last = sizes.last().unwrap();
    let steps = (STEPS_MIN - 2) * STEP_BYTES_MIN..STEPS_MIN * STEP_BYTES_MIN;
    assert!(steps.contains(last), "{sizes:?}");
}

#[test]
fn a_log_that_sqlite_begins_again_by_itself_has_its_step_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path());
    site.fill();
    site.copy();
    site.wal.wake_bytes = 1000 * MIB; // as after a long read
    for _ in 0..2 {
        site.write(MIB); // nothing was left, so the first one begins the log again
        site.wal.bound(&site.db);
        assert!(site.used() < 3 * MIB);
        assert_eq!(site.wal.wake_bytes, STEP_BYTES_MIN);
    }
}

#[test]
fn during_a_long_read_the_writer_goes_on_and_after_it_little_is_left_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path());
    let reader = Connection::open(directory.path().join("database")).unwrap();
    reader
        .execute_batch("BEGIN; SELECT length(v) FROM t;")
        .unwrap();
    let mut passes = 0;
    while site.used() < 2 * BOUND_BYTES_MIN {
        site.fill();
        site.copy();
        site.wal.bound(&site.db);
        passes += 1;
        assert!(site.used() > STEP_BYTES_MIN);
    }
    assert!(passes > 4, "{passes}");
    reader.execute_batch("COMMIT").unwrap();
    // The next pass copies all of it, and the writer cuts off a large file.
    site.fill();
    site.copy();
    site.wal.bound(&site.db);
    assert_eq!(file_bytes(&site.wal.log), 0);
    assert_eq!(site.wal.wake_bytes, STEP_BYTES_MIN);
}

#[test]
fn without_the_checkpointer_the_writer_empties_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path());
    let (gone, _) = sync_channel(1);
    site.wal.wake = gone;
    for _ in 0..20 {
        site.write(MIB);
        site.wal.bound(&site.db);
        assert!(site.used() < STEP_BYTES_MIN);
    }
}

#[test]
fn the_log_is_in_proportion_to_the_database() {
    for (database, wake, bound) in [(0, 8, 32), (3, 8, 32), (100, 25, 100), (4000, 64, 512)] {
        assert_eq!(
            limits(database * MIB),
            (wake * MIB, bound * MIB),
            "{database}"
        );
    }
}
