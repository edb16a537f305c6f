//! Units that come into pools and leave them, and the codes that go with them.

use super::{Books, Faults};
use crate::{
    ledger::audit::{findings::Check, units::Place},
    model::{PoolKind, PoolNo, Prize, PrizeNo, Quantities},
    store::{Unit, entry::Span},
};

/// Where a unit of a pool goes.
#[derive(Clone, Copy)]
pub(super) enum Leaves {
    Won,
    ToStock,
    Withdrawn,
}

impl Books {
    pub(super) fn put(&mut self, pool: PoolNo, units: &Quantities, faults: &mut Faults) {
        for (prize, units) in units {
            let is_unlimited = self.is_unlimited(*prize);
            let sums = self.prizes.entry(*prize).or_default();
            if is_unlimited {
                // What stock does not have is given for it.
                let more = units.saturating_sub(sums.left);
                sums.stock += more;
                sums.left += more;
            }
            match sums.left.checked_sub(*units) {
                Some(left) => sums.left = left,
                None => faults.push((
                    Check::Sums,
                    format!(
                        "{units} units of prize {} left stock, which had {}",
                        prize.0, sums.left
                    ),
                )),
            }
            sums.waiting += units;
            let sums = self.pools.entry((pool, *prize)).or_default();
            sums.put += units;
            sums.waiting += units;
        }
    }

    /// What a pool gives is taken off stock in the draw, by the version in force: users draw alone
    /// from it, or it stands for the guarantees.
    pub(super) fn is_off_stock(&self, pool: PoolNo) -> bool {
        if pool == PoolNo::GUARANTEES {
            return true;
        }
        let pools = self.newest.as_ref().map(|campaign| &campaign.pools);
        let pool = pools.and_then(|pools| pools.get(usize::from(pool.0)));
        pool.is_some_and(|pool| matches!(pool.kind, PoolKind::Personal(_)))
    }

    /// A unit is won off stock: the next one of a personal pool, or of guarantees.
    pub(super) fn take_own(
        &mut self,
        (pool, prize): (PoolNo, PrizeNo),
        unit: Unit,
        faults: &mut Faults,
    ) {
        let window = 0;
        self.units.put(Place { pool, window }, 1, unit.fork);
        self.take_unit(pool, unit, "won", faults);
        let is_unlimited = self.is_unlimited(prize);
        let sums = self.prizes.entry(prize).or_default();
        sums.won += 1;
        if is_unlimited {
            sums.stock += 1;
        } else if let Some(left) = sums.left.checked_sub(1) {
            sums.left = left;
        } else {
            let text = format!("a unit of prize {} is won, and stock had none", prize.0);
            faults.push((Check::Sums, text));
        }
        let sums = self.pools.entry((pool, prize)).or_default();
        sums.put += 1;
        sums.won += 1;
    }

    /// There is always enough of a prize, by the version in force.
    fn is_unlimited(&self, prize: PrizeNo) -> bool {
        self.prize(prize).is_some_and(|prize| prize.unlimited)
    }

    /// Each unit of a prize has a code, by the version in force.
    fn has_codes(&self, prize: PrizeNo) -> bool {
        self.prize(prize).is_some_and(|prize| prize.codes)
    }

    /// A prize, by the version in force.
    fn prize(&self, prize: PrizeNo) -> Option<&Prize> {
        let prizes = self.newest.as_ref().map(|campaign| &campaign.prizes);
        prizes.and_then(|prizes| prizes.get(usize::from(prize.0)))
    }

    /// A unit was won with a code, or without one.
    pub(super) fn give_code(&mut self, prize: PrizeNo, code: Option<u64>, faults: &mut Faults) {
        match code {
            Some(code) => note(self.codes.give(prize, code), faults),
            None if self.has_codes(prize) => {
                let text = format!("a unit of prize {} is won without a code", prize.0);
                faults.push((Check::Units, text));
            }
            None => {}
        }
    }

    /// Units were withdrawn after entries had been lost.
    pub(super) fn pass_over_codes(&mut self, units: &Quantities) {
        for (prize, units) in units {
            if self.has_codes(*prize) {
                self.codes.pass_over(*prize, *units);
            }
        }
    }

    pub(super) fn take_back(
        &mut self,
        pool: PoolNo,
        units: &Quantities,
        withdrawn: bool,
        spans: &[Span],
        faults: &mut Faults,
    ) {
        let leaves = if withdrawn {
            Leaves::Withdrawn
        } else {
            Leaves::ToStock
        };
        if self.is_off_stock(pool) {
            // They have waited in stock.
            self.put(pool, units, faults);
        }
        for (prize, units) in units {
            self.leave((pool, *prize), *units, leaves, faults);
        }
        for span in spans {
            for number in span.first..=span.last {
                let unit = Unit {
                    window: span.window,
                    fork: span.fork,
                    number,
                };
                self.take_unit(pool, unit, "taken back", faults);
            }
        }
    }

    pub(super) fn take_unit(&mut self, pool: PoolNo, unit: Unit, what: &str, faults: &mut Faults) {
        if let Err(why) = self.units.take(pool, unit) {
            let Unit {
                window,
                fork,
                number,
            } = unit;
            faults.push((
                Check::Units,
                format!(
                    "unit {number} of {window} (fork {fork:06x}) of pool {} is {what}, and it \
                     {why}",
                    self.pool_name(pool)
                ),
            ));
        }
    }

    pub(super) fn leave(
        &mut self,
        (pool, prize): (PoolNo, PrizeNo),
        units: u64,
        leaves: Leaves,
        faults: &mut Faults,
    ) {
        let in_pool = self.pools.entry((pool, prize)).or_default();
        let sums = self.prizes.entry(prize).or_default();
        match in_pool.waiting.checked_sub(units) {
            Some(waiting) => {
                in_pool.waiting = waiting;
                sums.waiting = sums.waiting.saturating_sub(units);
            }
            None => faults.push((
                Check::Sums,
                format!(
                    "{units} units of prize {} left pool {}, which had {}",
                    prize.0, pool.0, in_pool.waiting
                ),
            )),
        }
        match leaves {
            Leaves::Won => {
                in_pool.won += units;
                sums.won += units;
            }
            Leaves::ToStock => {
                in_pool.taken_back += units;
                sums.left += units;
            }
            Leaves::Withdrawn => {
                in_pool.taken_back += units;
                sums.withdrawn += units;
            }
        }
    }
}

/// Notes what is wrong with codes.
pub(super) fn note(checked: Result<(), String>, faults: &mut Faults) {
    if let Err(text) = checked {
        faults.push((Check::Units, text));
    }
}
