//! A deck: whole cards by prize, the rest blanks.

use std::collections::BTreeMap;

use super::{
    apportion::largest_remainder,
    number::{PrizeNo, Quantities},
};

/// The composition of a deck.
#[derive(Clone, Debug, PartialEq)]
pub struct Deck {
    /// Cards in the deck, at least the sum of `cards`, at least 1.
    pub size: u64,
    /// Cards by prize.
    pub cards: Quantities,
    /// What happens when all are drawn.
    pub on_exhausted: OnExhausted,
    /// The odds as they were written, of prizes of which whole cards cannot have these odds.
    pub rounded_odds: BTreeMap<PrizeNo, String>,
}

/// What happens when a deck is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExhausted {
    /// The pool gives nothing more.
    Stop,
    /// It is dealt anew without the grand prizes.
    Reshuffle,
}

/// Cards of one kind: a prize, or blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardCount {
    /// The prize; none for blanks.
    pub prize: Option<PrizeNo>,
    /// How many, at least 1.
    pub cards: u64,
}

impl Deck {
    /// The cards of the first round: prizes by number, then blanks; kinds with at least one card.
    pub fn first_round(&self) -> Vec<CardCount> {
        let prizes = self.cards.iter().map(|(no, cards)| (Some(*no), *cards));
        kinds(prizes.chain([(None, self.blanks())]))
    }

    /// The cards of every later round: without the prizes for which `is_grand` says so, their share
    /// divided among the other kinds (blanks too) in proportion, by the largest remainder; as many
    /// cards as the first round. Empty if nothing but grand prizes is in the deck, or if it
    /// stops.
    pub fn later_round(&self, is_grand: impl Fn(PrizeNo) -> bool) -> Vec<CardCount> {
        if self.on_exhausted == OnExhausted::Stop {
            return Vec::new();
        }
        let mut staying = self.first_round();
        staying.retain(|kind| !kind.prize.is_some_and(&is_grand));
        let weights: Vec<u64> = staying.iter().map(|kind| kind.cards).collect();
        let shares = largest_remainder(&weights, self.size);
        kinds(staying.iter().map(|kind| kind.prize).zip(shares))
    }

    /// Cards that win nothing, in the first round.
    pub fn blanks(&self) -> u64 {
        self.size - self.cards.values().sum::<u64>()
    }
}

fn kinds(counts: impl Iterator<Item = (Option<PrizeNo>, u64)>) -> Vec<CardCount> {
    counts
        .filter(|(_, cards)| *cards > 0)
        .map(|(prize, cards)| CardCount { prize, cards })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAR: PrizeNo = PrizeNo(0);

    fn deck(size: u64, cards: &[u64], on_exhausted: OnExhausted) -> Deck {
        Deck {
            size,
            cards: (0..).map(PrizeNo).zip(cards.iter().copied()).collect(),
            on_exhausted,
            rounded_odds: BTreeMap::new(),
        }
    }

    fn counts(round: &[CardCount]) -> Vec<(Option<u16>, u64)> {
        round
            .iter()
            .map(|kind| (kind.prize.map(|no| no.0), kind.cards))
            .collect()
    }

    #[test]
    fn the_rest_of_a_deck_is_blank() {
        let first = deck(100, &[1, 9], OnExhausted::Stop).first_round();
        assert_eq!(counts(&first), [(Some(0), 1), (Some(1), 9), (None, 90)]);
        let full = deck(10, &[1, 9], OnExhausted::Stop).first_round();
        assert_eq!(counts(&full), [(Some(0), 1), (Some(1), 9)]);
    }

    #[test]
    fn later_rounds_leave_grand_prizes_out_and_stay_as_large() {
        let cars = deck(
            14_000_003,
            &[3, 3_000_000, 6_000_000],
            OnExhausted::Reshuffle,
        );
        let later = cars.later_round(|no| no == CAR);
        assert_eq!(
            counts(&later),
            [
                (Some(1), 3_000_001),
                (Some(2), 6_000_001),
                (None, 5_000_001)
            ]
        );
        let total: u64 = later.iter().map(|kind| kind.cards).sum();
        assert_eq!(total, 14_000_003);
    }

    #[test]
    fn a_deck_without_grand_prizes_is_dealt_anew_as_it_was() {
        let deck = deck(100, &[1, 9], OnExhausted::Reshuffle);
        assert_eq!(deck.later_round(|_| false), deck.first_round());
    }

    #[test]
    fn no_later_round_of_nothing_or_of_a_deck_that_stops() {
        let stops = deck(100, &[1, 9], OnExhausted::Stop);
        assert_eq!(stops.later_round(|_| false), []);
        let grand_only = deck(1, &[1], OnExhausted::Reshuffle);
        assert_eq!(grand_only.later_round(|_| true), []);
    }
}
