//! Draws: draw, fill the pools that the draw needs, draw again. So a draw never decides past the
//! moment up to which its pools are filled.

use std::sync::Arc;

use super::{
    Injector,
    decks::AHEAD_CARDS,
    turns::{Following, Waiter},
};
use crate::model::{CampaignId, PoolKind, PoolNo};
use crate::store::{
    DrawAnswer, DrawCommand, Drawn, Executed, Need, Result, StoreError,
    fill::{DEAL_CARDS_MAX, PoolFilling},
};

/// How often a draw may find a pool empty that was filled for it (others draw too) before it is
/// given up.
const FILLS_MAX: usize = 1000;
/// Draws that wait for a deck, from which number on it is dealt ahead.
const MANY_DRAWS: usize = 16;

impl Injector {
    /// Draws; fills the pools that the draw needs, and draws again, until it is done or refused.
    pub fn draw(
        self: &Arc<Self>,
        mut command: DrawCommand,
    ) -> impl Future<Output = Result<DrawAnswer>> + Send {
        self.chances.add(&mut command, &*self.store);
        self.draw_filling(Arc::new(command))
    }

    async fn draw_filling(self: &Arc<Self>, mut command: Arc<DrawCommand>) -> Result<DrawAnswer> {
        let mut last = None;
        for _ in 0..FILLS_MAX {
            match self.store.draw(Arc::clone(&command)).await? {
                Drawn::Done(answer) => {
                    if !answer.running_low.is_empty() {
                        self.go_ahead(&command.campaign, &answer);
                    }
                    return Ok(answer);
                }
                // Boxed, as it is rare: else every draw's future has room for it.
                Drawn::NeedChance => {
                    Box::pin(self.add_chance(Arc::make_mut(&mut command))).await?;
                }
                Drawn::NeedFill(needs) => {
                    for need in needs {
                        // Boxed, as it is rare: else every draw's future has room for it.
                        Box::pin(self.fill_need(&command, need)).await?;
                        last = Some(need.pool);
                    }
                }
            }
        }
        Err(Box::pin(self.unfilled(&command.campaign, last)).await)
    }

    /// What is wrong if a pool was filled for a draw again and again, and never far enough.
    async fn unfilled(self: &Arc<Self>, id: &CampaignId, pool: Option<PoolNo>) -> StoreError {
        let mut detail = "the pools are drawn faster than they can be filled".to_owned();
        if let Some(pool) = pool {
            match self.is_filled_further(id, pool).await {
                Ok(true) => {}
                Ok(false) => {
                    detail = format!(
                        "campaign {id}: a draw needs more of pool {} than {FILLS_MAX} fills put \
                         there, and a further one adds nothing",
                        pool.0
                    );
                }
                Err(error) => return error.with_executed(Executed::No),
            }
        }
        StoreError::Unavailable {
            executed: Executed::No,
            detail,
        }
    }

    /// Whether a fill, or others meanwhile, bring a pool further than it is.
    async fn is_filled_further(self: &Arc<Self>, id: &CampaignId, pool: PoolNo) -> Result<bool> {
        let (_, before) = self.pool_filling(id, pool).await?;
        match &before {
            PoolFilling::Schedule(_) => self.fill_due(id, pool, 1).await?,
            PoolFilling::Deck(deck) => {
                let cards = deck.available + 1;
                self.deal_for_draws(id, pool, |_| cards).await?;
            }
            PoolFilling::Personal => {}
        }
        let (_, after) = self.pool_filling(id, pool).await?;
        Ok(before != after)
    }

    async fn fill_need(self: &Arc<Self>, command: &DrawCommand, need: Need) -> Result<()> {
        let id = &command.campaign;
        let turn = self.turn(id, need.pool);
        let waiter = Waiter::at(&turn);
        let Some(_turn) = turn.take().await else {
            // Someone filled it while this draw waited: drawing again shows whether that was
            // enough.
            return Ok(());
        };
        let filled = if need.cards == 0 {
            self.fill_due(id, need.pool, waiter.all()).await
        } else {
            // At first as if all who wait needed as many, though no more than a step deals. Then
            // only for this draw: others may take the cards again and again.
            let of_all = || {
                let cards = need.cards.saturating_mul(waiter.all() as u64);
                cards.min(DEAL_CARDS_MAX as u64).max(need.cards)
            };
            let cards = |steps| if steps == 0 { of_all() } else { need.cards };
            let dealt = self.deal_for_draws(id, need.pool, cards).await;
            if waiter.all() >= MANY_DRAWS
                && let Some(following) = Following::begin(Arc::clone(&turn))
            {
                self.deal_ahead(id, need.pool, of_all(), Some(following));
            }
            dealt
        };
        turn.filled();
        filled
    }

    /// Fills a schedule as far as this number of draws needs it now; the rest follows in the
    /// background.
    async fn fill_due(
        self: &Arc<Self>,
        id: &CampaignId,
        pool: PoolNo,
        draws_waiting: usize,
    ) -> Result<()> {
        let in_use = self
            .settle_schedule_until_due(id, pool, draws_waiting)
            .await?;
        if let Some(follower) = self.follow(id, pool) {
            tokio::spawn(async move {
                follower.await;
                // Those who fill meanwhile found the releases here.
                drop(in_use);
            });
        }
        Ok(())
    }

    /// What fills the rest of a schedule beside the draws; none while someone else does.
    fn follow(
        self: &Arc<Self>,
        id: &CampaignId,
        pool: PoolNo,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let following = Following::begin(self.turn(id, pool))?;
        let (injector, id) = (Arc::clone(self), id.clone());
        Some(async move {
            let _following = following;
            // A failure shows in the draw that will need the units, or in the next tick.
            let _ = injector.settle_schedule(&id, pool).await;
        })
    }

    /// Beside the draws, deals decks that run low, and fills the hour that has begun of schedules
    /// of which a draw took what an earlier hour had left.
    fn go_ahead(self: &Arc<Self>, id: &CampaignId, answer: &DrawAnswer) {
        for &pool in &answer.running_low {
            if matches!(answer.campaign.pool(pool).kind, PoolKind::Deck(_)) {
                let following = Following::begin(self.turn(id, pool));
                self.deal_ahead(id, pool, AHEAD_CARDS, following);
            } else if let Some(follower) = self.follow(id, pool) {
                tokio::spawn(follower);
            }
        }
    }

    /// The state of a pool.
    pub(super) async fn pool_filling(
        &self,
        id: &CampaignId,
        pool: PoolNo,
    ) -> Result<(crate::store::CampaignView, PoolFilling)> {
        let mut filling = self.store.filling(id).await?;
        let index = usize::from(pool.0);
        if index >= filling.pools.len() {
            return Err(StoreError::corrupt(format!("{id} has no pool {index}")));
        }
        Ok((filling.view, filling.pools.swap_remove(index)))
    }
}
