//! The settler's reads, and the removal of what is settled.

use async_trait::async_trait;

use super::reads::{LEDGER_ITEMS, read_item};
use crate::store::{
    Entry, Result, SettleStore, SettledUpTo, Unsettled,
    redis::{
        RedisStore,
        core::Core,
        format::{reply, scripts},
    },
};

#[async_trait]
impl SettleStore for RedisStore {
    async fn unsettled(
        &self,
        partition: u32,
        settled: Option<&SettledUpTo>,
        limit: usize,
    ) -> Result<Unsettled> {
        self.core.unsettled(partition, settled, limit).await
    }

    async fn trim(&self, partition: u32, settled: &SettledUpTo) -> Result<()> {
        self.core.trim(partition, settled).await
    }

    async fn head(&self, partition: u32) -> Result<u64> {
        self.core.head(partition).await
    }

    fn partition_of(&self, id: &str) -> u32 {
        self.core.partition_of(id).number
    }
}

impl Core {
    /// Reads whole items. So the last settled entry is always the last one of its item, and the id
    /// of that item is its number.
    async fn unsettled(
        &self,
        partition: u32,
        settled: Option<&SettledUpTo>,
        limit: usize,
    ) -> Result<Unsettled> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(Unsettled::default());
        };
        if let Some(settled) = settled {
            self.witnesses
                .add(partition, &settled.fork, settled.sequence);
        }
        let settled = settled.map_or(0, |settled| settled.sequence);
        let (mut from, mut entries, mut fork) = (settled, Vec::<Entry>::new(), String::new());
        loop {
            let all = [keys.partition.clone(), keys.ledger.clone()];
            let args = [from.to_string(), LEDGER_ITEMS.to_string()];
            let (_, mut parts) = self.ask_kept(keys, &scripts::UNSETTLED, all, args).await?;
            let under = reply::text(self.first(&mut parts)?)?;
            if !fork.is_empty() && under != fork {
                break; // What follows is read next time, under its own fork.
            }
            fork = under;
            let items = reply::list(parts.next()?)?;
            let is_last = items.len() < LEDGER_ITEMS;
            for item in items {
                read_item(partition, item, &mut entries)?;
            }
            if is_last || entries.len() >= limit {
                break;
            }
            from = entries.last().map_or(from, |last| last.id.sequence + 1);
        }
        Ok(Unsettled::of(fork, entries, settled))
    }

    async fn trim(&self, partition: u32, settled: &SettledUpTo) -> Result<()> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(());
        };
        let all = [keys.partition.clone(), keys.ledger.clone()];
        let args = [settled.fork.clone(), settled.sequence.to_string()];
        // No confirmation is needed: what a failover brings back is removed again.
        self.ask(keys, &scripts::TRIM, all, args).await.map(drop)
    }

    async fn head(&self, partition: u32) -> Result<u64> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(0);
        };
        let key = [keys.partition.clone()];
        let (_, mut parts) = self.ask(keys, &scripts::HEAD, key, [""; 0]).await?;
        reply::number(self.first(&mut parts)?)
    }
}
