//! Dealing the next chunk of a deck.

use crate::{
    model::{PoolKind, Quantities},
    store::{DealCommand, Result, Step, StoreError, Unit, entry::Body, fill::CHUNK_CARDS_MAX},
};

use super::{
    book::{add, less},
    state::{DeckState, Placed, State},
};

/// Cards waiting in a deck below which its next chunk is asked for.
pub(in crate::store) const LOW_CARDS: u64 = 500;

/// Deals a chunk, if the deck is where the command says and stock has all of it; stops the deck if
/// stock has not.
pub(in crate::store) fn deal(state: &mut State, command: &DealCommand) -> Result<Step> {
    let pool = command.pool;
    let (ended, fork) = (state.view.has_ended(state.now), state.fork);
    let deck = state.deck(pool)?;
    if (deck.round, deck.chunk) != command.expected || fork != command.fork || ended {
        return Ok(Step::Stale);
    }
    if command.cards.is_empty() || command.cards.len() > CHUNK_CARDS_MAX {
        return Err(StoreError::corrupt(
            "a chunk of cards is empty or too large",
        ));
    }
    let mut granted = Quantities::new();
    for prize in command.cards.iter().flatten() {
        add(&mut granted, *prize, 1);
    }
    refuse_foreign(state, command, &granted)?;
    let in_stock = granted
        .iter()
        .all(|(prize, cards)| state.in_stock(*prize) >= *cards);
    let deck = state.deck(pool)?;
    if !in_stock {
        if deck.short.as_ref() == Some(&granted) {
            return Ok(Step::Stale); // someone else has stopped it
        }
        deck.short = Some(granted);
        return Ok(Step::Done);
    }
    let first_number = first_number(deck, command)?;
    let first_score = deck.dealt + 1;
    deck.short = None;
    deck.round = command.round;
    deck.chunk = command.chunk + 1;
    deck.dealt += command.cards.len() as i64;
    deck.remaining.clone_from(&command.remaining);
    for ((score, number), prize) in (first_score..).zip(first_number..).zip(&command.cards) {
        let unit = Unit {
            window: command.round.cast_signed(),
            fork,
            number,
        };
        state.changes.units_in.push(Placed {
            pool,
            prize: *prize,
            score,
            unit,
        });
        state.count(pool, *prize, 1);
    }
    let blanks = command.cards.iter().filter(|card| card.is_none()).count() as u64;
    state.take_off_stock(&granted)?;
    state.view.touched = true;
    state.changes.entries.push(Body::Dealt {
        pool,
        round: command.round,
        chunk: command.chunk,
        granted,
        blanks,
        fork,
    });
    Ok(Step::Done)
}

/// Cards of a prize that is not in the deck.
fn refuse_foreign(state: &State, command: &DealCommand, granted: &Quantities) -> Result<()> {
    let PoolKind::Deck(deck) = &state.view.campaign.pool(command.pool).kind else {
        return Ok(());
    };
    match granted.keys().find(|prize| !deck.cards.contains_key(prize)) {
        Some(prize) => Err(StoreError::corrupt(format!(
            "pool {} has no cards of prize {}",
            command.pool.0, prize.0
        ))),
        None => Ok(()),
    }
}

/// The index in its round of a chunk's first card.
fn first_number(deck: &DeckState, command: &DealCommand) -> Result<u64> {
    if command.round != deck.round {
        return Ok(0);
    }
    let left: u64 = deck.remaining.iter().map(|kind| kind.cards).sum();
    less(command.round_cards, left)
}
