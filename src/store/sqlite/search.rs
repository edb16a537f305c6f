//! Searches for entries of the settled ledger, by ids (`lookup.rs`) or in a list (`lists.rs`).

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    columns::PARTITION,
    lists::{self, List},
    lookup::{self, Term},
};
use crate::model::Moment;

/// How many entries a search finds at a time: those of the largest page, one that says whether
/// there are more, and the one where the page before ended.
const FOUND_MAX: usize = 1_002;

/// A search for entries, the newest first.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    by: By<'a>,
    /// The first number that may be found, and the one after the last.
    from: u64,
    to: u64,
}

/// What a search finds.
#[derive(Clone, Debug)]
enum By<'a> {
    /// Entries with one of these terms.
    Terms(String),
    /// Those of a list.
    List(List<'a>),
}

impl<'a> Search<'a> {
    /// For entries with one of some terms, in the whole ledger.
    pub fn new(terms: impl IntoIterator<Item = Term>) -> Self {
        Self::by(By::Terms(lookup::joined(terms, " OR ")))
    }

    /// For those of a list, in the whole ledger.
    pub fn list(list: List<'a>) -> Self {
        Self::by(By::List(list))
    }

    fn by(by: By<'a>) -> Self {
        Self {
            by,
            from: 0,
            to: i64::MAX.cast_unsigned(),
        }
    }

    /// Only entries before this one.
    #[must_use]
    pub fn before(mut self, sequence: u64) -> Self {
        self.to = self.to.min(sequence);
        self
    }

    /// Only entries that were written in this time: from the first moment on and before the second.
    pub fn between(
        mut self,
        db: &Connection,
        from: Option<Moment>,
        to: Option<Moment>,
    ) -> rusqlite::Result<Self> {
        if let Some(from) = from {
            self.from = self.from.max(first_from(db, from)?);
        }
        match to {
            Some(to) => Ok(self.before(first_from(db, to)?)),
            None => Ok(self),
        }
    }

    /// The next ones, at most as many as wanted, and not all at once; none at the end.
    pub fn next(&mut self, db: &Connection, wanted: usize) -> rusqlite::Result<Vec<u64>> {
        if self.from >= self.to {
            return Ok(Vec::new());
        }
        let (between, wanted) = ((self.from, self.to), wanted.min(FOUND_MAX));
        let found = match &self.by {
            By::Terms(query) => lookup::matching(db, query, between, wanted)?,
            By::List(list) => lists::newest(db, *list, between, wanted)?,
        };
        self.to = found.last().copied().unwrap_or(self.from);
        Ok(found)
    }

    /// All of them, the oldest first.
    pub fn all(mut self, db: &Connection) -> rusqlite::Result<Vec<u64>> {
        let mut all = Vec::new();
        loop {
            let found = self.next(db, FOUND_MAX)?;
            if found.is_empty() {
                all.reverse();
                return Ok(all);
            }
            all.extend(found);
        }
    }
}

/// The number of the first settled entry that was written at this moment or later. Later entries
/// have later moments, since the store's time never steps back.
fn first_from(db: &Connection, moment: Moment) -> rusqlite::Result<u64> {
    let sql = "SELECT sequence, at < ?3 FROM entries WHERE partition = ?1 AND sequence >= ?2
               ORDER BY sequence LIMIT 1";
    let mut statement = db.prepare_cached(sql)?;
    let sql = "SELECT COALESCE(MAX(sequence), 0) + 1 FROM entries WHERE partition = ?1";
    let mut end: u64 = db
        .prepare_cached(sql)?
        .query_row([PARTITION], |row| row.get(0))?;
    let mut begin = 0;
    while begin < end {
        let middle = begin + (end - begin) / 2;
        let found = statement.query_row(params![PARTITION, middle, moment.as_micros()], |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, bool>(1)?))
        });
        match found.optional()? {
            Some((sequence, true)) => begin = sequence + 1,
            Some((_, false)) | None => end = middle,
        }
    }
    Ok(begin)
}
