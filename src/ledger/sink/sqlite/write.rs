//! A batch as rows, within a transaction of the store's writer.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::{
    ledger::{
        contradiction::Contradiction,
        deliveries::DeliveryChange,
        entry::StoredEntry,
        sink::{Batch, Cursor, PrizeRow},
        wins::Win,
    },
    model::Moment,
    store::{
        Result,
        sqlite::{
            lists::Additions,
            lookup::{self, Term, Terms},
            search::Search,
        },
    },
};

/// A batch, and what its entries are found by: that is made before the writer's turn comes.
pub(super) struct Indexed {
    batch: Arc<Batch>,
    /// The text of those of each entry.
    terms: Vec<String>,
}

impl Indexed {
    /// The batch with what its entries are found by.
    pub(super) fn new(batch: Arc<Batch>) -> Self {
        let mut wins = batch.wins.iter().peekable();
        let terms = batch.entries.iter().map(|entry| {
            let (user, request) = (entry.user.as_deref(), entry.request.as_deref());
            let mut terms = Terms::of(entry.kind, user, request);
            while let Some(win) = wins.next_if(|win| win.sequence == entry.sequence) {
                terms.add_win(&win.campaign, &win.user, &win.unit);
            }
            terms.text()
        });
        let terms = terms.collect();
        debug_assert!(
            wins.next().is_none(),
            "wins are in the order of the entries"
        );
        Self { batch, terms }
    }
}

/// Writes a batch and moves the cursor; false, and nothing is written, if the cursor is not at
/// `before`.
pub(super) fn write(
    db: &Connection,
    now: Moment,
    before: Option<&Cursor>,
    after: &Cursor,
    Indexed { batch, terms }: &Indexed,
) -> Result<bool> {
    let sql = "SELECT next_sequence - 1 FROM cursors WHERE partition = ?1";
    let found: Option<u64> = db
        .prepare_cached(sql)?
        .query_row([after.partition], |row| row.get(0))
        .optional()?;
    if found != before.map(|before| before.up_to.sequence) {
        return Ok(false);
    }
    move_cursor(db, now, after, batch.entries.len())?;
    for (entry, terms) in batch.entries.iter().zip(terms) {
        insert_entry(db, entry)?;
        lookup::insert(db, entry.sequence, terms)?;
    }
    for win in &batch.wins {
        insert_win(db, win)?;
    }
    lookup::merge(db, batch.entries.len())?;
    additions(batch).write(db)?;
    for change in &batch.deliveries {
        change_win(db, change)?;
    }
    for ((campaign, hour), counts) in &batch.activity {
        let sql = "INSERT INTO activity (campaign, hour, draws, wins, consolations)
                   VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (campaign, hour) DO UPDATE SET draws = draws + excluded.draws,
                       wins = wins + excluded.wins,
                       consolations = consolations + excluded.consolations";
        db.prepare_cached(sql)?.execute(params![
            campaign,
            hour.as_micros(),
            counts.draws,
            counts.wins,
            counts.consolations,
        ])?;
    }
    for prize in &batch.prizes {
        insert_prize(db, prize)?;
    }
    for (campaign, salt) in &batch.salts {
        let sql = "INSERT OR IGNORE INTO salts (partition, campaign, salt) VALUES (?1, ?2, ?3)";
        db.prepare_cached(sql)?
            .execute(params![batch.partition, campaign, salt.0])?;
    }
    if let Some((first, last)) = batch.orphans {
        insert_orphans(db, now, batch.partition, (first, last))?;
    }
    Ok(true)
}

/// What comes to lists of draws and wins.
fn additions(batch: &Batch) -> Additions<'_> {
    let mut additions = Additions::default();
    for entry in &batch.entries {
        if let ("draw", Some(campaign)) = (entry.kind, &entry.campaign) {
            additions.add_draw(entry.sequence, campaign);
        }
    }
    for win in &batch.wins {
        additions.add_win(win.sequence, &win.campaign, &win.prize);
    }
    additions
}

/// Notes entries that the store has lost. What it lost before from the same entry on, as after two
/// restores of one backup, has its row already: the new one begins behind it.
fn insert_orphans(
    db: &Connection,
    now: Moment,
    partition: u32,
    (mut first, last): (u64, u64),
) -> Result<()> {
    let sql = "SELECT last_sequence FROM orphans WHERE partition = ?1 AND first_sequence = ?2";
    let mut known = db.prepare_cached(sql)?;
    while let Some(end) = known
        .query_row(params![partition, first], |row| row.get::<_, u64>(0))
        .optional()?
    {
        first = end + 1;
    }
    if first <= last {
        let sql = "INSERT INTO orphans (partition, first_sequence, last_sequence, found_at)
                   VALUES (?1, ?2, ?3, ?4)";
        let values = params![partition, first, last, now.as_micros()];
        db.prepare_cached(sql)?.execute(values)?;
    }
    Ok(())
}

/// Keeps a contradiction.
pub(super) fn quarantine(db: &Connection, now: Moment, found: &Contradiction) -> Result<()> {
    let sql = "INSERT INTO quarantine (partition, sequence, found_at, seen_at, alarm, detail)
               VALUES (?1, ?2, ?3, ?3, ?4, ?5)
               ON CONFLICT (partition, sequence, alarm) DO UPDATE SET
                   seen_at = excluded.seen_at, detail = excluded.detail, ended_at = NULL";
    db.prepare_cached(sql)?.execute(params![
        found.partition,
        found.sequence,
        now.as_micros(),
        found.alarm.name(),
        found.detail,
    ])?;
    Ok(())
}

/// Notes that contradictions of a partition are in the past.
pub(super) fn end_quarantine(db: &Connection, now: Moment, partition: u32) -> Result<()> {
    let sql = "UPDATE quarantine SET ended_at = ?2 WHERE partition = ?1 AND ended_at IS NULL";
    let mut statement = db.prepare_cached(sql)?;
    statement.execute(params![partition, now.as_micros()])?;
    Ok(())
}

fn move_cursor(db: &Connection, now: Moment, after: &Cursor, entries: usize) -> Result<()> {
    let sql = "INSERT INTO cursors (partition, next_sequence, fork, at, format, digest, entries,
                   settled_at, chain, chain_first, chain_last)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
               ON CONFLICT (partition) DO UPDATE SET next_sequence = excluded.next_sequence,
                   fork = excluded.fork, at = excluded.at, format = excluded.format,
                   digest = excluded.digest, entries = entries + excluded.entries,
                   settled_at = excluded.settled_at, chain = excluded.chain,
                   chain_first = excluded.chain_first, chain_last = excluded.chain_last";
    let chain = after.chain.as_ref();
    db.prepare_cached(sql)?.execute(params![
        after.partition,
        after.up_to.sequence + 1,
        after.up_to.fork,
        after.at.as_micros(),
        after.format,
        after.digest,
        entries,
        now.as_micros(),
        chain.map(|chain| chain.digest),
        chain.map(|chain| chain.first),
        chain.map(|chain| chain.last),
    ])?;
    Ok(())
}

fn insert_entry(db: &Connection, entry: &StoredEntry) -> Result<()> {
    let sql = "INSERT INTO entries (partition, sequence, at, kind, campaign, envelope, user_id,
                   request_id, format, body, number, fork, people)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    db.prepare_cached(sql)?.execute(params![
        entry.partition,
        entry.sequence,
        entry.at.as_micros(),
        entry.kind,
        entry.campaign,
        entry.envelope,
        entry.user,
        entry.request,
        entry.format,
        entry.body,
        entry.number,
        entry.fork,
        entry.people,
    ])?;
    Ok(())
}

fn insert_win(db: &Connection, win: &Win) -> Result<()> {
    let sql = "INSERT INTO wins (partition, sequence, number, at, campaign, version, user_id,
                   request_id, pool, prize, unit_id, release_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    db.prepare_cached(sql)?.execute(params![
        win.partition,
        win.sequence,
        win.number,
        win.at.as_micros(),
        win.campaign,
        win.version,
        win.user,
        win.request,
        win.pool,
        win.prize,
        win.unit,
        win.release.map(Moment::as_micros),
    ])?;
    Ok(())
}

/// A store that was rolled back may have lost an earlier win of the same unit, so the last one
/// before the entry is changed.
fn change_win(db: &Connection, change: &DeliveryChange) -> Result<()> {
    let sql = "UPDATE wins SET delivery = ?1, delivery_at = ?2,
                   delivery_reference = COALESCE(?3, delivery_reference)
               WHERE campaign = ?4 AND unit_id = ?5 AND partition = ?6 AND sequence = ?7";
    let mut update = db.prepare_cached(sql)?;
    let win = [Term::unit(&change.campaign, &change.unit)];
    let mut search = Search::new(win).before(change.sequence);
    loop {
        let found = search.next(db, usize::MAX)?;
        if found.is_empty() {
            return Ok(());
        }
        for sequence in found {
            let changed = update.execute(params![
                change.code(),
                change.at.as_micros(),
                change.reference,
                change.campaign,
                change.unit,
                change.partition,
                sequence,
            ])?;
            if changed > 0 {
                return Ok(());
            }
        }
    }
}

fn insert_prize(db: &Connection, prize: &PrizeRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO prizes (campaign, version, prize, name, stock,
                   value_currency, value_units, value_nanos)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let value = prize.value.as_ref();
    db.prepare_cached(sql)?.execute(params![
        prize.campaign,
        prize.version,
        prize.prize,
        prize.name,
        prize.stock,
        value.map(|(currency, ..)| currency),
        value.map(|(_, units, _)| units),
        value.map(|(.., nanos)| nanos),
    ])?;
    Ok(())
}
