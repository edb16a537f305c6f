//! Lists of the settled ledger: the draws and the wins of all campaigns or of one, and the wins of
//! a prize.
//!
//! The table `listed` says which entries are in each list. It has a row for each list and each
//! block of 4,096 entry numbers in which the list has an entry. So a batch of the settler usually
//! changes one row of each list that it adds to. In indexes, each draw that wins would have five
//! rows of its own.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rusqlite::{
    Connection, OptionalExtension as _, Transaction, TransactionBehavior, params, types::Type,
};
use tracing::info;

use super::{columns::PARTITION, lookup::checkpoint};

/// How many numbers of entries a block has.
const BLOCK: u64 = 4_096;
/// A block with 256 or more entries is this many bytes: a bit for each number, beginning with the
/// lowest bit of the first byte. A block with fewer entries is a list of their places in the block,
/// in order, two bytes each with the lower one first.
const BITS_BYTES: usize = (BLOCK / 8) as usize;
/// How many entries are added in one transaction when the lists are made.
const BUILT_AT_ONCE: usize = 20_000;
/// How often the log says how far this is.
const SAID_INTERVAL: Duration = Duration::from_secs(5);
/// The indexes that lists replace.
const REPLACED: [&str; 5] = [
    "entries_draws_by_campaign",
    "entries_draws_by_time",
    "wins_by_time",
    "wins_by_campaign",
    "wins_by_prize",
];

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS listed (
        kind TEXT NOT NULL, -- draw or win
        campaign TEXT NOT NULL, -- '' for all campaigns
        prize TEXT NOT NULL, -- '' for all prizes, and of draws
        block INTEGER NOT NULL, -- numbers of entries divided by 4096
        entries BLOB NOT NULL, -- which of them are in the list, see src/store/sqlite/lists.rs
        PRIMARY KEY (kind, campaign, prize, block)
    ) STRICT, WITHOUT ROWID;";

/// A list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct List<'a> {
    kind: &'static str,
    campaign: &'a str,
    prize: &'a str,
}

impl<'a> List<'a> {
    /// The draws of a campaign, or all draws.
    pub fn draws(campaign: Option<&'a str>) -> Self {
        let (kind, campaign) = ("draw", campaign.unwrap_or_default());
        let prize = "";
        Self {
            kind,
            campaign,
            prize,
        }
    }

    /// The draws that won a prize of a campaign, anything of the campaign, or anything at all.
    pub fn wins(campaign: Option<&'a str>, prize: Option<&'a str>) -> Self {
        let prize = campaign.and(prize).unwrap_or_default();
        let (kind, campaign) = ("win", campaign.unwrap_or_default());
        Self {
            kind,
            campaign,
            prize,
        }
    }
}

/// Entries that come to lists, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Additions<'a>(BTreeMap<(List<'a>, u64), Vec<u16>>);

impl<'a> Additions<'a> {
    /// Adds a draw.
    pub fn add_draw(&mut self, sequence: u64, campaign: &'a str) {
        self.add(sequence, List::draws(None));
        self.add(sequence, List::draws(Some(campaign)));
    }

    /// Adds a win of a draw.
    pub fn add_win(&mut self, sequence: u64, campaign: &'a str, prize: &'a str) {
        self.add(sequence, List::wins(None, None));
        self.add(sequence, List::wins(Some(campaign), None));
        self.add(sequence, List::wins(Some(campaign), Some(prize)));
    }

    fn add(&mut self, sequence: u64, list: List<'a>) {
        let places = self.0.entry((list, sequence / BLOCK)).or_default();
        let place = (sequence % BLOCK) as u16;
        // A draw may win several prizes.
        if places.last() != Some(&place) {
            places.push(place);
        }
    }

    /// Writes all of them.
    pub fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        let sql = "SELECT entries FROM listed
                   WHERE kind = ?1 AND campaign = ?2 AND prize = ?3 AND block = ?4";
        let mut read = db.prepare_cached(sql)?;
        let sql = "INSERT OR REPLACE INTO listed (kind, campaign, prize, block, entries)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut write = db.prepare_cached(sql)?;
        for ((list, block), places) in &self.0 {
            let List {
                kind,
                campaign,
                prize,
            } = list;
            let before = read.query_row(params![kind, campaign, prize, block], |row| row.get(0));
            let before = before.optional()?.unwrap_or_default();
            let after = joined(before, places).ok_or_else(damaged)?;
            write.execute(params![kind, campaign, prize, block, after])?;
        }
        Ok(())
    }
}

/// A block with further entries, whose places follow those that it has; none if it is damaged.
fn joined(mut block: Vec<u8>, added: &[u16]) -> Option<Vec<u8>> {
    let mut earlier = Vec::new();
    if block.len() != BITS_BYTES {
        earlier = places(&block)?;
        if block.len() + 2 * added.len() < BITS_BYTES {
            block.extend(added.iter().flat_map(|place| place.to_le_bytes()));
            return Some(block);
        }
        block = vec![0; BITS_BYTES];
    }
    for place in earlier.iter().chain(added) {
        block[usize::from(place / 8)] |= 1 << (place % 8);
    }
    Some(block)
}

/// The places of a block's entries, in order; none if it is damaged.
fn places(block: &[u8]) -> Option<Vec<u16>> {
    if block.len() == BITS_BYTES {
        let is_there = |place: &u16| block[usize::from(place / 8)] >> (place % 8) & 1 == 1;
        return Some((0..BLOCK as u16).filter(is_there).collect());
    }
    let pairs = block.chunks_exact(2);
    let is_whole = pairs.remainder().is_empty() && block.len() < BITS_BYTES;
    let places = pairs.map(|place| u16::from_le_bytes([place[0], place[1]]));
    let places: Vec<u16> = places.collect();
    let is_sound = is_whole
        && places.is_sorted_by(|one, other| one < other)
        && places.last().is_none_or(|last| u64::from(*last) < BLOCK);
    is_sound.then_some(places)
}

fn damaged() -> rusqlite::Error {
    rusqlite::Error::InvalidColumnType(1, "entries".into(), Type::Blob)
}

/// The last entries of a list with numbers from the first of these on and before the second, the
/// newest first, at most as many as wanted.
pub(super) fn newest(
    db: &Connection,
    list: List<'_>,
    (from, to): (u64, u64),
    wanted: usize,
) -> rusqlite::Result<Vec<u64>> {
    let sql = "SELECT block, entries FROM listed
               WHERE kind = ?1 AND campaign = ?2 AND prize = ?3 AND block BETWEEN ?4 AND ?5
               ORDER BY block DESC";
    let mut statement = db.prepare_cached(sql)?;
    let blocks = (from / BLOCK, to.saturating_sub(1) / BLOCK);
    let mut rows = statement.query(params![
        list.kind,
        list.campaign,
        list.prize,
        blocks.0,
        blocks.1
    ])?;
    let mut found = Vec::new();
    while found.len() < wanted
        && let Some(row) = rows.next()?
    {
        let start = row.get::<_, u64>(0)? * BLOCK;
        let places = places(row.get_ref(1)?.as_blob()?).ok_or_else(damaged)?;
        let numbers = places.iter().rev().map(|place| start + u64::from(*place));
        found.extend(numbers.filter(|number| (from..to).contains(number)));
    }
    found.truncate(wanted);
    Ok(found)
}

/// Makes the lists of a store of an earlier version, or of a new one, and drops the indexes that
/// they replace. If it is interrupted, the next start resumes: `listed` in `meta` is the last entry
/// that was added. The version before may go on in between: it adds nothing to lists, and its own
/// may be slow without the indexes.
pub(super) fn build(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(TABLE)?;
    let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'listed'";
    let mut done: u64 = db
        .query_row(sql, [], |row| row.get(0))
        .optional()?
        .unwrap_or(0);
    let mut said = Instant::now();
    while let Some(last) = add_after(db, done)? {
        done = last;
        checkpoint(db)?;
        if said.elapsed() > SAID_INTERVAL {
            said = Instant::now();
            info!("listing the settled ledger: up to entry {done}");
        }
    }
    let drop_index = |index| format!("DROP INDEX IF EXISTS {index};");
    if done == 0 {
        let all = REPLACED.map(drop_index).concat();
        return db.execute_batch(&format!("BEGIN IMMEDIATE; {all} COMMIT;"));
    }
    for index in REPLACED {
        info!("listing the settled ledger: dropping the index {index}");
        db.execute_batch(&drop_index(index))?;
        checkpoint(db)?;
    }
    Ok(())
}

/// Adds the next entries after this one; the last of them, or none if there are none.
fn add_after(db: &Connection, done: u64) -> rusqlite::Result<Option<u64>> {
    let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    let sql = "SELECT sequence, iif(kind = 'draw', campaign, NULL) FROM entries
               WHERE partition = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3";
    let mut statement = db.prepare_cached(sql)?;
    let draws = statement.query_map(params![PARTITION, done, BUILT_AT_ONCE], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    let draws: Vec<(u64, Option<String>)> = draws.collect::<rusqlite::Result<_>>()?;
    let Some(&(last, _)) = draws.last() else {
        return Ok(None);
    };
    let sql = "SELECT sequence, campaign, prize FROM wins
               WHERE partition = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence";
    let mut statement = db.prepare_cached(sql)?;
    let wins = statement.query_map(params![PARTITION, done, last], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    let wins: Vec<(u64, String, String)> = wins.collect::<rusqlite::Result<_>>()?;
    let mut additions = Additions::default();
    for (sequence, campaign) in &draws {
        if let Some(campaign) = campaign {
            additions.add_draw(*sequence, campaign);
        }
    }
    for (sequence, campaign, prize) in &wins {
        additions.add_win(*sequence, campaign, prize);
    }
    additions.write(db)?;
    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('listed', ?1)";
    db.execute(sql, [last.to_string()])?;
    transaction.commit()?;
    Ok(Some(last))
}

#[cfg(test)]
#[path = "lists_tests.rs"]
mod tests;
