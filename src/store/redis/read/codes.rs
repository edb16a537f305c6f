//! Codes of prizes.

use async_trait::async_trait;

use crate::store::redis::{
    RedisStore,
    format::{
        keys::{GROUP_BLOCKS, group_of},
        reply,
    },
    step::{campaign::from_json, load::delivery_field},
};
use crate::{
    model::{CampaignId, PoolNo, PrizeNo},
    store::{
        CodeCounts, CodeStore, Delivery, DeliveryState, Refusal, Result, SealedBlock, StoreError,
        Unit, rules::Stock,
    },
};

#[async_trait]
impl CodeStore for RedisStore {
    async fn code_counts(&self, campaign: &CampaignId, prize: PrizeNo) -> Result<CodeCounts> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.core.partition(campaign).campaign(campaign).campaign);
        command.arg(&["stock".into(), format!("won:{}", prize.0)]);
        let mut found = reply::list(self.core.ask_command(&command).await?)?.into_iter();
        let (Some(stock), Some(won)) = (found.next(), found.next()) else {
            return Err(reply::unexpected("stock"));
        };
        let stock = reply::maybe_bytes(stock)?.ok_or(Refusal::CampaignNotFound)?;
        let stock: Vec<Stock> = from_json(&stock)?;
        let stock = stock.get(usize::from(prize.0));
        let stock = stock.ok_or_else(|| Refusal::PrizeNotFound(format!("number {}", prize.0)))?;
        let won = match won {
            redis::Value::Nil => 0,
            won => reply::number(won)?,
        };
        Ok(CodeCounts {
            imported: stock.given,
            next: stock.next_code(won),
        })
    }

    async fn code_blocks(
        &self,
        campaign: &CampaignId,
        prize: PrizeNo,
        from: u64,
        limit: usize,
    ) -> Result<Vec<SealedBlock>> {
        let keys = self.core.partition(campaign).campaign(campaign);
        let end = from.saturating_add(limit as u64);
        let mut blocks = Vec::new();
        let mut next = from;
        while next < end {
            let group = group_of(next);
            let indexes: Vec<u64> = (next..end.min((group + 1) * GROUP_BLOCKS)).collect();
            let mut command = redis::cmd("HMGET");
            command.arg(keys.codes(prize, group)).arg(&indexes);
            let found = reply::list(self.core.ask_command(&command).await?)?;
            next += indexes.len() as u64;
            for (index, bytes) in indexes.into_iter().zip(found) {
                match reply::maybe_bytes(bytes)? {
                    Some(bytes) => blocks.push(SealedBlock { index, bytes }),
                    None => return Ok(blocks),
                }
            }
        }
        Ok(blocks)
    }

    async fn revoked(&self, campaign: &CampaignId, wins: &[(PoolNo, Unit)]) -> Result<Vec<bool>> {
        let fields: Vec<_> = wins
            .iter()
            .map(|(pool, unit)| delivery_field(*pool, *unit))
            .collect();
        let mut command = redis::cmd("HMGET");
        command
            .arg(self.core.partition(campaign).campaign(campaign).deliveries)
            .arg(&fields);
        let found = reply::list(self.core.ask_command(&command).await?)?;
        let is_revoked = |record: redis::Value| -> Result<bool> {
            let Some(record) = reply::maybe_bytes(record)? else {
                return Ok(false);
            };
            let known: Delivery = from_json(&record)?;
            Ok(known.state == DeliveryState::Revoked)
        };
        let revoked: Vec<bool> = found.into_iter().map(is_revoked).collect::<Result<_>>()?;
        if revoked.len() != wins.len() {
            return Err(StoreError::corrupt(
                "a reply has other wins than were asked for",
            ));
        }
        Ok(revoked)
    }
}
