//! Dealing decks, chunk by chunk, when a draw needs cards or soon will.

use tracing::warn;

use super::Injector;
use crate::{
    chance,
    model::{CampaignId, Deck, PoolKind, PoolNo, deck::CardCount},
    store::{
        CampaignView, DealCommand, Result, Step, StoreError,
        fill::{CHUNK_CARDS_MAX, DeckFilling, DeckStop, PoolFilling},
    },
};

/// Cards that wait after a deck was dealt ahead: more than those from which on that is asked for.
const AHEAD_CARDS: u64 = 600;
/// Chunks dealt ahead at once: of a small deck each is a whole round.
const DEALS_AHEAD_MAX: usize = 4;
/// How often a chunk may be dealt for one draw: a deck of a single card is dealt for each of them.
const DEALS_MAX: usize = 10_000;

impl Injector {
    /// Deals until `cards` wait in the deck, or it gives no more.
    pub(super) async fn deal_for_draw(
        &self,
        id: &CampaignId,
        pool: PoolNo,
        cards: u64,
    ) -> Result<()> {
        self.deal_until(id, pool, cards, DEALS_MAX).await
    }

    /// Deals what the next draws will need.
    pub(super) async fn deal_next_draws(&self, id: &CampaignId, pool: PoolNo) -> Result<()> {
        self.deal_until(id, pool, AHEAD_CARDS, DEALS_AHEAD_MAX)
            .await
    }

    async fn deal_until(
        &self,
        id: &CampaignId,
        pool: PoolNo,
        cards: u64,
        deals_max: usize,
    ) -> Result<()> {
        let mut step = Step::Stale;
        for deals in 0..=deals_max {
            let (view, deck) = self.deck_filling(id, pool).await?;
            if step == Step::Done {
                warn_of_stop(&view, pool, &deck);
            }
            let is_done = deck.available >= cards || deck.stopped.is_some();
            if is_done || deals == deals_max || view.has_ended(self.store.clock_hint()) {
                return Ok(());
            }
            step = self.deal_next(&view, pool, &deck).await?;
        }
        Ok(())
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

    /// Deals the next chunk of the round, or the first of the next round. Someone else may be
    /// faster: then nothing happens.
    async fn deal_next(
        &self,
        view: &CampaignView,
        pool: PoolNo,
        deck: &DeckFilling,
    ) -> Result<Step> {
        let definition = view.campaign.pool(pool);
        let PoolKind::Deck(composition) = &definition.kind else {
            return Ok(Step::Stale);
        };
        let is_new_round = deck.remaining.is_empty();
        let round = if is_new_round {
            deck.round + 1
        } else {
            deck.round
        };
        let chunk = if is_new_round { 0 } else { deck.chunk };
        let whole = round_cards(view, composition, round);
        let before = if is_new_round {
            &whole
        } else {
            &deck.remaining
        };
        let cards = chance::deal(
            &self.seed(view).of_fork(deck.fork),
            &definition.id,
            round,
            chunk,
            before,
            CHUNK_CARDS_MAX,
        );
        if cards.is_empty() {
            return Ok(Step::Stale);
        }
        let remaining = chance::take(before, &cards);
        let command = DealCommand {
            campaign: view.campaign.id.clone(),
            pool,
            expected: (deck.round, deck.chunk),
            fork: deck.fork,
            round,
            chunk,
            round_cards: sum(&whole),
            cards,
            remaining,
        };
        self.store.deal(command).await
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
