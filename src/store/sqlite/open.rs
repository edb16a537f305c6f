//! Opening the embedded store: lock, schema, identity, key.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, OptionalExtension, config::DbConfig, params};

use super::{
    faults::is_damage, lists, lookup, open_error::OpenError, reserve::Reserve, state::load_view,
    step::last_entry,
};
use crate::{
    lock_file::LockFile,
    model::{CampaignId, Moment},
    store::{CampaignView, clock::Clock},
};

/// The database's file in its directory.
pub const DATABASE_FILE: &str = "tombola.sqlite3";
/// What each version of the schema adds to the one before.
const SCHEMAS: [&str; SCHEMA_VERSION as usize] = [
    include_str!("schema.sql"),
    include_str!("schema_envelopes.sql"),
    include_str!("schema_due.sql"),
    include_str!("schema_reader.sql"),
    include_str!("schema_holds.sql"),
    include_str!("schema_forfeited.sql"),
    include_str!("schema_numbers.sql"),
    include_str!("schema_ledger.sql"),
    include_str!("schema_lists.sql"),
    include_str!("schema_deliveries.sql"),
    include_str!("schema_chains.sql"),
    include_str!("schema_removal.sql"),
    include_str!("schema_forks.sql"),
    include_str!("schema_more.sql"),
    concat!(
        include_str!("schema_budget.sql"),
        include_str!("schema_proposals.sql"),
        include_str!("schema_activity.sql")
    ),
    include_str!("schema_requests.sql"),
    include_str!("schema_changed.sql"),
    include_str!("schema_lookup.sql"),
    include_str!("schema_operations.sql"),
    include_str!("schema_latest.sql"),
    include_str!("schema_listed.sql"),
    include_str!("schema_conditions.sql"),
];
/// The version of the schema.
pub(super) const SCHEMA_VERSION: u32 = 22;
/// The last version before [`lookup::build`].
pub(super) const BEFORE_LOOKUP: usize = 17;
/// The last version before [`lists::build`].
pub(super) const BEFORE_LISTS: usize = 20;
/// The last version in which each request had a row of its own.
#[cfg(test)]
pub(super) const BEFORE_LATEST: usize = 19;
/// Marks a backup in `meta`, with the number of its last entry. `tombola restore` removes the mark.
pub(super) const BACKUP_MARK: &str = "backup";
/// Marks our files (`PRAGMA application_id`): "Tomb".
const APPLICATION_ID: i64 = 0x546f_6d62;
/// The writer keeps up to 32 MiB of pages; readers, whose pages every commit makes stale, keep few.
/// Pages that are not kept come from the system's cache.
const WRITER_CACHE: &str = "PRAGMA cache_size = -32768";
/// How long a connection waits for others, such as someone who copies the file.
pub const BUSY_PATIENCE: Duration = Duration::from_secs(10);
/// Connections for reading, and further ones for lists of the settled ledger, which may take long.
const READERS: usize = 2;
pub(super) const LIST_READERS: usize = 2;
/// Real time may lag behind the store's by this much: clocks are set back by a little now and then.
const LAG_SECONDS_MAX: u64 = 300;

/// How an embedded store is opened.
#[derive(Clone)]
pub struct Options {
    /// The directory of its files; made if it is missing.
    pub directory: PathBuf,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// How long request ids are remembered.
    pub request_memory: Duration,
    /// Identifies the master key without revealing it (see [`crate::chance::MasterKey`]); a store
    /// belongs to one key for ever.
    pub key_fingerprint: String,
}

/// What a file with an embedded store says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// The store's id.
    pub store_id: String,
    /// The number of the last entry; 0 if there is none.
    pub head: u64,
    /// When that entry was written.
    pub at: Moment,
}

/// Campaigns by id, as of the last commit.
pub(super) type Campaigns = BTreeMap<CampaignId, KnownCampaign>;

/// A campaign, and its number in the tables.
#[derive(Clone)]
pub(super) struct KnownCampaign {
    pub(super) no: i64,
    pub(super) view: CampaignView,
}

/// A directory that no other process uses while this value lives.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: LockFile,
}

/// What an open store consists of.
pub(super) struct Opened {
    pub(super) writer: Connection,
    pub(super) checkpointer: Connection,
    pub(super) readers: Vec<Connection>,
    pub(super) store_id: String,
    pub(super) campaigns: Campaigns,
}

/// Opens the files of a store. With `is_restore`, they may be those of a backup.
pub(super) fn open(options: &Options, is_restore: bool) -> Result<Opened, OpenError> {
    let file = options.directory.join(DATABASE_FILE);
    open_file(options, &file, is_restore).map_err(|error| error.of(&file))
}

fn open_file(options: &Options, file: &Path, is_restore: bool) -> Result<Opened, OpenError> {
    let is_new = !check_version(file)?;
    let writer = connect(file)?;
    writer
        .execute_batch(WRITER_CACHE)
        .map_err(OpenError::database)?;
    if !is_new && meta(&writer, "store_id")?.is_some() {
        // Data that this start does not open stay as they are, of their own schema version too.
        identify(&writer, options)?;
        check_clock(&writer, options)?;
        if !is_restore {
            refuse_backup(&writer, file)?;
        }
    }
    prepare_schema(&writer)?;
    let store_id = identify(&writer, options)?;
    if is_new {
        // From now on the file itself says what it is, even if its log is lost.
        writer
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(OpenError::database)?;
    }
    let campaigns = load_campaigns(&writer)?;
    let readers = (0..READERS + LIST_READERS)
        .map(|_| connect(file))
        .collect::<Result<_, _>>()?;
    Ok(Opened {
        checkpointer: connect(file)?,
        readers,
        store_id,
        campaigns,
        writer,
    })
}

/// Starts a thread of the store.
pub(super) fn spawn(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, OpenError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(|error| OpenError::Database(format!("a thread could not be started: {error}")))
}

impl DirectoryLock {
    /// Locks a directory, which is made if it is missing.
    ///
    /// # Errors
    /// [`OpenError::InUse`] and [`OpenError::Directory`].
    pub fn take(directory: &Path) -> Result<Self, OpenError> {
        let name = directory.display().to_string();
        let fault = |cause| OpenError::Directory {
            directory: name.clone(),
            cause,
        };
        std::fs::create_dir_all(directory).map_err(fault)?;
        let file = LockFile::take(&directory.join("lock")).map_err(fault)?;
        let file = file.ok_or_else(|| OpenError::InUse(name.clone()))?;
        Reserve::new(directory).release(); // on a full disk no database can be opened
        Ok(Self { _file: file })
    }
}

fn connect(file: &Path) -> Result<Connection, OpenError> {
    let db = Connection::open(file).map_err(OpenError::database)?;
    db.set_prepared_statement_cache_capacity(256);
    db.busy_timeout(BUSY_PATIENCE)
        .map_err(OpenError::database)?;
    // Plans do not depend on the values of parameters. Otherwise SQLite prepares a statement with a
    // parameter in `LIMIT` anew each time it runs. So a statement that needs the index of some rows
    // must have that index's condition in its text, without parameters.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(OpenError::database)?;
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA cache_size = -2048;
         PRAGMA temp_store = MEMORY;",
    )
    .map_err(OpenError::database)?;
    Ok(db)
}

/// Looks at an existing file before anything else is done with it. True if it holds a store. When
/// its connection is closed, SQLite copies all of a log that an earlier process has left.
pub(super) fn check_version(file: &Path) -> Result<bool, OpenError> {
    if !file.exists() {
        return Ok(false);
    }
    let name = || file.display().to_string();
    let header = Header::of(file).map_err(|cause| OpenError::Directory {
        directory: name(),
        cause,
    })?;
    match header {
        // SQLite would delete the log beside it, which may be all that is left of a store.
        Header::Empty => return Ok(false),
        Header::Foreign => return Err(OpenError::NotOurs(name())),
        Header::CutOff(bytes) => {
            let what = format!("it is cut off after {bytes} bytes");
            return Err(OpenError::Damaged { file: name(), what });
        }
        Header::Ours | Header::Unmarked => {}
    }
    let unreadable = |error| match header {
        Header::Unmarked if is_damage(&error) => OpenError::NotOurs(name()),
        _ => OpenError::database(error).of(file),
    };
    let db =
        Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(unreadable)?;
    let application: i64 = pragma(&db, "application_id").map_err(unreadable)?;
    let version: i64 = pragma(&db, "user_version").map_err(unreadable)?;
    let tables: i64 = db
        .query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(unreadable)?;
    let found = u32::try_from(version).unwrap_or(u32::MAX);
    match (application, found) {
        // A file that was made and not filled: a first start that was cut off.
        (0, 0) if tables == 0 => Ok(false),
        (APPLICATION_ID, found) if found > SCHEMA_VERSION => {
            let needed = min_reader(&db)?.unwrap_or(found);
            if needed <= SCHEMA_VERSION {
                return Ok(true);
            }
            Err(OpenError::NewerSchema {
                file: file.display().to_string(),
                found: needed,
            })
        }
        (APPLICATION_ID, _) => Ok(true),
        _ => Err(OpenError::NotOurs(name())),
    }
}

/// What a file says of itself in its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Header {
    /// A database of ours.
    Ours,
    /// A database that nobody has marked: another program's, or ours before its first start was
    /// over.
    Unmarked,
    /// Nothing: a first start that was cut off, or a file that was.
    Empty,
    /// The beginning of a database that ends before it says whose.
    CutOff(usize),
    /// Something else.
    Foreign,
}

impl Header {
    /// Reads it: the format's name, and from byte 68 on whose the database is.
    fn of(file: &Path) -> io::Result<Self> {
        const FORMAT: &[u8] = b"SQLite format 3\0";
        let mut start = Vec::new();
        File::open(file)?.take(72).read_to_end(&mut start)?;
        if start.is_empty() {
            return Ok(Self::Empty);
        }
        if !start.starts_with(FORMAT) {
            return Ok(Self::Foreign);
        }
        let Some(mark) = start.last_chunk().filter(|_| start.len() == 72) else {
            return Ok(Self::CutOff(start.len()));
        };
        Ok(match i64::from(u32::from_be_bytes(*mark)) {
            APPLICATION_ID => Self::Ours,
            0 => Self::Unmarked,
            _ => Self::Foreign,
        })
    }
}

/// What a directory without data has of a store that was there: the log of its database, or the
/// reserve, which is made only once a store is open.
pub(super) fn remains(directory: &Path) -> Option<PathBuf> {
    let log = directory.join(format!("{DATABASE_FILE}-wal"));
    let mut files = [log, Reserve::new(directory).file()].into_iter();
    files.find(|file| std::fs::metadata(file).is_ok_and(|file| file.len() > 0))
}

/// A backup lacks what was done since. Served as it is, it would give the same units and entry
/// numbers out again, so it must be restored first.
fn refuse_backup(db: &Connection, file: &Path) -> Result<(), OpenError> {
    let Some(head) = meta(db, BACKUP_MARK)? else {
        return Ok(());
    };
    let (last, _) = last_entry(db).map_err(OpenError::database)?;
    // A version that does not know the mark restores a backup and leaves the mark in it.
    if head == last.to_string() {
        return Err(OpenError::Backup(file.display().to_string()));
    }
    Ok(())
}

/// Looks at a file that nobody has open, and reads all of it.
pub(super) fn inspect(file: &Path) -> Result<Inspected, OpenError> {
    let inspect = || {
        let name = || file.display().to_string();
        if !check_version(file)? {
            return Err(OpenError::NotOurs(name()));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let db = Connection::open_with_flags(file, flags).map_err(OpenError::database)?;
        let check: String = db
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(OpenError::database)?;
        if check != "ok" {
            return Err(OpenError::damaged(check));
        }
        let (head, at) = last_entry(&db).map_err(OpenError::database)?;
        Ok(Inspected {
            store_id: meta(&db, "store_id")?.ok_or_else(|| OpenError::NotOurs(name()))?,
            head,
            at,
        })
    };
    inspect().map_err(|error| error.of(file))
}

fn pragma(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    db.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
}

/// Whether a store's file has the tables that this version knows.
///
/// # Errors
/// It cannot be read.
pub fn is_up_to_date(db: &Connection) -> rusqlite::Result<bool> {
    Ok(pragma(db, "user_version")? >= i64::from(SCHEMA_VERSION))
}

/// Whether a later version has changed a store's file so that this one would misread it.
///
/// # Errors
/// It cannot be read.
pub fn needs_later_version(db: &Connection) -> rusqlite::Result<bool> {
    let known = i64::from(SCHEMA_VERSION);
    if pragma(db, "user_version")? <= known {
        return Ok(false);
    }
    let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'min_reader'";
    let needed: Option<i64> = db.query_row(sql, [], |row| row.get(0)).optional()?;
    Ok(needed.is_none_or(|needed| needed > known))
}

/// Brings the tables to this version.
pub(super) fn prepare_schema(db: &Connection) -> Result<(), OpenError> {
    let prepare = || {
        prepare_up_to(db, BEFORE_LOOKUP)?;
        if pragma(db, "user_version")? == BEFORE_LOOKUP as i64 {
            lookup::build(db)?;
        }
        prepare_up_to(db, BEFORE_LISTS)?;
        if pragma(db, "user_version")? == BEFORE_LISTS as i64 {
            lists::build(db)?;
        }
        prepare_up_to(db, SCHEMAS.len())
    };
    prepare().map_err(OpenError::database)
}

/// Brings the tables to a version, if they are of an earlier one.
pub(super) fn prepare_up_to(db: &Connection, version: usize) -> rusqlite::Result<()> {
    let found = usize::try_from(pragma(db, "user_version")?).unwrap_or(usize::MAX);
    let missing = SCHEMAS.get(found..version).unwrap_or_default().concat();
    if missing.is_empty() {
        return Ok(());
    }
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE; {missing}
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version}; COMMIT;"
    ))
}

/// The store's id; a new store gets one, and is bound to its key and its kind of clock.
fn identify(db: &Connection, options: &Options) -> Result<String, OpenError> {
    let is_test = options.clock.is_test();
    if let Some(store_id) = meta(db, "store_id")? {
        let data_is_test = meta(db, "test_clock")?.as_deref() == Some("1");
        if meta(db, "key_fingerprint")?.as_deref() != Some(&options.key_fingerprint) {
            return Err(OpenError::WrongKey);
        }
        if data_is_test != is_test {
            return Err(OpenError::TestClock(data_is_test));
        }
        return Ok(store_id);
    }
    let store_id = format!("{:032x}", rand::random::<u128>());
    let clock = if is_test { "1" } else { "0" };
    db.prepare(
        "INSERT INTO meta (key, value) VALUES ('store_id', ?1), ('key_fingerprint', ?2), \
         ('test_clock', ?3)",
    )
    .and_then(|mut insert| insert.execute(params![store_id, options.key_fingerprint, clock]))
    .map_err(OpenError::database)?;
    Ok(store_id)
}

/// The lowest schema version that a version of tombola must know to read a database of a newer one.
fn min_reader(db: &Connection) -> Result<Option<u32>, OpenError> {
    let value = meta(db, "min_reader")?;
    let parsed = value.map(|text| {
        text.parse()
            .map_err(|_| OpenError::damaged(format!("min_reader is {text:?}")))
    });
    parsed.transpose()
}

fn meta(db: &Connection, key: &str) -> Result<Option<String>, OpenError> {
    db.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| {
        row.get(0)
    })
    .optional()
    .map_err(OpenError::database)
}

/// The store's time never steps back, so it would stand still on a clock that is far behind.
fn check_clock(db: &Connection, options: &Options) -> Result<(), OpenError> {
    let (_, last) = last_entry(db).map_err(OpenError::database)?;
    let now = options.clock.now();
    if last.since(now).as_secs() > LAG_SECONDS_MAX && !options.clock.is_test() {
        return Err(OpenError::ClockBehind { now, last });
    }
    Ok(())
}

fn load_campaigns(db: &Connection) -> Result<Campaigns, OpenError> {
    let ids: Vec<String> = db
        .prepare("SELECT id FROM campaigns WHERE removed IS NULL")
        .and_then(|mut statement| {
            statement
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()
        })
        .map_err(OpenError::database)?;
    let mut campaigns = Campaigns::new();
    for id in ids {
        let id =
            CampaignId::parse("id", &id).map_err(|problem| OpenError::damaged(problem.message))?;
        let loaded = load_view(db, &id, None)
            .map_err(|error| OpenError::reading(error.about(format_args!("campaign {id}"))))?;
        if let Some(loaded) = loaded {
            let (no, view) = (loaded.no, loaded.view);
            campaigns.insert(id, KnownCampaign { no, view });
        }
    }
    Ok(campaigns)
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
