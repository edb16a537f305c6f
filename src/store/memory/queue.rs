//! A pool's units of one prize: a sorted set.

use std::collections::BTreeSet;

use crate::{
    model::{Moment, PrizeNo},
    store::{
        Result, StoreError, Unit,
        rules::{Placed, QueueView, Range, Waiting},
    },
};

/// The waiting units of one prize of one pool.
pub(super) struct Queue {
    pub(super) view: QueueView,
    units: BTreeSet<Waiting>,
}

impl Queue {
    /// An empty queue of a prize, or of blanks.
    pub(super) fn new(prize: Option<PrizeNo>) -> Self {
        Self {
            view: QueueView { prize, waiting: 0 },
            units: BTreeSet::new(),
        }
    }

    /// The unit of this index.
    pub(super) fn get(&self, index: usize) -> Option<Waiting> {
        match index {
            0 => self.units.first().copied(),
            _ => self.units.iter().nth(index).copied(),
        }
    }

    /// Removes the first unit, which is won or a blank.
    pub(super) fn take(&mut self) {
        let was_there = self.units.pop_first().is_some();
        debug_assert!(was_there && self.view.waiting > 0, "a draw has seen it");
        self.view.waiting -= 1;
    }

    /// Counts units that come to this pool or leave it otherwise than by a draw.
    pub(super) fn count(&mut self, units: i64) -> Result<()> {
        let waiting = self.view.waiting;
        self.view.waiting = waiting.checked_add_signed(units).ok_or_else(|| {
            StoreError::corrupt(format!("{waiting} units wait, {units} are booked"))
        })?;
        Ok(())
    }

    /// Puts a unit in.
    pub(super) fn insert(&mut self, unit: Waiting) -> Result<()> {
        if self.units.insert(unit) {
            return Ok(());
        }
        Err(StoreError::corrupt(format!("{unit:?} is there already")))
    }

    /// Takes a unit out that nobody won.
    pub(super) fn remove(&mut self, unit: &Waiting) -> Result<()> {
        if self.units.remove(unit) {
            return Ok(());
        }
        Err(StoreError::corrupt(format!("{unit:?} is not there")))
    }

    /// The units of a range, in its order, at most `limit`.
    pub(super) fn find(&self, range: &Range, limit: usize) -> Vec<Placed> {
        let (pool, prize) = (range.pool, range.prize);
        let placed = |waiting: &Waiting| Placed {
            pool,
            prize,
            score: waiting.score,
            unit: waiting.unit,
        };
        if range.from > range.to {
            return Vec::new();
        }
        let units = self.between(range.from, range.to);
        if range.descending {
            units.rev().take(limit).map(placed).collect()
        } else {
            units.take(limit).map(placed).collect()
        }
    }

    /// Units that are in the set.
    pub(super) fn len(&self) -> u64 {
        self.units.len() as u64
    }

    /// Units that are released by a moment.
    pub(super) fn due(&self, now: Moment) -> u64 {
        self.between(i64::MIN, now.as_micros()).count() as u64
    }

    /// Units of a window that are released by a moment.
    pub(super) fn due_of(&self, window: Moment, now: Moment) -> u64 {
        if window > now {
            return 0;
        }
        let units = self.between(window.as_micros(), now.as_micros());
        let seconds = window.as_seconds();
        units.filter(|unit| unit.unit.window == seconds).count() as u64
    }

    fn between(&self, from: i64, to: i64) -> impl DoubleEndedIterator<Item = &Waiting> {
        let first = Waiting {
            score: from,
            unit: Unit {
                window: i64::MIN,
                fork: 0,
                number: 0,
            },
        };
        let last = Waiting {
            score: to,
            unit: Unit {
                window: i64::MAX,
                fork: u32::MAX,
                number: u64::MAX,
            },
        };
        self.units.range(first..=last)
    }
}
