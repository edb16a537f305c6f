//! The settler's reads. A store in memory keeps its whole ledger.

use async_trait::async_trait;

use super::{MemoryStore, ledger::PARTITION};
use crate::chance::Salt;
use crate::store::{Backlog, BacklogBound, Result, SettleStore, SettledUpTo, Unsettled};

#[async_trait]
impl SettleStore for MemoryStore {
    async fn unsettled(
        &self,
        partition: u32,
        settled: Option<&SettledUpTo>,
        limit: usize,
    ) -> Result<Unsettled> {
        if partition != PARTITION {
            return Ok(Unsettled::default());
        }
        let settled = settled.map_or(0, |settled| settled.sequence);
        let before = settled.saturating_sub(1);
        let core = self.turn().await?;
        let entries = core.ledger.after(before, limit + 1);
        let has_more = entries
            .last()
            .is_some_and(|last| last.id.sequence < core.ledger.last());
        Ok(Unsettled::of(String::new(), entries, settled, has_more))
    }

    async fn trim(&self, partition: u32, settled: &SettledUpTo) -> Result<bool> {
        let mut core = self.turn().await?;
        if partition != PARTITION || settled.sequence > core.ledger.last() {
            return Ok(false);
        }
        core.settled = core.settled.max(Some(settled.sequence));
        Ok(true)
    }

    async fn salt(&self, _partition: u32, campaign: &str, new: Salt) -> Result<Salt> {
        let mut core = self.turn().await?;
        Ok(*core.salts.entry(campaign.to_owned()).or_insert(new))
    }

    fn bound_backlog(&self, bound: BacklogBound) {
        if let Ok(mut core) = self.core() {
            core.bound = Some(bound);
        }
    }

    fn expect_settling(&self) {
        if let Ok(mut core) = self.core() {
            core.settles = true;
        }
    }

    async fn backlog(&self, partition: u32) -> Result<Backlog> {
        if partition != PARTITION {
            return Ok(Backlog::default());
        }
        Ok(self.turn().await?.backlog())
    }

    async fn head(&self, _partition: u32) -> Result<u64> {
        Ok(self.turn().await?.ledger.last())
    }

    fn partition_of(&self, _id: &str) -> u32 {
        PARTITION
    }
}
