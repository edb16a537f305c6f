//! The odds of a personal pool: the long-run share of each outcome among the draws of one user who
//! draws from this pool alone, while nothing is held and everything is in stock.
//!
//! The counters of all guarantees are the state of a Markov chain. Each state's branches come from
//! the rule itself, which is asked with every answer that chance may give.

use std::collections::{BTreeMap, HashMap, hash_map::Entry};

use super::{
    Guarantee, Personal, PersonalOdds,
    chain::{Chain, Layers, State},
    progress::Counter,
    rule::{self, Chance},
};
use crate::model::number::PrizeNo;

/// The most states of the counters together.
pub const STATES_MAX: usize = 100_000;
/// The most comparisons of prizes, about, in which all states must be found. They take some
/// seconds. Only pools with many prizes in many guarantees need more than a small part of them.
pub const COMPARISONS_MAX: u64 = 10_000_000_000;

/// The counters have more states than can be found or solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyStates;

/// The share of each outcome, as a number from 0 to 1: prizes by number, and none for no prize.
pub type Shares = BTreeMap<Option<PrizeNo>, f64>;

/// The odds of each draw as they were written.
pub fn base(odds: &PersonalOdds) -> Shares {
    let all: u64 = odds.outcomes().map(|(_, weight)| weight).sum();
    let outcomes = odds.outcomes().filter(|(_, weight)| *weight > 0);
    outcomes
        .map(|(prize, weight)| (prize, weight as f64 / all as f64))
        .collect()
}

/// The long-run shares, to less than 1e-9.
///
/// # Errors
/// There are too many states; [`check`] says so before.
pub fn effective(personal: &Personal, odds: &PersonalOdds) -> Result<Shares, TooManyStates> {
    let (chain, outcomes) = explore(personal, odds, COMPARISONS_MAX)?;
    let shares = chain.shares(outcomes.len());
    let shares = outcomes.into_iter().zip(shares);
    Ok(shares.filter(|(_, share)| *share > 0.0).collect())
}

/// Whether the long-run shares can be computed.
///
/// # Errors
/// There are too many states.
pub fn check(personal: &Personal, odds: &PersonalOdds) -> Result<(), TooManyStates> {
    explore(personal, odds, COMPARISONS_MAX).map(drop)
}

/// Every state that a user may come to, the first one first; and the outcomes by index. Gives up
/// after this number of comparisons.
fn explore(
    personal: &Personal,
    odds: &PersonalOdds,
    comparisons_max: u64,
) -> Result<(Chain, Vec<Option<PrizeNo>>), TooManyStates> {
    let guaranteed = personal.guarantees.iter().flat_map(|it| &it.prizes);
    let prizes = odds.weights.keys().chain(guaranteed);
    let mut outcomes: Vec<Option<PrizeNo>> = prizes.copied().map(Some).collect();
    outcomes.sort_unstable();
    outcomes.dedup();
    outcomes.push(None);
    let last: Vec<u32> = personal
        .guarantees
        .iter()
        .map(|it| it.last_draw())
        .collect();
    let mut draws_left = comparisons_max / comparisons_of_a_draw(personal, odds);
    let first = vec![Counter::default(); last.len()];
    let mut number_of = HashMap::from([(first.clone(), 0)]);
    let mut found = vec![first];
    let mut states: Vec<State> = Vec::new();
    while let Some(counters) = found.get(states.len()).cloned() {
        let mut given = BTreeMap::<usize, f64>::new();
        let mut next = BTreeMap::<usize, f64>::new();
        for (prize, probability) in branches(personal, odds, &counters, &mut draws_left)? {
            let mut counters = counters.clone();
            rule::count(&personal.guarantees, &mut counters, prize);
            for (counter, last) in counters.iter_mut().zip(&last) {
                counter.since = counter.since.min(last - 1);
            }
            let number = match number_of.entry(counters) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    found.push(new.key().clone());
                    *new.insert(found.len() - 1)
                }
            };
            if found.len() > STATES_MAX {
                return Err(TooManyStates);
            }
            *next.entry(number).or_default() += probability;
            let outcome = outcomes.binary_search_by_key(&key(prize), |it| key(*it));
            *given.entry(outcome.unwrap_or(0)).or_default() += probability;
        }
        states.push(State {
            next: next.into_iter().collect(),
            given: given.into_iter().collect(),
        });
    }
    // Each draw raises a counter by one, or it begins anew.
    let by_counter = last.iter().enumerate().map(|(index, last)| Layers {
        of: found.iter().map(|it| it[index].since).collect(),
        last: last - 1,
    });
    let mut ways: Vec<Layers> = by_counter.collect();
    if ways.is_empty() {
        let of = vec![0; states.len()];
        ways.push(Layers { of, last: 0 });
    }
    let chain = Chain::new(states, ways).ok_or(TooManyStates)?;
    Ok((chain, outcomes))
}

/// The order of outcomes: no prize comes last.
fn key(prize: Option<PrizeNo>) -> (bool, Option<PrizeNo>) {
    (prize.is_none(), prize)
}

/// How often the rule compares prizes in a draw, at most: each outcome that is still possible with
/// the prizes of each guarantee that raises or shares chances. Any other guarantee looks each of
/// its prizes up once.
fn comparisons_of_a_draw(personal: &Personal, odds: &PersonalOdds) -> u64 {
    let (compared, plain): (Vec<&Guarantee>, Vec<&Guarantee>) = personal
        .guarantees
        .iter()
        .partition(|it| !it.ramp.is_empty() || !it.among.is_empty());
    let prizes = |of: &[&Guarantee]| of.iter().map(|it| it.prizes.len()).sum::<usize>();
    (odds.outcomes().count() * (1 + prizes(&compared)) + prizes(&plain)) as u64
}

/// Every way in which a draw may come out, with its probability. An outcome may come several times.
/// Each of them is a draw, of which no more than `draws_left` are made.
fn branches(
    personal: &Personal,
    odds: &PersonalOdds,
    counters: &[Counter],
    draws_left: &mut u64,
) -> Result<Vec<(Option<PrizeNo>, f64)>, TooManyStates> {
    let mut all = Vec::new();
    let mut branch = Branch::default();
    loop {
        *draws_left = draws_left.checked_sub(1).ok_or(TooManyStates)?;
        (branch.depth, branch.probability) = (0, 1.0);
        let outcome = rule::draw(personal, odds, counters, |_| false, &mut branch);
        all.push((outcome.prize, branch.probability));
        if !branch.turn() {
            return Ok(all);
        }
    }
}

/// One answer to each question, and how likely these are.
#[derive(Default)]
struct Branch {
    /// The weights of each question and the index of its answer.
    answers: Vec<(Vec<u64>, usize)>,
    /// Questions that were asked so far.
    depth: usize,
    probability: f64,
}

impl Branch {
    /// Turns to the next branch; false if there is none.
    fn turn(&mut self) -> bool {
        while let Some((weights, answer)) = self.answers.last_mut() {
            let rest = weights.iter().skip(*answer + 1);
            if let Some(further) = rest.clone().position(|weight| *weight > 0) {
                *answer += 1 + further;
                return true;
            }
            self.answers.pop();
        }
        false
    }
}

impl Chance for Branch {
    fn one_of(&mut self, weights: &[u64]) -> usize {
        if self.depth == self.answers.len() {
            let first = weights.iter().position(|weight| *weight > 0);
            self.answers.push((weights.to_vec(), first.unwrap_or(0)));
        }
        let answer = self.answers[self.depth].1;
        let all: u64 = weights.iter().sum();
        self.probability *= weights[answer] as f64 / all as f64;
        self.depth += 1;
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{guarantee, odds, personal, ramp};
    use super::*;

    #[test]
    fn states_that_would_take_too_long_to_find_are_given_up() {
        let prizes: Vec<PrizeNo> = (0..20).map(PrizeNo).collect();
        let weights: Vec<_> = prizes.iter().map(|prize| (*prize, 1)).collect();
        let odds = odds(&weights, 100);
        let rising = |number: u32| Guarantee {
            ramp: vec![ramp(1, 1)],
            ..guarantee(&format!("g{number}"), &prizes, 10)
        };
        let with = |guarantees| personal(odds.clone(), guarantees);
        // Without a ramp each prize of a guarantee is looked up once in a draw.
        let plain = (0..5).map(|number| guarantee(&format!("g{number}"), &prizes, 10));
        assert_eq!(
            comparisons_of_a_draw(&with(plain.collect()), &odds),
            21 + 100
        );
        let personal = with((0..5).map(rising).collect());
        // A draw takes at most 21 times 101 comparisons, and one of the first state comes out in 5
        // times 20 ways and in one more.
        let comparisons = 21 * 101;
        assert_eq!(comparisons_of_a_draw(&personal, &odds), comparisons);
        let is_found = |draws: u64| explore(&personal, &odds, draws * comparisons).is_ok();
        assert!(!is_found(101));
        assert!(is_found(1_000_000));
        assert_eq!(check(&personal, &odds), Ok(()));
    }
}
