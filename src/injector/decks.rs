//! Dealing decks, chunk by chunk, when draws need cards or soon will.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{Injector, turns::Following};
use crate::{
    chance,
    model::{CampaignId, Deck, PoolKind, PoolNo, deck::CardCount},
    store::{
        CampaignView, DealCommand, Result, Step, StoreError,
        fill::{
            CHUNK_CARDS_MAX, Chunk, DEAL_CARDS_MAX, DEAL_CHUNKS_MAX, DeckFilling, DeckStop,
            PoolFilling,
        },
    },
};

/// Cards that wait after a deck was dealt ahead. The store asks for more when fewer than 500 wait,
/// so a deck that was just dealt is not asked for again at once.
pub(super) const AHEAD_CARDS: u64 = 600;
/// While draws take more than [`AHEAD_CARDS`] in this time, what they take in it is dealt ahead.
const AHEAD: Duration = Duration::from_millis(100);
/// The most cards that are dealt ahead.
const AHEAD_CARDS_MAX: u64 = 10_000;
/// How long draws are watched to see how many cards they take.
const WATCHED: Duration = Duration::from_millis(20);
/// The most steps in which a deck is dealt ahead.
const STEPS_AHEAD_MAX: usize = 4;
/// The most steps that deal for draws that wait: a deck of a single card is dealt for each of them.
const STEPS_MAX: usize = 10_000;

impl Injector {
    /// Deals until `cards` wait in the deck, or it gives no more. `cards` gets the number of steps
    /// done so far.
    pub(super) async fn deal_for_draws(
        &self,
        id: &CampaignId,
        pool: PoolNo,
        cards: impl Fn(usize) -> u64,
    ) -> Result<()> {
        self.deal_until(id, pool, cards, STEPS_MAX).await.map(drop)
    }

    /// Beside the draws, deals until `cards` wait. One who follows the draws goes on for as long as
    /// they take cards fast, if the injector watches that: deals what they take in [`AHEAD`].
    pub(super) fn deal_ahead(
        self: &Arc<Self>,
        id: &CampaignId,
        pool: PoolNo,
        cards: u64,
        following: Option<Following>,
    ) {
        let (injector, id) = (Arc::clone(self), id.clone());
        tokio::spawn(async move {
            let turn = injector.turn(&id, pool);
            let mut cards = cards;
            loop {
                let dealt = {
                    let _turn = turn.lock.lock().await;
                    let dealt = injector
                        .deal_until(&id, pool, |_| cards, STEPS_AHEAD_MAX)
                        .await;
                    turn.filled();
                    dealt
                };
                // A failure shows in the draw that will need the cards.
                let Ok(available) = dealt else { return };
                if following.is_none() || !injector.watches_draws {
                    return;
                }
                let Ok(taken) = injector.cards_taken(&id, pool, available).await else {
                    return;
                };
                if taken < AHEAD_CARDS {
                    return;
                }
                cards = taken.min(AHEAD_CARDS_MAX);
            }
        });
    }

    /// About how many cards draws take in [`AHEAD`]. `available` cards waited a moment ago. If
    /// another service deals cards meanwhile, the result is too low by these.
    async fn cards_taken(&self, id: &CampaignId, pool: PoolNo, available: u64) -> Result<u64> {
        let begin = Instant::now();
        sleep(WATCHED).await;
        let (_, deck) = self.deck_filling(id, pool).await?;
        let taken = available.saturating_sub(deck.available) as f64;
        let share = AHEAD.as_secs_f64() / begin.elapsed().as_secs_f64();
        Ok((taken * share) as u64)
    }

    /// Deals in this number of steps at most. Returns the cards that wait.
    async fn deal_until(
        &self,
        id: &CampaignId,
        pool: PoolNo,
        cards: impl Fn(usize) -> u64,
        steps_max: usize,
    ) -> Result<u64> {
        let mut step = Step::Stale;
        let mut steps = 0;
        loop {
            let (view, deck) = self.deck_filling(id, pool).await?;
            if step == Step::Done {
                warn_of_stop(&view, pool, &deck);
            }
            let cards = cards(steps);
            let is_done = deck.available >= cards || deck.stopped.is_some();
            if is_done || steps == steps_max || view.has_ended(self.store.clock_hint()) {
                return Ok(deck.available);
            }
            let chunks = self.next_chunks(&view, pool, &deck, cards - deck.available);
            if chunks.is_empty() {
                return Ok(deck.available);
            }
            let command = DealCommand {
                campaign: view.campaign.id.clone(),
                pool,
                expected: (deck.round, deck.chunk),
                fork: deck.fork,
                chunks,
            };
            // Someone else may be faster: then nothing happens.
            step = self.store.deal(command).await?;
            steps += 1;
        }
    }

    async fn deck_filling(
        &self,
        id: &CampaignId,
        pool: PoolNo,
    ) -> Result<(CampaignView, DeckFilling)> {
        match self.pool_filling(id, pool).await? {
            (view, PoolFilling::Deck(deck)) => Ok((view, deck)),
            (_, PoolFilling::Schedule(_) | PoolFilling::Personal) => Err(StoreError::corrupt(
                format!("{id}: pool {} is no deck", pool.0),
            )),
        }
    }

    /// The next chunks, of this round and of those after it: as many as it takes to have `cards`
    /// cards, but no more than one step may deal, and none beyond the end of the deck.
    fn next_chunks(
        &self,
        view: &CampaignView,
        pool: PoolNo,
        deck: &DeckFilling,
        cards: u64,
    ) -> Vec<Chunk> {
        let definition = view.campaign.pool(pool);
        let PoolKind::Deck(composition) = &definition.kind else {
            return Vec::new();
        };
        let seed = self.seed(view).of_fork(deck.fork);
        let (mut round, mut chunk) = (deck.round, deck.chunk);
        let mut whole = round_cards(view, composition, round);
        let mut before = deck.remaining.clone();
        let (mut chunks, mut dealt) = (Vec::new(), 0);
        while chunks.len() < DEAL_CHUNKS_MAX && (dealt as u64) < cards {
            if before.is_empty() {
                (round, chunk) = (round + 1, 0);
                whole = round_cards(view, composition, round);
                before.clone_from(&whole);
            }
            let cards = chance::deal(
                &seed,
                &definition.id,
                round,
                chunk,
                &before,
                CHUNK_CARDS_MAX,
            );
            dealt += cards.len();
            if cards.is_empty() || dealt > DEAL_CARDS_MAX {
                break;
            }
            before = chance::take(&before, &cards);
            chunks.push(Chunk {
                round,
                chunk,
                round_cards: sum(&whole),
                cards,
                remaining: before.clone(),
            });
            chunk += 1;
        }
        chunks
    }
}

/// Warns if the deal that was just done has stopped the deck for want of stock. Only one of several
/// services did that deal, so each stop is logged once.
fn warn_of_stop(view: &CampaignView, pool: PoolNo, deck: &DeckFilling) {
    if deck.stopped != Some(DeckStop::OutOfStock) {
        return;
    }
    let campaign = &view.campaign;
    let (id, pool) = (&campaign.id, &campaign.pool(pool).id);
    let lacking = deck.lacking.iter();
    let lacking = lacking.map(|(prize, units)| format!("{units} {}", campaign.prize(*prize).id));
    let lacking = lacking.collect::<Vec<_>>().join(", ");
    let cards = deck.available;
    warn!(
        campaign = %id,
        %pool,
        %lacking,
        cards,
        "campaign {id}: the deck of pool {pool} stops after {cards} more cards: stock lacks \
         {lacking} for the next ones; raise it to go on",
    );
}

/// The cards of a round.
fn round_cards(view: &CampaignView, deck: &Deck, round: u64) -> Vec<CardCount> {
    if round == 1 {
        deck.first_round()
    } else {
        deck.later_round(|prize| view.campaign.prize(prize).grand)
    }
}

fn sum(cards: &[CardCount]) -> u64 {
    cards.iter().map(|kind| kind.cards).sum()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_documents_say_how_many_cards_are_dealt_ahead() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/campaign-file.md");
        let text = fs::read_to_string(file).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let fast = AHEAD_CARDS as f64 / AHEAD.as_secs_f64();
        // The last chunk may bring more cards than are wanted.
        let at_first = DEAL_CARDS_MAX + CHUNK_CARDS_MAX;
        let at_most = AHEAD_CARDS_MAX as usize + CHUNK_CARDS_MAX;
        for (what, cards) in [
            ("ahead of them, up to", at_first),
            ("take more than", fast.round() as usize),
            ("a tenth of a second, up to", at_most),
        ] {
            let said = format!("{what} {},{:03}", cards / 1000, cards % 1000);
            assert!(text.contains(&said), "{said}");
        }
    }
}
