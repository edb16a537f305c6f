//! Decks: cards or odds, made whole cards.

use std::collections::BTreeMap;

use super::{
    bounds::COUNT_MAX,
    odds,
    prizes::Prizes,
    report::{at, unknown_enum},
};
use crate::{
    model::{
        deck::{Deck, OnExhausted},
        number::Quantities,
        problem::Problems,
        text::{grouped, grouped_digits},
    },
    proto,
};

/// Reads a deck and notes its problems; none if it has no cards.
pub(super) fn read(
    path: &str,
    message: &proto::Deck,
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> Option<Deck> {
    let flaws = problems.0.len();
    let on_exhausted = read_on_exhausted(path, message.on_exhausted, problems);
    if message.size > COUNT_MAX {
        let (size, most) = (grouped(message.size), grouped(COUNT_MAX));
        problems.add(
            at(path, "size"),
            format!("{size} is too much: at most {most} (2^53 - 1)"),
        );
        return None;
    }
    let note = (at(path, "roundedOdds"), &message.rounded_odds);
    let (size, cards, rounded_odds) = match (message.cards.is_empty(), message.odds.is_empty()) {
        (false, true) => {
            let cards = read_cards(&at(path, "cards"), &message.cards, prizes, problems);
            let size = size_of_cards(path, message.size, &cards, problems)?;
            let rounded = odds::read_rounded(&note.0, note.1, (&cards, size), prizes, problems);
            (size, cards, rounded)
        }
        (true, false) if message.size == 0 => {
            problems.add(
                at(path, "size"),
                "is missing: with odds, say how many cards the deck has",
            );
            return None;
        }
        (true, false) => {
            if !note.1.is_empty() {
                problems.add(note.0, "is made from odds: leave it out beside them");
            }
            let path = at(path, "odds");
            let (cards, rounded) =
                odds::read(&path, &message.odds, message.size, prizes, problems)?;
            (message.size, cards, rounded)
        }
        (true, true) => {
            problems.add(path, "has nothing to win: add cards or odds");
            return None;
        }
        (false, false) => {
            problems.add(path, "has both cards and odds: leave one of them out");
            return None;
        }
    };
    let is_whole = problems.0.len() == flaws;
    let only_grand = is_whole && cards.keys().all(|no| prizes.is_grand(*no));
    if only_grand && on_exhausted == OnExhausted::Reshuffle {
        problems.add(
            at(path, "onExhausted"),
            "would deal a deck without prizes, for all of them are grand: take ON_EXHAUSTED_STOP, \
             or add a prize that is not grand",
        );
    }
    Some(Deck {
        size,
        cards,
        on_exhausted,
        rounded_odds,
    })
}

fn read_cards(
    path: &str,
    map: &BTreeMap<String, u64>,
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> Quantities {
    prizes.read_map(path, map, problems, |path, cards, problems| {
        if *cards == 0 {
            problems.add(path, "is zero: leave the prize out, or give it a card");
        } else if *cards > COUNT_MAX {
            let (cards, most) = (grouped(*cards), grouped(COUNT_MAX));
            problems.add(
                path,
                format!("{cards} is too much: at most {most} (2^53 - 1)"),
            );
        }
        Some((*cards).min(COUNT_MAX))
    })
}

/// The size that is stated, or else the sum of the cards; none if the two contradict each other.
fn size_of_cards(
    path: &str,
    stated: u64,
    cards: &Quantities,
    problems: &mut Problems,
) -> Option<u64> {
    let sum: u128 = cards.values().copied().map(u128::from).sum();
    let most = if stated == 0 { COUNT_MAX } else { stated };
    match u64::try_from(sum).ok().filter(|sum| *sum <= most) {
        Some(sum) => Some(if stated == 0 { sum } else { stated }),
        None => {
            let (sum, most) = (grouped_digits(&sum.to_string()), grouped(most));
            problems.add(
                at(path, "size"),
                format!("has room for {most} cards, but cards sum to {sum}"),
            );
            None
        }
    }
}

fn read_on_exhausted(path: &str, number: i32, problems: &mut Problems) -> OnExhausted {
    use proto::OnExhausted::{Reshuffle, Stop, Unspecified};
    match proto::OnExhausted::try_from(number) {
        Ok(Reshuffle) => OnExhausted::Reshuffle,
        Ok(Stop | Unspecified) => OnExhausted::Stop,
        Err(_) => {
            let known = "ON_EXHAUSTED_STOP or ON_EXHAUSTED_RESHUFFLE";
            unknown_enum(at(path, "onExhausted"), number, known, problems);
            OnExhausted::Stop
        }
    }
}
