//! Finding entries of the settled ledger by ids that come in no order: users, requests and units.
//!
//! These ids are in a full-text index (SQLite's FTS5), not in B-tree indexes. In a B-tree, each
//! entry would change pages of its own, and each page is written twice: to the write-ahead log and
//! to the database. Once the tree is larger than the cache, this is most of what a draw costs. FTS5
//! writes what a batch adds as one sorted run. Later it merges several runs into a larger one, a
//! few pages at a time. So it writes only full pages.
//!
//! The table `lookup` has a row for each entry with such ids. `rowid` is the entry's number, and
//! `terms` are the entry's terms with blanks between. A term is a letter, which says what it stands
//! for, and 48 bits of a SHA-256 of the id. Two ids can have the same term, so whoever searches
//! must compare the rows that were found with the id.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use sha2::{Digest as _, Sha256};
use tracing::info;

use super::columns::PARTITION;

/// One page of runs is merged for each of so many entries of a batch. A batch of 50 draws writes
/// about one page, and each is merged again up to 6 times, in larger and larger runs: 6 pages.
const ENTRIES_PER_MERGED_PAGE: usize = 5;
/// How many entries are added in one transaction when the index is made.
const BUILT_AT_ONCE: usize = 20_000;
/// How often the log says how far this is.
const SAID_INTERVAL: Duration = Duration::from_secs(5);
/// The indexes that this one replaces.
const REPLACED: [&str; 4] = [
    "entries_by_user",
    "entries_draws_by_request",
    "wins_by_user",
    "wins_by_unit",
];

/// Makes the index. `automerge` is off, since [`merge`] merges runs: by itself FTS5 would merge
/// nothing for some 20 batches, and then so much that draws wait. With `secure-delete`, a term that
/// is deleted leaves its run at once; otherwise it would stay there until the run is merged.
const TABLE: &str = "
    CREATE VIRTUAL TABLE IF NOT EXISTS lookup
        USING fts5 (terms, content = '', columnsize = 0, detail = none, tokenize = ascii);
    INSERT INTO lookup (lookup, rank) VALUES ('automerge', 0);
    INSERT INTO lookup (lookup, rank) VALUES ('secure-delete', 1);";

/// What entries are found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    kind: char,
    /// 48 bits.
    digest: u64,
}

impl Term {
    /// Entries of a user, and wins of the user.
    pub fn user(user: &str) -> Self {
        Self::of('u', &[user])
    }

    /// Draws with a request id.
    pub fn request(request: &str) -> Self {
        Self::of('r', &[request])
    }

    /// Draws that won a unit.
    pub fn unit(campaign: &str, unit: &str) -> Self {
        Self::of('w', &[campaign, unit])
    }

    fn of(kind: char, ids: &[&str]) -> Self {
        let digest = Sha256::digest(ids.join("\0"));
        let digest = digest[..6]
            .iter()
            .fold(0, |digest, byte| digest << 8 | u64::from(*byte));
        Self { kind, digest }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:012x}", self.kind, self.digest)
    }
}

/// All terms of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms(BTreeSet<Term>);

impl Terms {
    /// Those of the entry itself: its kind, user and request.
    pub fn of(kind: &str, user: Option<&str>, request: Option<&str>) -> Self {
        let request = request.filter(|_| kind == "draw");
        let terms = user.map(Term::user).into_iter();
        Self(terms.chain(request.map(Term::request)).collect())
    }

    /// Adds those of a win.
    pub fn add_win(&mut self, campaign: &str, user: &str, unit: &str) {
        self.0
            .extend([Term::user(user), Term::unit(campaign, unit)]);
    }

    /// Reads what an entry has in the tables of the settled ledger.
    fn read(db: &Connection, sequence: u64) -> rusqlite::Result<Self> {
        let sql = "SELECT kind, user_id, request_id FROM entries
                   WHERE partition = ?1 AND sequence = ?2";
        let of_entry = db
            .prepare_cached(sql)?
            .query_row(params![PARTITION, sequence], |row| {
                let (user, request) = (row.get_ref(1)?, row.get_ref(2)?);
                let kind = row.get_ref(0)?.as_str()?;
                Ok(Self::of(
                    kind,
                    user.as_str_or_null()?,
                    request.as_str_or_null()?,
                ))
            })
            .optional()?;
        let mut terms = of_entry.unwrap_or_default();
        let sql = "SELECT campaign, user_id, unit_id FROM wins
                   WHERE partition = ?1 AND sequence = ?2";
        let mut statement = db.prepare_cached(sql)?;
        let mut wins = statement.query(params![PARTITION, sequence])?;
        while let Some(win) = wins.next()? {
            let (campaign, user, unit) = (win.get_ref(0)?, win.get_ref(1)?, win.get_ref(2)?);
            terms.add_win(campaign.as_str()?, user.as_str()?, unit.as_str()?);
        }
        Ok(terms)
    }

    /// The text of a row of `lookup`.
    pub fn text(&self) -> String {
        joined(self.0.iter().copied(), " ")
    }
}

/// Terms with this between them.
pub(super) fn joined(terms: impl IntoIterator<Item = Term>, between: &str) -> String {
    let mut text = String::new();
    for term in terms {
        if !text.is_empty() {
            text.push_str(between);
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{term}");
    }
    text
}

/// Adds an entry, which must not be there yet, by [the text](Terms::text) of its terms. Entries in
/// order are added fastest.
pub fn insert(db: &Connection, sequence: u64, terms: &str) -> rusqlite::Result<()> {
    if !terms.is_empty() {
        db.prepare_cached("INSERT INTO lookup (rowid, terms) VALUES (?1, ?2)")?
            .execute(params![sequence, terms])?;
    }
    Ok(())
}

/// At the end of a batch of this many entries: merges some runs, if there are too many.
pub fn merge(db: &Connection, entries: usize) -> rusqlite::Result<()> {
    let pages = entries.div_ceil(ENTRIES_PER_MERGED_PAGE);
    db.prepare_cached("INSERT INTO lookup (lookup, rank) VALUES ('merge', ?1)")?
        .execute([pages])?;
    Ok(())
}

/// Changes rows of an entry and of its wins by `work`, and what the entry is found by.
pub fn change<T>(
    db: &Connection,
    sequence: u64,
    work: impl FnOnce() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let before = Terms::read(db, sequence)?;
    let value = work()?;
    let after = Terms::read(db, sequence)?;
    if after != before {
        if !before.0.is_empty() {
            let sql = "INSERT INTO lookup (lookup, rowid, terms) VALUES ('delete', ?1, ?2)";
            db.prepare_cached(sql)?
                .execute(params![sequence, before.text()])?;
        }
        insert(db, sequence, &after.text())?;
    }
    Ok(value)
}

/// Entries with one of the terms of a query and with numbers from the first of these on and before
/// the second, the newest first, at most as many as wanted.
pub(super) fn matching(
    db: &Connection,
    query: &str,
    (from, to): (u64, u64),
    wanted: usize,
) -> rusqlite::Result<Vec<u64>> {
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT rowid FROM lookup
               WHERE lookup MATCH ?1 AND rowid >= ?2 AND rowid < ?3
               ORDER BY rowid DESC LIMIT ?4";
    let mut statement = db.prepare_cached(sql)?;
    let found = statement.query_map(params![query, from, to, wanted], |row| row.get(0))?;
    found.collect()
}

/// Builds the index of a store of an earlier version, or of a new one, and drops those that it
/// replaces. If it is interrupted, the next start resumes.
pub(super) fn build(db: &Connection) -> rusqlite::Result<()> {
    let mut progress = BuildProgress::read(db)?;
    if progress.is_stale(db)? {
        db.execute_batch("DROP TABLE lookup; DELETE FROM meta WHERE key = 'looked_up';")?;
        progress = BuildProgress::read(db)?;
    }
    db.execute_batch(&format!("BEGIN IMMEDIATE; {TABLE} COMMIT;"))?;
    let mut said = Instant::now();
    while add_earlier(db, &mut progress)? {
        checkpoint(db)?;
        if said.elapsed() > SAID_INTERVAL {
            said = Instant::now();
            let done = progress.done;
            info!("indexing the settled ledger: up to entry {done}");
        }
    }
    // Erasing a user must not leave the user's ids in pages that were of these indexes.
    db.execute_batch("PRAGMA secure_delete = ON")?;
    for index in REPLACED {
        db.execute_batch(&format!("DROP INDEX IF EXISTS {index}"))?;
        checkpoint(db)?;
    }
    db.execute_batch("PRAGMA secure_delete = OFF")
}

/// How far the index is built: in `meta` as `looked_up`.
struct BuildProgress {
    /// All up to this entry are in the index.
    done: u64,
    /// The number of erasures at the beginning.
    erasures: u64,
}

impl BuildProgress {
    fn read(db: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT value FROM meta WHERE key = 'looked_up'";
        let found: Option<String> = db.query_row(sql, [], |row| row.get(0)).optional()?;
        let found = found.as_deref().and_then(|text| text.split_once(' '));
        if let Some((done, erasures)) = found
            && let (Ok(done), Ok(erasures)) = (done.parse(), erasures.parse())
        {
            return Ok(Self { done, erasures });
        }
        let erasures = count_erasures(db)?;
        Ok(Self { done: 0, erasures })
    }

    /// Whether an earlier version, which does not change the index, has erased a user meanwhile.
    fn is_stale(&self, db: &Connection) -> rusqlite::Result<bool> {
        Ok(self.erasures != count_erasures(db)?)
    }

    fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('looked_up', ?1)";
        let Self { done, erasures } = self;
        db.execute(sql, [format!("{done} {erasures}")])?;
        Ok(())
    }
}

fn count_erasures(db: &Connection) -> rusqlite::Result<u64> {
    db.query_row("SELECT count(*) FROM erasures", [], |row| row.get(0))
}

/// Adds the next entries that were settled before; false if there are none.
fn add_earlier(db: &Connection, progress: &mut BuildProgress) -> rusqlite::Result<bool> {
    let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    let sql = "SELECT sequence FROM entries WHERE partition = ?1 AND sequence > ?2
               ORDER BY sequence LIMIT ?3";
    let mut statement = db.prepare_cached(sql)?;
    let values = params![PARTITION, progress.done, BUILT_AT_ONCE];
    let entries = statement.query_map(values, |row| row.get(0))?;
    let entries: Vec<u64> = entries.collect::<rusqlite::Result<_>>()?;
    let Some(&last) = entries.last() else {
        return Ok(false);
    };
    for sequence in entries {
        insert(db, sequence, &Terms::read(db, sequence)?.text())?;
    }
    progress.done = last;
    progress.write(db)?;
    merge(db, BUILT_AT_ONCE)?;
    transaction.commit()?;
    Ok(true)
}

pub(super) fn checkpoint(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

#[cfg(test)]
#[path = "lookup_tests.rs"]
mod tests;
