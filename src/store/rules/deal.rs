//! Dealing the next chunks of a deck.

use crate::{
    model::{PoolKind, PoolNo, Quantities},
    store::{
        DealCommand, Result, Step, StoreError, Unit,
        entry::Body,
        fill::{CHUNK_CARDS_MAX, Chunk},
    },
};

use super::{
    book::{add, less},
    state::{DeckState, Placed, State},
};

/// Cards waiting in a deck below which more are asked for.
pub(in crate::store) const LOW_CARDS: u64 = 500;

/// Deals chunks, if the deck is where the command says, until it stops: at the latest at one of
/// which stock has not all units.
pub(in crate::store) fn deal(state: &mut State, command: &DealCommand) -> Result<Step> {
    let (ended, fork) = (state.view.has_ended(state.now), state.fork);
    let deck = state.deck(command.pool)?;
    if (deck.round, deck.chunk) != command.expected || fork != command.fork || ended {
        return Ok(Step::Stale);
    }
    let mut dealt = Step::Stale;
    for chunk in &command.chunks {
        if deal_chunk(state, command.pool, chunk)? == Step::Stale {
            break;
        }
        dealt = Step::Done;
        if state.deck_stop(command.pool).is_some() {
            break;
        }
    }
    Ok(dealt)
}

fn deal_chunk(state: &mut State, pool: PoolNo, chunk: &Chunk) -> Result<Step> {
    let fork = state.fork;
    if chunk.cards.is_empty() || chunk.cards.len() > CHUNK_CARDS_MAX {
        return Err(StoreError::corrupt(
            "a chunk of cards is empty or too large",
        ));
    }
    let mut granted = Quantities::new();
    for prize in chunk.cards.iter().flatten() {
        add(&mut granted, *prize, 1);
    }
    refuse_foreign(state, pool, &granted)?;
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
    let first_number = first_number(deck, chunk)?;
    let first_score = deck.dealt + 1;
    deck.short = None;
    deck.round = chunk.round;
    deck.chunk = chunk.chunk + 1;
    deck.dealt += chunk.cards.len() as i64;
    deck.remaining.clone_from(&chunk.remaining);
    for ((score, number), prize) in (first_score..).zip(first_number..).zip(&chunk.cards) {
        let unit = Unit {
            window: chunk.round.cast_signed(),
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
    let blanks = chunk.cards.iter().filter(|card| card.is_none()).count() as u64;
    state.take_off_stock(&granted)?;
    state.view.touched = true;
    state.changes.entries.push(Body::Dealt {
        pool,
        round: chunk.round,
        chunk: chunk.chunk,
        granted,
        blanks,
        fork,
    });
    Ok(Step::Done)
}

/// Cards of a prize that is not in the deck.
fn refuse_foreign(state: &State, pool: PoolNo, granted: &Quantities) -> Result<()> {
    let PoolKind::Deck(deck) = &state.view.campaign.pool(pool).kind else {
        return Ok(());
    };
    match granted.keys().find(|prize| !deck.cards.contains_key(prize)) {
        Some(prize) => Err(StoreError::corrupt(format!(
            "pool {} has no cards of prize {}",
            pool.0, prize.0
        ))),
        None => Ok(()),
    }
}

/// The index in its round of a chunk's first card.
fn first_number(deck: &DeckState, chunk: &Chunk) -> Result<u64> {
    if chunk.round != deck.round {
        return Ok(0);
    }
    let left: u64 = deck.remaining.iter().map(|kind| kind.cards).sum();
    less(chunk.round_cards, left)
}
