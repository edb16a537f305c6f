//! The settler's reads, and the removal of what is settled.

use std::sync::{PoisonError, atomic::Ordering};

use async_trait::async_trait;

use super::reads::read_item;
use crate::chance::Salt;
use crate::store::{
    Backlog, BacklogBound, Entry, Memory, Result, SettleStore, SettledUpTo, Unsettled,
    redis::{
        RedisStore,
        core::Core,
        format::{reply, scripts},
    },
};

/// Items of the ledger that one script reads; an item may contain a whole batch of draws.
const LEDGER_ITEMS: usize = 64;

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

    async fn trim(&self, partition: u32, settled: &SettledUpTo) -> Result<bool> {
        self.core.trim(partition, settled).await
    }

    async fn head(&self, partition: u32) -> Result<u64> {
        self.core.head(partition).await
    }

    fn partition_of(&self, id: &str) -> u32 {
        self.core.partition_of(id).number
    }

    async fn salt(&self, partition: u32, campaign: &str, new: Salt) -> Result<Salt> {
        self.core.salt_of(partition, campaign, new).await
    }

    fn bound_backlog(&self, bound: BacklogBound) {
        let text = format!("{} {}", bound.entries, bound.age.as_micros());
        let backlog = &self.core.backlog;
        *backlog.write().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    fn expect_settling(&self) {
        self.core.settles.store(true, Ordering::Relaxed);
    }

    fn memory(&self) -> Option<Memory> {
        self.core.memory.memory()
    }

    async fn backlog(&self, partition: u32) -> Result<Backlog> {
        self.core.backlog_of(partition).await
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
            let fork = settled.fork.as_str().into();
            self.witnesses.add(partition, fork, settled.sequence);
        }
        let settled = settled.map_or(0, |settled| settled.sequence);
        let (mut from, mut entries, mut fork) = (settled, Vec::<Entry>::new(), String::new());
        let has_more = loop {
            let all = [keys.partition.clone(), keys.ledger.clone()];
            let args = [from.to_string(), LEDGER_ITEMS.to_string()];
            let (_, mut parts) = self.ask_kept(keys, &scripts::UNSETTLED, all, args).await?;
            let under = reply::text(self.first(&mut parts)?)?;
            if !fork.is_empty() && under != fork {
                break true; // What follows is read next time, under its own fork.
            }
            fork = under;
            let items = reply::list(parts.next()?)?;
            let is_last = items.len() < LEDGER_ITEMS;
            for item in items {
                read_item(partition, item, &mut entries)?;
            }
            if is_last || entries.len() >= limit {
                break !is_last;
            }
            from = entries.last().map_or(from, |last| last.id.sequence + 1);
        };
        Ok(Unsettled::of(fork, entries, settled, has_more))
    }

    async fn trim(&self, partition: u32, settled: &SettledUpTo) -> Result<bool> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(true);
        };
        let all = [keys.partition.clone(), keys.ledger.clone()];
        let args = [settled.fork.clone(), settled.sequence.to_string()];
        // No confirmation is needed: what a failover brings back is removed again.
        let (_, mut parts) = self.ask(keys, &scripts::TRIM, all, args).await?;
        Ok(reply::letter(&parts.next()?) != Some(b'R'))
    }

    async fn salt_of(&self, partition: u32, campaign: &str, new: Salt) -> Result<Salt> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(new);
        };
        let all = [keys.partition.clone(), keys.salts.clone()];
        let args = [campaign.as_bytes(), &new.0];
        // What is derived from it must not be lost.
        let (_, mut parts) = self.ask_kept(keys, &scripts::SALT, all, args).await?;
        let salt = <[u8; 32]>::try_from(reply::bytes(parts.next()?)?);
        salt.map(Salt).map_err(|_| reply::unexpected("salt"))
    }

    async fn backlog_of(&self, partition: u32) -> Result<Backlog> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(Backlog::default());
        };
        let all = [keys.partition.clone(), keys.ledger.clone()];
        let args: [String; 0] = [];
        let (_, mut parts) = self.ask(keys, &scripts::BACKLOG, all, args).await?;
        let was_settled = reply::text(parts.next()?)? == "1";
        let entries = reply::number(parts.next()?)?;
        let oldest = reply::text(parts.next()?)?;
        let oldest = (!oldest.is_empty())
            .then(|| reply::moment(redis::Value::BulkString(oldest.into_bytes())));
        Ok(Backlog {
            has_sink: was_settled || self.settles.load(Ordering::Relaxed),
            entries,
            oldest: oldest.transpose()?,
        })
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
