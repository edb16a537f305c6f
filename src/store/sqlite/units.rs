//! A pool's units of one prize: a sorted set, its head in memory.
//!
//! Units are always taken from the head, so what a batch took is one range, deleted by one
//! statement.

use std::collections::VecDeque;

use rusqlite::{Connection, Row, params};

use crate::{
    model::{PoolNo, PrizeNo},
    store::{
        Result, StoreError, Unit,
        rules::{Placed, QueueView, Range, Waiting},
    },
};

/// How many units are read ahead.
const READ_AHEAD: u64 = 256;

/// The waiting units of one prize of one pool.
pub(super) struct Queue {
    /// The prize; none for blanks.
    pub(super) prize: Option<PrizeNo>,
    /// Off stock for this pool and neither won nor taken back.
    pub(super) waiting: u64,
    head: VecDeque<Waiting>,
    /// Nothing is behind the head.
    complete: bool,
    /// Units up to this one were taken in this batch, and how many these are.
    taken: Option<(Waiting, usize)>,
    dirty: bool,
}

/// The stored number of a prize, or of blanks.
pub(super) fn slot(prize: Option<PrizeNo>) -> i32 {
    prize.map_or(-1, |prize| i32::from(prize.0))
}

/// Reads [`slot`] from a column.
pub(super) fn prize_of_slot(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<PrizeNo>> {
    match row.get(column)? {
        -1 => Ok(None),
        slot => match u16::try_from(slot) {
            Ok(prize) => Ok(Some(PrizeNo(prize))),
            Err(_) => Err(rusqlite::Error::IntegralValueOutOfRange(column, slot)),
        },
    }
}

impl Queue {
    /// A queue whose units are not read yet.
    pub(super) fn new(prize: Option<PrizeNo>, waiting: u64) -> Self {
        Self {
            prize,
            waiting,
            head: VecDeque::new(),
            complete: false,
            taken: None,
            dirty: false,
        }
    }

    /// Reads the queues of a pool.
    pub(super) fn load(db: &Connection, campaign: i64, pool: PoolNo) -> Result<Vec<Self>> {
        let mut statement = db.prepare_cached(
            "SELECT prize, waiting FROM queues WHERE campaign = ?1 AND pool = ?2 ORDER BY prize",
        )?;
        let rows = statement.query_map(params![campaign, pool.0], |row| {
            Ok(Self::new(prize_of_slot(row, 0)?, row.get(1)?))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The queue without its units.
    pub(super) fn view(&self) -> QueueView {
        QueueView {
            prize: self.prize,
            waiting: self.waiting,
        }
    }

    /// The unit with this index in the order of the queue, `ahead`; none if there are fewer units.
    pub(super) fn peek(
        &mut self,
        db: &Connection,
        campaign: i64,
        pool: PoolNo,
        ahead: usize,
    ) -> Result<Option<Waiting>> {
        if ahead >= self.head.len() && !self.complete {
            self.read_ahead(db, campaign, pool)?;
        }
        Ok(self.head.get(ahead).copied())
    }

    /// Removes the first unit, which [`Self::peek`] has shown.
    pub(super) fn take(&mut self) -> Result<()> {
        let left = self.waiting.checked_sub(1);
        let (Some(first), Some(left)) = (self.head.pop_front(), left) else {
            let text = format!("a unit is taken of {} that wait", self.waiting);
            return Err(StoreError::corrupt(text));
        };
        let before = self.taken.map_or(0, |(_, units)| units);
        self.taken = Some((first, before + 1));
        self.waiting = left;
        self.dirty = true;
        Ok(())
    }

    /// Counts units that come to this pool or leave it otherwise than by a draw.
    pub(super) fn count(&mut self, units: i64) -> Result<()> {
        self.waiting = self.waiting.checked_add_signed(units).ok_or_else(|| {
            StoreError::corrupt(format!("{} wait, {units} are booked", self.waiting))
        })?;
        self.dirty = true;
        Ok(())
    }

    /// The stored units have changed otherwise than by draws: the head is read anew.
    pub(super) fn reread(&mut self) {
        self.head.clear();
        self.complete = false;
    }

    /// Writes what a batch has changed.
    pub(super) fn flush(&mut self, db: &Connection, campaign: i64, pool: PoolNo) -> Result<()> {
        self.delete_taken(db, campaign, pool)?;
        if std::mem::take(&mut self.dirty) {
            db.prepare_cached(
                "INSERT OR REPLACE INTO queues (campaign, pool, prize, waiting) VALUES (?1, ?2, \
                 ?3, ?4)",
            )?
            .execute(params![campaign, pool.0, slot(self.prize), self.waiting])?;
        }
        Ok(())
    }

    /// Deletes the units that were taken; needed before the stored units are read or changed.
    pub(super) fn delete_taken(
        &mut self,
        db: &Connection,
        campaign: i64,
        pool: PoolNo,
    ) -> Result<()> {
        if let Some((last, taken)) = self.taken.take() {
            let deleted = db
                .prepare_cached(
                    "DELETE FROM units WHERE campaign = ?1 AND pool = ?2 AND prize = ?3
                 AND (score, window, number) <= (?4, ?5, ?6)",
                )?
                .execute(params![
                    campaign,
                    pool.0,
                    slot(self.prize),
                    last.score,
                    last.unit.window,
                    last.unit.number
                ])?;
            if deleted != taken {
                let text = format!("{taken} units were drawn, {deleted} were there");
                return Err(StoreError::corrupt(text));
            }
        }
        Ok(())
    }

    fn read_ahead(&mut self, db: &Connection, campaign: i64, pool: PoolNo) -> Result<()> {
        self.delete_taken(db, campaign, pool)?;
        let wanted = READ_AHEAD.max(self.head.len() as u64 * 2);
        let mut statement = db.prepare_cached(
            "SELECT score, window, number, fork FROM units
             WHERE campaign = ?1 AND pool = ?2 AND prize = ?3
             ORDER BY score, window, number LIMIT ?4",
        )?;
        let rows =
            statement.query_map(params![campaign, pool.0, slot(self.prize), wanted], |row| {
                Ok(Waiting {
                    score: row.get(0)?,
                    unit: Unit {
                        window: row.get(1)?,
                        fork: row.get(3)?,
                        number: row.get(2)?,
                    },
                })
            })?;
        self.head = rows.collect::<rusqlite::Result<_>>()?;
        self.complete = (self.head.len() as u64) < wanted;
        Ok(())
    }
}

/// Puts a unit into a pool.
pub(super) fn insert(
    db: &Connection,
    campaign: i64,
    pool: PoolNo,
    prize: Option<PrizeNo>,
    waiting: Waiting,
) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO units (campaign, pool, prize, score, window, number, fork) VALUES (?1, ?2, \
         ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        campaign,
        pool.0,
        slot(prize),
        waiting.score,
        waiting.unit.window,
        waiting.unit.number,
        waiting.unit.fork
    ])?;
    Ok(())
}

/// Takes a unit out of a pool.
pub(super) fn remove(
    db: &Connection,
    campaign: i64,
    pool: PoolNo,
    prize: Option<PrizeNo>,
    waiting: Waiting,
) -> Result<()> {
    let deleted = db
        .prepare_cached(
            "DELETE FROM units WHERE campaign = ?1 AND pool = ?2 AND prize = ?3 AND score = ?4 AND \
         window = ?5 AND number = ?6",
        )?
        .execute(params![
            campaign,
            pool.0,
            slot(prize),
            waiting.score,
            waiting.unit.window,
            waiting.unit.number
        ])?;
    if deleted != 1 {
        let text = format!("a unit that is taken back was there {deleted} times");
        return Err(StoreError::corrupt(text));
    }
    Ok(())
}

/// The units of a range, at most `limit`.
pub(super) fn find(
    db: &Connection,
    campaign: i64,
    range: &Range,
    limit: usize,
) -> Result<Vec<Placed>> {
    let mut statement = db.prepare_cached(if range.descending {
        "SELECT score, window, number, fork FROM units
         WHERE campaign = ?1 AND pool = ?2 AND prize = ?3 AND score BETWEEN ?4 AND ?5
         ORDER BY score DESC, window DESC, number DESC LIMIT ?6"
    } else {
        "SELECT score, window, number, fork FROM units
         WHERE campaign = ?1 AND pool = ?2 AND prize = ?3 AND score BETWEEN ?4 AND ?5
         ORDER BY score, window, number LIMIT ?6"
    })?;
    let (pool, prize) = (range.pool, range.prize);
    let key = params![campaign, pool.0, slot(prize), range.from, range.to, limit];
    let rows = statement.query_map(key, |row| {
        Ok(Placed {
            pool,
            prize,
            score: row.get(0)?,
            unit: Unit {
                window: row.get(1)?,
                fork: row.get(3)?,
                number: row.get(2)?,
            },
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
