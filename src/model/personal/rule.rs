//! What a draw of a personal pool with odds gives.
//!
//! 1. The first guarantee, in their order, that is due and has a prize that is not held gives one
//!    of its prizes.
//! 2. Else each guarantee, in their order, whose chance is raised and that has a prize that is not
//!    held is asked: among the outcomes that are still possible its prizes have some chance, to
//!    which the raise is added. If it gives, it is one of its prizes; if not, its prizes are not
//!    possible any more. So a single guarantee has the base odds and the raise, and the other
//!    outcomes keep their proportion.
//! 3. Else one of the possible outcomes by the base odds.
//! 4. One of a guarantee's prizes: of those that are not held (of all if all are held), by their
//!    base odds; all alike if the odds name none of them.
//! 5. A prize of a guarantee with `among`, however it was chosen, stands for all prizes of that
//!    guarantee (of those among which it was chosen). It is decided whether it is one of `among`:
//!    surely if that was missed the last time, else with even odds; if only one of both sides has a
//!    prize that is not held, it is that one. Then it is one of that side, as in 4.
//!
//! A prize that is held all the same cannot be given. What is given resets the guarantees that it
//! satisfies; all others count the draw.

use super::{Guarantee, Personal, PersonalOdds, progress::Counter};
use crate::model::number::PrizeNo;

/// What decides.
pub trait Chance {
    /// The index of one of these weights, in proportion. One of them at least is above 0. A choice
    /// with one possible answer takes no chance.
    fn one_of(&mut self, weights: &[u64]) -> usize;
}

/// What a draw gives, if it can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// None: no prize.
    pub prize: Option<PrizeNo>,
    /// The index of the guarantee that gave it surely; none: chance gave it.
    pub guarantee: Option<usize>,
}

/// What a draw gives to a user with these counters, one for each guarantee.
pub fn draw(
    personal: &Personal,
    odds: &PersonalOdds,
    counters: &[Counter],
    is_held: impl Fn(PrizeNo) -> bool,
    chance: &mut impl Chance,
) -> Outcome {
    let mut choice = Choice {
        personal,
        odds,
        counters,
        is_held,
        chance,
    };
    let numbered = || personal.guarantees.iter().zip(counters).enumerate();
    for (index, (guarantee, counter)) in numbered() {
        if guarantee.is_due(*counter) && choice.can_give(guarantee) {
            return Outcome {
                guarantee: Some(index),
                ..choice.one_prize(guarantee)
            };
        }
    }
    let mut possible: Vec<(Option<PrizeNo>, u64)> = odds.outcomes().collect();
    for (_, (guarantee, counter)) in numbered() {
        let raise = guarantee.raise(counter.since.saturating_add(1));
        let Some((raised, parts)) = raise.filter(|_| choice.can_give(guarantee)) else {
            continue;
        };
        let is_own =
            |prize: Option<PrizeNo>| prize.is_some_and(|it| guarantee.prizes.contains(&it));
        let all: u64 = possible.iter().map(|(_, weight)| weight).sum();
        let own = possible.iter().filter(|(prize, _)| is_own(*prize));
        let own: u64 = own.map(|(_, weight)| weight).sum();
        let (all, yes) = (all * parts, own * parts + raised * all);
        let yes = yes.min(all);
        if choice.chance.one_of(&[yes, all - yes]) == 0 {
            return choice.one_prize(guarantee);
        }
        possible.retain(|(prize, _)| !is_own(*prize));
    }
    let weights: Vec<u64> = possible.iter().map(|(_, weight)| *weight).collect();
    match possible[choice.chance.one_of(&weights)].0 {
        Some(prize) => choice.of_its_side(prize, None),
        None => Outcome {
            prize: None,
            guarantee: None,
        },
    }
}

/// What a choice of one prize depends on.
struct Choice<'a, H, C> {
    personal: &'a Personal,
    odds: &'a PersonalOdds,
    counters: &'a [Counter],
    is_held: H,
    chance: &'a mut C,
}

impl<H: Fn(PrizeNo) -> bool, C: Chance> Choice<'_, H, C> {
    /// A prize of a guarantee is not held.
    fn can_give(&self, guarantee: &Guarantee) -> bool {
        guarantee.prizes.iter().any(|prize| !(self.is_held)(*prize))
    }

    /// One of a guarantee's prizes.
    fn one_prize(&mut self, guarantee: &Guarantee) -> Outcome {
        let prize = self.by_odds(&self.not_held(&guarantee.prizes));
        self.of_its_side(prize, Some(guarantee))
    }

    /// The prize, or if it is one of a guarantee with `among`, one of that guarantee's prizes that
    /// are also prizes of `within`.
    fn of_its_side(&mut self, prize: PrizeNo, within: Option<&Guarantee>) -> Outcome {
        let of_chance = |prize| Outcome {
            prize: Some(prize),
            guarantee: None,
        };
        let mut guarantees = self
            .personal
            .guarantees
            .iter()
            .zip(self.counters)
            .enumerate();
        let split = guarantees.find(|(_, (guarantee, _))| {
            !guarantee.among.is_empty() && guarantee.prizes.contains(&prize)
        });
        let Some((index, (guarantee, counter))) = split else {
            return of_chance(prize);
        };
        let mut prizes = guarantee.prizes.clone();
        prizes.retain(|prize| within.is_none_or(|within| within.prizes.contains(prize)));
        let is_named = |prize: &PrizeNo| guarantee.among.contains(prize);
        let (named, others): (Vec<_>, Vec<_>) =
            self.not_held(&prizes).into_iter().partition(is_named);
        if named.is_empty() || others.is_empty() {
            let one_side = [named, others].concat();
            return of_chance(match one_side.contains(&prize) {
                true => prize,
                false => self.by_odds(&one_side),
            });
        }
        if counter.missed {
            return Outcome {
                prize: Some(self.by_odds(&named)),
                guarantee: Some(index),
            };
        }
        let side = match self.chance.one_of(&[1, 1]) {
            0 => named,
            _ => others,
        };
        of_chance(self.by_odds(&side))
    }

    /// Those of some prizes that are not held; all if all are held.
    fn not_held(&self, prizes: &[PrizeNo]) -> Vec<PrizeNo> {
        let free = prizes.iter().filter(|prize| !(self.is_held)(**prize));
        let free: Vec<PrizeNo> = free.copied().collect();
        if free.is_empty() {
            prizes.to_vec()
        } else {
            free
        }
    }

    /// One of these prizes, at least one, by their base odds.
    fn by_odds(&mut self, prizes: &[PrizeNo]) -> PrizeNo {
        let weight = |prize: &PrizeNo| self.odds.weights.get(prize).copied().unwrap_or(0);
        let mut weights: Vec<u64> = prizes.iter().map(weight).collect();
        if weights.iter().all(|weight| *weight == 0) {
            weights.fill(1);
        }
        prizes[self.chance.one_of(&weights)]
    }
}

/// Counts a draw that gave this prize. In a personal pool, what else it gave, a fallback or
/// something of another pool, is none.
pub fn count(guarantees: &[Guarantee], counters: &mut [Counter], given: Option<PrizeNo>) {
    for (guarantee, counter) in guarantees.iter().zip(counters) {
        match given.filter(|prize| guarantee.prizes.contains(prize)) {
            Some(prize) => {
                counter.since = 0;
                if !guarantee.among.is_empty() {
                    counter.missed = !guarantee.among.contains(&prize);
                }
            }
            None => counter.since = counter.since.saturating_add(1),
        }
    }
}

impl PersonalOdds {
    /// Each prize by number, then no prize, with their weights.
    pub fn outcomes(&self) -> impl Iterator<Item = (Option<PrizeNo>, u64)> {
        let prizes = self.weights.iter();
        let prizes = prizes.map(|(prize, weight)| (Some(*prize), *weight));
        prizes.chain([(None, self.blanks)])
    }
}
