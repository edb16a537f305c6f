//! A draw that never guesses past what is filled: draw, fill what it needs, draw again.

use super::Injector;
use crate::store::{
    DrawAnswer, DrawCommand, Drawn, Executed, Need, Result, StoreError, fill::PoolFilling,
};

/// How often a draw may find a pool empty that was filled for it (others draw too) before it is given up.
const FILLS_MAX: usize = 1000;

impl Injector {
    /// Draws; fills the pools that the draw needs, and draws again, until it is done or refused.
    pub async fn draw(self: &std::sync::Arc<Self>, command: DrawCommand) -> Result<DrawAnswer> {
        for _ in 0..FILLS_MAX {
            match self.store.draw(command.clone()).await? {
                Drawn::Done(answer) => {
                    if !answer.running_low.is_empty() {
                        self.deal_ahead(&command, &answer);
                    }
                    return Ok(answer);
                }
                Drawn::NeedFill(needs) => {
                    for need in needs {
                        self.fill_need(&command, need).await?;
                    }
                }
            }
        }
        Err(StoreError::Unavailable {
            executed: Executed::No,
            detail: "the pools are drawn faster than they can be filled".into(),
        })
    }

    async fn fill_need(&self, command: &DrawCommand, need: Need) -> Result<()> {
        let id = &command.campaign;
        let lock = self.fill_lock(id, need.pool);
        let _turn = lock.lock().await;
        if need.cards == 0 {
            return self.settle_schedule(id, need.pool).await;
        }
        self.deal_until(id, need.pool, need.cards).await
    }

    /// Deals the next chunk of decks that run low, beside the draws; one task a deck at a time.
    fn deal_ahead(self: &std::sync::Arc<Self>, command: &DrawCommand, answer: &DrawAnswer) {
        for &pool in &answer.running_low {
            let lock = self.fill_lock(&command.campaign, pool);
            let Ok(turn) = lock.try_lock_owned() else {
                continue;
            };
            let injector = std::sync::Arc::clone(self);
            let id = command.campaign.clone();
            tokio::spawn(async move {
                // A failure shows in the draw that will need the cards.
                let _ = injector.deal_one(&id, pool).await;
                drop(turn);
            });
        }
    }

    /// The state of a pool.
    pub(super) async fn pool_filling(
        &self,
        id: &crate::model::CampaignId,
        pool: crate::model::PoolNo,
    ) -> Result<(crate::store::CampaignView, PoolFilling)> {
        let mut filling = self.store.filling(id).await?;
        let place = usize::from(pool.0);
        if place >= filling.pools.len() {
            return Err(StoreError::Corrupt(format!("{id} has no pool {place}")));
        }
        Ok((filling.view, filling.pools.swap_remove(place)))
    }
}
