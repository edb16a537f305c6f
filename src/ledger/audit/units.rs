//! The units and cards of a campaign's pools by number: each was put into its pool, and leaves it
//! at most once (P1).

use std::collections::{BTreeMap, HashMap};

use super::numbers::Numbers;
use crate::{model::PoolNo, store::Unit};

/// The units of one pool.
#[derive(Debug, Default)]
struct PoolUnits {
    /// By a schedule's window or a deck's round.
    windows: BTreeMap<i64, Window>,
    /// Rounds of a deck that are over: every card has left.
    complete: Numbers,
}

/// The units of a window or a round. They are numbered in the order in which they were injected or
/// dealt.
#[derive(Debug, Default)]
struct Window {
    /// Units that were put.
    put: u64,
    /// Units that left.
    left: u64,
    /// The first number that was put under each mark of a fork; without one: all under mark 0.
    forks: Vec<(u64, u32)>,
    gone: Numbers,
}

/// The units of all pools of a campaign.
#[derive(Debug, Default)]
pub(super) struct Units {
    pools: HashMap<PoolNo, PoolUnits>,
}

/// Which units: a schedule's window or a deck's round of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) pool: PoolNo,
    pub(super) window: i64,
}

impl Units {
    /// Units were injected, or cards were dealt, under a fork.
    pub(super) fn put(&mut self, place: Place, units: u64, fork: u32) {
        let pool = self.pools.entry(place.pool).or_default();
        let window = pool.windows.entry(place.window).or_default();
        let last = window.forks.last().map_or(0, |&(_, fork)| fork);
        if fork != last {
            window.forks.push((window.put, fork));
        }
        window.put += units;
    }

    /// Cards of a later round were dealt: an earlier round whose cards are all gone is over.
    pub(super) fn close_rounds(&mut self, before: Place) {
        let Some(pool) = self.pools.get_mut(&before.pool) else {
            return;
        };
        while let Some(first) = pool.windows.first_entry() {
            let is_over = first.get().left == first.get().put;
            if *first.key() >= before.window || !is_over {
                return;
            }
            pool.complete.insert(first.remove_entry().0.cast_unsigned());
        }
    }

    /// A unit leaves its pool.
    ///
    /// # Errors
    /// Says why it cannot.
    pub(super) fn take(&mut self, pool: PoolNo, unit: Unit) -> Result<(), &'static str> {
        let never = "was never put into it";
        let Some(pool) = self.pools.get_mut(&pool) else {
            return Err(never);
        };
        let Some(window) = pool.windows.get_mut(&unit.window) else {
            let is_over = pool.complete.contains(unit.window.cast_unsigned());
            return Err(if is_over { "had left it before" } else { never });
        };
        if unit.number >= window.put || unit.fork != window.fork_of(unit.number) {
            return Err(never);
        }
        if !window.gone.insert(unit.number) {
            return Err("had left it before");
        }
        window.left += 1;
        Ok(())
    }
}

impl Window {
    /// The mark of the fork under which a number was put.
    fn fork_of(&self, number: u64) -> u32 {
        let before = self.forks.iter().rev();
        before
            .copied()
            .find(|&(first, _)| first <= number)
            .map_or(0, |(_, fork)| fork)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: PoolNo = PoolNo(0);

    fn unit(window: i64, number: u64, fork: u32) -> Unit {
        Unit {
            window,
            fork,
            number,
        }
    }

    fn place(window: i64) -> Place {
        Place { pool: POOL, window }
    }

    #[test]
    fn a_unit_leaves_its_pool_once_and_under_its_fork() {
        let mut units = Units::default();
        units.put(place(3600), 2, 0);
        units.put(place(3600), 3, 7);
        assert_eq!(units.take(POOL, unit(3600, 1, 0)), Ok(()));
        assert_eq!(
            units.take(POOL, unit(3600, 1, 0)),
            Err("had left it before")
        );
        assert_eq!(units.take(POOL, unit(3600, 4, 7)), Ok(()));
        for foreign in [
            unit(3600, 2, 0),
            unit(3600, 0, 7),
            unit(3600, 5, 7),
            unit(7200, 0, 0),
        ] {
            assert_eq!(units.take(POOL, foreign), Err("was never put into it"));
        }
        assert!(units.take(PoolNo(1), unit(3600, 0, 0)).is_err());
    }

    #[test]
    fn a_round_that_is_over_stays_known() {
        let mut units = Units::default();
        units.put(place(1), 2, 0);
        units.put(place(2), 2, 0);
        for number in 0..2 {
            assert_eq!(units.take(POOL, unit(1, number, 0)), Ok(()));
        }
        units.close_rounds(place(2));
        assert_eq!(units.take(POOL, unit(1, 0, 0)), Err("had left it before"));
        assert_eq!(units.take(POOL, unit(2, 0, 0)), Ok(()));
    }
}
