//! The settler's reads, and the removal of what is settled.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::{LedgerTables, SqliteStore, columns::PARTITION, job::Command, read, step::Step};
use crate::store::{Result, SettleStore, SettledUpTo, Unsettled, fill::CHUNK_UNITS_MAX};

#[async_trait]
impl SettleStore for SqliteStore {
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
        let entries = self
            .read(move |db| read::ledger(db, before, limit + 1))
            .await?;
        Ok(Unsettled::of(String::new(), entries, settled))
    }

    async fn trim(&self, partition: u32, settled: &SettledUpTo) -> Result<()> {
        if partition != PARTITION {
            return Ok(());
        }
        let settled = settled.sequence;
        while self.submit(TrimCommand { settled }).await? {}
        Ok(())
    }

    fn ledger_tables(&self) -> Option<LedgerTables> {
        Some(LedgerTables {
            inbox: Arc::clone(&self.inbox),
            readers: self.readers.clone(),
        })
    }

    async fn head(&self, _partition: u32) -> Result<u64> {
        self.read(read::head).await
    }

    fn partition_of(&self, _id: &str) -> u32 {
        PARTITION
    }
}

/// Removes a chunk of entries before the last settled one; true if there may be more.
///
/// Entries that answer retries stay: draws until their requests are forgotten, and operators' acts.
struct TrimCommand {
    settled: u64,
}

impl Command for TrimCommand {
    type Reply = bool;

    fn run(&self, step: &mut Step<'_>) -> Result<bool> {
        trim(step.db, self.settled)
    }
}

/// Removes a chunk of entries before the last settled one; true if there may be more.
pub(super) fn trim(db: &Connection, settled: u64) -> Result<bool> {
    let sql = "DELETE FROM ledger WHERE sequence IN (
                   SELECT sequence FROM ledger
                   WHERE sequence < min(?1, 1 + COALESCE((
                             SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'forgotten'
                         ), 0))
                     AND sequence NOT IN (SELECT sequence FROM operations)
                     AND EXISTS (SELECT 1 FROM ledger WHERE sequence = ?1)
                   ORDER BY sequence LIMIT ?2)";
    let mut statement = db.prepare_cached(sql)?;
    Ok(statement.execute(params![settled, CHUNK_UNITS_MAX])? == CHUNK_UNITS_MAX)
}
