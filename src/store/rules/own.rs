//! What a draw takes off stock itself, by the user's progress.
//!
//! - In a personal pool the user's own chance decides it. What cannot be given is the pool's
//!   fallback, else what the next pools give. The user's progress is the same in any case. A prize
//!   of a guarantee cannot be given only while it is held: paused, or beyond the budget. The rule
//!   of the pool knows that, so a guarantee that is due stays due.
//! - A guarantee of the campaign that is due gives the first of its prizes that can be given,
//!   before any pool is tried; no chance is needed. While there is none it stays due, the next
//!   guarantee is tried, and then the pools. Whatever a draw gives counts for all guarantees.

use super::draw::{Found, Pools, Search};
use crate::{
    model::{PoolNo, PrizeNo, personal::Personal},
    store::{Cause, DrawResult, Unit},
};

/// What a personal pool or a guarantee gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnDraw {
    /// A unit of this prize, by this guarantee if chance did not decide it.
    Won {
        pool: PoolNo,
        prize: PrizeNo,
        guarantee: Option<u16>,
    },
    /// Nothing, at this position.
    Blank { pool: PoolNo, position: u64 },
}

impl<P: Pools> Search<'_, P> {
    /// What the campaign's guarantees give to the next draw.
    pub(super) fn guaranteed(&self) -> Option<OwnDraw> {
        let (guarantees, pool) = (&self.campaign.guarantees, PoolNo::GUARANTEES);
        if guarantees.is_empty() {
            return None;
        }
        let counters = self.made.progress.of(pool).counters(guarantees);
        for ((index, guarantee), counter) in (0..).zip(guarantees).zip(counters) {
            let mut prizes = guarantee.prizes.iter().copied();
            if guarantee.is_due(counter)
                && let Some(prize) = prizes.find(|prize| self.can_be_given(*prize))
            {
                return Some(OwnDraw::Won {
                    pool,
                    prize,
                    guarantee: Some(index),
                });
            }
        }
        None
    }

    /// Counts the last draw for the campaign's guarantees.
    pub(super) fn count_guarantees(&mut self) {
        let (guarantees, pool) = (&self.campaign.guarantees, PoolNo::GUARANTEES);
        if guarantees.is_empty() {
            return;
        }
        let won = self.made.results.last().and_then(DrawResult::prize);
        let after = self.made.progress.of(pool).counting(guarantees, won);
        self.made.progress.0.insert(pool, after);
    }

    /// What a personal pool gives to the next draw that reaches it.
    pub(super) fn own(&mut self, pool: PoolNo, personal: &Personal) -> Found {
        let Some(chance) = self.chance else {
            return Found::NeedChance;
        };
        let before = self.made.progress.of(pool);
        let draw = chance.draw(self.campaign, pool, &before, |prize| self.is_held(prize));
        let Some(draw) = draw else {
            return Found::Nothing;
        };
        self.made.progress.0.insert(pool, draw.after);
        let Some(drawn) = draw.prize else {
            let position = draw.position;
            return Found::Own(OwnDraw::Blank { pool, position });
        };
        let mut prizes = [Some(drawn), personal.fallback].into_iter().flatten();
        let Some(prize) = prizes.find(|prize| self.can_be_given(*prize)) else {
            return Found::Nothing;
        };
        let guarantee = draw.guarantee.filter(|_| prize == drawn);
        Found::Own(OwnDraw::Won {
            pool,
            prize,
            guarantee: guarantee.and_then(|index| u16::try_from(index).ok()),
        })
    }

    /// Nobody may have a unit of a prize now: it is paused, or one more would pass the budget.
    fn is_held(&self, prize: PrizeNo) -> bool {
        self.paused.contains(&prize) || self.passes_budget(prize)
    }

    /// A unit of a prize is in stock, not held, and one that the user may have.
    fn can_be_given(&self, prize: PrizeNo) -> bool {
        let given = self.made.given.iter();
        let given = given.filter(|(_, other)| *other == prize).count() as u64;
        !self.paused.contains(&prize) && self.may_have(prize) && self.pools.in_stock(prize) > given
    }

    /// A unit is won off stock, or nothing.
    pub(super) fn take_own(&mut self, draw: OwnDraw) {
        match draw {
            OwnDraw::Won {
                pool,
                prize,
                guarantee,
            } => {
                let earlier = self.made.given.iter().filter(|(other, _)| *other == pool);
                let mut unit = self.pools.next_unit(pool);
                unit.number += earlier.count() as u64;
                self.made.given.push((pool, prize));
                self.count_win(prize);
                self.made.results.push(DrawResult::Won {
                    prize,
                    pool,
                    unit,
                    release: None,
                    code: None,
                    guarantee,
                });
            }
            OwnDraw::Blank { pool, position } => {
                let unit = Unit {
                    window: 0,
                    fork: 0,
                    number: position,
                };
                self.give_without(Cause::Blank { pool, unit });
            }
        }
    }
}
