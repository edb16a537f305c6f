//! Codes of prizes.

use async_trait::async_trait;

use super::MemoryStore;
use crate::{
    model::{CampaignId, PoolNo, PrizeNo},
    store::{CodeCounts, CodeStore, DeliveryState, Refusal, Result, SealedBlock, Unit},
};

#[async_trait]
impl CodeStore for MemoryStore {
    async fn code_counts(&self, campaign: &CampaignId, prize: PrizeNo) -> Result<CodeCounts> {
        let core = self.turn().await?;
        let campaign = core.campaign(campaign)?;
        let index = usize::from(prize.0);
        let stock = campaign.state.stock.get(index);
        let stock = stock.ok_or_else(|| Refusal::PrizeNotFound(format!("number {}", prize.0)))?;
        Ok(CodeCounts {
            imported: stock.given,
            next: stock.next_code(campaign.won[index]),
        })
    }

    async fn code_blocks(
        &self,
        campaign: &CampaignId,
        prize: PrizeNo,
        from: u64,
        limit: usize,
    ) -> Result<Vec<SealedBlock>> {
        let core = self.turn().await?;
        let blocks = &core.campaign(campaign)?.codes;
        let blocks = blocks.range((prize, from)..=(prize, u64::MAX)).take(limit);
        let blocks = blocks.map(|((_, index), bytes)| SealedBlock {
            index: *index,
            bytes: bytes.clone(),
        });
        Ok(blocks.collect())
    }

    async fn revoked(&self, campaign: &CampaignId, wins: &[(PoolNo, Unit)]) -> Result<Vec<bool>> {
        let core = self.turn().await?;
        let deliveries = &core.campaign(campaign)?.deliveries;
        let is_revoked = |win: &(PoolNo, Unit)| {
            let known = deliveries.get(win);
            known.is_some_and(|known| known.state == DeliveryState::Revoked)
        };
        Ok(wins.iter().map(is_revoked).collect())
    }
}
