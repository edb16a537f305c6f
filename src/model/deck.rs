//! A deck: whole cards by prize, the rest blanks.

use super::campaign::{PrizeNo, Quantities};

/// The composition of a deck.
#[derive(Clone, Debug, PartialEq)]
pub struct Deck {
    /// Cards in the deck, at least the sum of `cards`, at least 1.
    pub size: u64,
    /// Cards by prize.
    pub cards: Quantities,
    /// What happens when all are drawn.
    pub on_exhausted: OnExhausted,
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
        unimplemented!()
    }

    /// The cards of every later round: without the prizes for which `is_grand` says so, their share divided among the
    /// other kinds (blanks too) in proportion, by the largest remainder; as many cards as the first round. Empty where nothing
    /// but grand prizes is in the deck, or where it stops.
    pub fn later_round(&self, is_grand: impl Fn(PrizeNo) -> bool) -> Vec<CardCount> {
        let _ = is_grand;
        unimplemented!()
    }
}
