//! The settler's reads. A store in memory keeps its whole ledger.

use async_trait::async_trait;

use super::{MemoryStore, ledger::PARTITION};
use crate::store::{Result, SettleStore, SettledUpTo, Unsettled};

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
        let entries = self.turn().await?.ledger.after(before, limit + 1);
        Ok(Unsettled::of(String::new(), entries, settled))
    }

    async fn trim(&self, _partition: u32, _settled: &SettledUpTo) -> Result<()> {
        Ok(())
    }

    async fn head(&self, _partition: u32) -> Result<u64> {
        Ok(self.turn().await?.ledger.head())
    }

    fn partition_of(&self, _id: &str) -> u32 {
        PARTITION
    }
}
