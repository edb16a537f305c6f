//! Dealing the next chunk of a deck.

use super::{
    freeze::{count, take_off_stock},
    job::Command,
    state::{CampaignState, DeckState, PoolStateKind, add},
    step::Step,
    units::{self, Waiting},
};
use crate::{
    model::campaign::Quantities,
    store::{
        DealCommand, Result, Step as Outcome, StoreError,
        entry::{Body, Unit},
        fill::CHUNK_UNITS_MAX,
    },
};

impl Command for DealCommand {
    type Reply = Outcome;

    fn run(&self, step: &mut Step<'_>) -> Result<Outcome> {
        step.with(&self.campaign, |step, state| deal(self, step, state))
    }
}

fn deal(command: &DealCommand, step: &mut Step<'_>, state: &mut CampaignState) -> Result<Outcome> {
    let no = state.no;
    let pool = command.pool;
    let ended = state.view.has_ended(step.now);
    let mut granted = Quantities::new();
    for prize in command.cards.iter().flatten() {
        add(&mut granted, *prize, 1);
    }
    let in_stock = granted
        .iter()
        .all(|(prize, cards)| state.stock[usize::from(prize.0)].remaining >= *cards);
    let PoolStateKind::Deck(deck) = &mut state.pool(pool).kind else {
        return Err(StoreError::Corrupt(format!("pool {} is no deck", pool.0)));
    };
    if (deck.round, deck.chunk) != command.expected || ended {
        return Ok(Outcome::Stale);
    }
    if command.cards.is_empty() || command.cards.len() > CHUNK_UNITS_MAX {
        return Err(StoreError::Corrupt(
            "a chunk of cards is empty or too large".into(),
        ));
    }
    if !in_stock {
        deck.short = Some(granted);
        deck.save(step.db, no, pool)?;
        return Ok(Outcome::Done);
    }
    let first_number = command_round_base(deck, command);
    let first_score = deck.dealt + 1;
    deck.short = None;
    deck.round = command.round;
    deck.chunk = command.chunk + 1;
    deck.dealt += command.cards.len() as i64;
    deck.remaining.clone_from(&command.remaining);
    deck.save(step.db, no, pool)?;
    for queue in &mut state.pool(pool).queues {
        queue.delete_taken(step.db, no, pool)?;
        queue.reread();
    }
    for ((score, number), prize) in (first_score..).zip(first_number..).zip(&command.cards) {
        let unit = Unit {
            window: command.round as i64,
            number,
        };
        units::insert(step.db, no, pool, *prize, Waiting { score, unit })?;
    }
    take_off_stock(state, &granted);
    let blanks = command.cards.iter().filter(|card| card.is_none()).count() as u64;
    for (prize, cards) in &granted {
        count(state, pool, Some(*prize), *cards, 0)?;
    }
    if blanks > 0 {
        count(state, pool, None, blanks, 0)?;
    }
    state.touch();
    let body = Body::Dealt {
        pool,
        round: command.round,
        chunk: command.chunk,
        granted,
        blanks,
    };
    step.append(no, &body)?;
    Ok(Outcome::Done)
}

/// The place in its round of a chunk's first card.
fn command_round_base(deck: &DeckState, command: &DealCommand) -> u64 {
    if command.round != deck.round {
        return 0;
    }
    let left: u64 = deck.remaining.iter().map(|kind| kind.cards).sum();
    command.round_cards - left
}
