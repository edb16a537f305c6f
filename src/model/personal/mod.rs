//! Personal pools: each user draws alone, with the same odds for each draw or from a deck of the
//! user's own, and guarantees count the user's draws.
//!
//! [`rule`] is the one rule of what a draw gives. It asks for "one of these weights" ([`Chance`]).
//! A stream of chance answers that for a draw (see [`crate::chance::personal`]), and an enumeration
//! of all answers gives the odds ([`odds`]).

mod chain;
pub mod odds;
mod progress;
pub mod rule;

use std::{
    collections::{BTreeMap, BTreeSet},
    iter::once,
};

use super::{
    apportion::greatest_common_divisor,
    campaign::{Campaign, Pool, PoolKind},
    deck::Deck,
    id::GuaranteeId,
    number::{PoolNo, PrizeNo},
};

pub use progress::{Counter, GuaranteeKey, GuaranteeProgress, PoolProgress, Progress};
pub use rule::{Chance, Outcome};

/// The most cards of a personal deck: the cards of a round up to a draw's are computed in the draw.
pub const PERSONAL_DECK_MAX: u64 = 1_000;
/// The most guarantees of a campaign: a user's record has a counter for each.
pub const GUARANTEES_MAX: usize = 20;
/// The highest number of a draw that a guarantee may name.
pub const WITHIN_MAX: u32 = 100_000;
/// The most entries of a guarantee's `ramp`.
pub const RAMP_MAX: usize = 20;

/// A pool from which each user draws alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Personal {
    /// What a draw gives.
    pub kind: PersonalKind,
    /// What a draw gives whose prize cannot be given; none: what the next pool gives.
    pub fallback: Option<PrizeNo>,
    /// In the order in which they are tried; none of a deck.
    pub guarantees: Vec<Guarantee>,
}

/// What a draw of a personal pool gives.
#[derive(Clone, Debug, PartialEq)]
pub enum PersonalKind {
    /// The same odds for each draw, guarantees aside.
    Odds(PersonalOdds),
    /// The next card of the user's own deck.
    Deck(Deck),
}

/// The odds of each draw.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonalOdds {
    /// As they were written.
    pub written: BTreeMap<PrizeNo, String>,
    /// The same as whole numbers in proportion.
    pub weights: BTreeMap<PrizeNo, u64>,
    /// The weight of no prize.
    pub blanks: u64,
}

/// A promise that a user wins one of some prizes after so many draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Guarantee {
    /// Unique in the campaign. A user's counter follows it from version to version.
    pub id: GuaranteeId,
    /// In order, each once, at least one.
    pub prizes: Vec<PrizeNo>,
    /// The draw of this number without one of `prizes`, from 1, gives one.
    pub within: Option<u32>,
    /// How the chance of `prizes` rises, by the number of the draw.
    pub ramp: Vec<Ramp>,
    /// Some of `prizes`: one of these with even odds at first, and surely the next time once it was
    /// missed. Empty: the odds decide.
    pub among: Vec<PrizeNo>,
}

/// A rise of the chance of a guarantee's prizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Ramp {
    /// The first draw with a higher chance, counted as [`Guarantee::within`] counts.
    pub from: u32,
    /// What each draw adds, from this one to the one before the next entry's first.
    pub add: Share,
    /// The same as it was written.
    pub written: String,
}

/// A fraction in lowest terms, above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// At most the denominator.
    pub numerator: u64,
    /// At most a million, so that products stay exact.
    pub denominator: u64,
}

impl Personal {
    /// Every prize that the pool may give, some perhaps more than once.
    pub fn prizes(&self) -> impl Iterator<Item = PrizeNo> {
        let odds = match &self.kind {
            PersonalKind::Odds(odds) => odds.weights.keys(),
            PersonalKind::Deck(deck) => deck.cards.keys(),
        };
        let guaranteed = self.guarantees.iter().flat_map(|it| &it.prizes);
        odds.chain(guaranteed).copied().chain(self.fallback)
    }

    /// Whether the pool gives a user nothing more who has drawn so many times: the deck stops after
    /// its first round, or all of its cards are of prizes for which `is_grand` says so.
    pub fn is_used_up(&self, position: u64, is_grand: impl Fn(PrizeNo) -> bool) -> bool {
        match &self.kind {
            PersonalKind::Deck(deck) => {
                position >= deck.size && deck.later_round(is_grand).is_empty()
            }
            PersonalKind::Odds(_) => false,
        }
    }
}

impl Guarantee {
    /// The next draw gives one of the prizes, for a user of whom this was counted.
    pub fn is_due(&self, counter: Counter) -> bool {
        let next = counter.since.saturating_add(1);
        self.within.is_some_and(|within| next >= within)
    }

    /// What the chance of the prizes rises by at a draw, counted as [`Self::within`] counts: a
    /// number of parts, at most as many as there are, and all parts. None: nothing.
    ///
    /// Each entry of `ramp` adds its share once for each draw from its `from` on, up to the draw
    /// before the next entry's.
    pub fn raise(&self, draw: u32) -> Option<(u64, u64)> {
        let common = self.parts();
        let mut raised = 0_u64;
        for (index, ramp) in self.ramp.iter().enumerate() {
            let end = self.ramp.get(index + 1).map_or(u32::MAX, |next| next.from);
            let last = draw.min(end - 1);
            if last < ramp.from {
                break;
            }
            let draws = u64::from(last - ramp.from) + 1;
            let each = ramp.add.numerator * (common / ramp.add.denominator);
            raised = raised.saturating_add(each.saturating_mul(draws));
        }
        (raised > 0).then(|| (raised.min(common), common))
    }

    /// The common denominator of `ramp`.
    fn parts(&self) -> u64 {
        let shares = self.ramp.iter().map(|ramp| ramp.add.denominator);
        shares.fold(1, |common, denominator| {
            common / greatest_common_divisor(common, denominator) * denominator
        })
    }

    /// The number of the draw from which on the number does not matter: the guarantee is due, and
    /// the chance has risen to 1. 1 if no number matters.
    pub fn last_draw(&self) -> u32 {
        let certain = (!self.ramp.is_empty()).then(|| {
            let (mut low, mut high) = (1, WITHIN_MAX + 1_000_000);
            let is_certain = |draw| self.raise(draw).is_some_and(|(raised, all)| raised == all);
            // The chance never falls, and each share is at least a millionth.
            while low < high {
                let middle = low + (high - low) / 2;
                if is_certain(middle) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            low
        });
        let last = self.within.into_iter().chain(certain).max();
        last.unwrap_or(1)
    }
}

impl Campaign {
    /// Every personal pool with its number.
    pub fn personal_pools(&self) -> impl Iterator<Item = (PoolNo, &Pool, &Personal)> {
        let pools = self.numbered_pools();
        pools.filter_map(|(no, pool)| match &pool.kind {
            PoolKind::Personal(personal) => Some((no, pool, personal)),
            PoolKind::Schedule(_) | PoolKind::Deck(_) => None,
        })
    }

    /// The guarantee of this index among those of a pool, or of the campaign for
    /// [`PoolNo::GUARANTEES`].
    pub fn guarantee(&self, pool: PoolNo, index: u16) -> Option<&Guarantee> {
        self.guarantees_of(pool).get(usize::from(index))
    }

    /// The guarantees of a pool, or those of the campaign for [`PoolNo::GUARANTEES`].
    pub fn guarantees_of(&self, pool: PoolNo) -> &[Guarantee] {
        if pool == PoolNo::GUARANTEES {
            return &self.guarantees;
        }
        match self.pools.get(usize::from(pool.0)).map(|pool| &pool.kind) {
            Some(PoolKind::Personal(personal)) => &personal.guarantees,
            Some(PoolKind::Schedule(_) | PoolKind::Deck(_)) | None => &[],
        }
    }

    /// The prizes that draws take off stock themselves, some perhaps more than once: those of
    /// guarantees and of personal pools.
    pub fn prizes_off_stock(&self) -> impl Iterator<Item = PrizeNo> {
        self.prizes_off_stock_by_pool()
            .flat_map(|(_, prizes)| prizes)
    }

    /// The same by pool, those of guarantees under [`PoolNo::GUARANTEES`].
    pub fn prizes_off_stock_by_pool(&self) -> impl Iterator<Item = (PoolNo, Vec<PrizeNo>)> {
        let guaranteed = self.guarantees.iter().flat_map(|it| &it.prizes);
        let own = self
            .personal_pools()
            .map(|(no, _, personal)| (no, personal.prizes().collect()));
        once((PoolNo::GUARANTEES, guaranteed.copied().collect())).chain(own)
    }

    /// Prizes of guarantees of personal pools that the budget may hold, in ascending order, each
    /// once. While it does, the rule of these pools decides otherwise.
    pub fn guaranteed_in_budget(&self) -> Vec<PrizeNo> {
        let Some(budget) = &self.budget else {
            return Vec::new();
        };
        let pools = self.personal_pools();
        let guarantees = pools.flat_map(|(_, _, personal)| &personal.guarantees);
        let prizes = guarantees.flat_map(|guarantee| &guarantee.prizes).copied();
        let prizes: BTreeSet<_> = prizes.filter(|prize| budget.value(*prize) > 0).collect();
        prizes.into_iter().collect()
    }

    /// Users draw alone from a pool.
    pub fn has_personal_pools(&self) -> bool {
        self.personal_pools().next().is_some()
    }
}

#[cfg(test)]
pub(crate) mod tests;
