//! The settler's reads, and the removal of what is settled.

use std::sync::{PoisonError, atomic::Ordering};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    LedgerTables, SqliteStore,
    columns::{PARTITION, entry, moment, scalar},
    job::Command,
    jumps::Jumps,
    read,
    step::{SettledEntry, Step, oldest_after},
};
use crate::chance::Salt;
use crate::store::{
    Backlog, BacklogBound, Result, SettleStore, SettledUpTo, Unsettled, fill::CHUNK_UNITS_MAX,
};

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
        // The settled entry is read by itself. It may be so large that a page ends with it.
        let read = move |db: &Connection| {
            let mut entries = Vec::from_iter(entry(db, settled)?);
            entries.extend(read::ledger(db, settled, limit)?);
            Ok((entries, read::head(db)?))
        };
        let (entries, head) = self.read(read).await?;
        let has_more = entries.last().is_some_and(|last| last.id.sequence < head);
        Ok(Unsettled::of(String::new(), entries, settled, has_more))
    }

    async fn trim(&self, partition: u32, settled: &SettledUpTo) -> Result<bool> {
        if partition != PARTITION {
            return Ok(true);
        }
        let settled = settled.sequence;
        loop {
            match self.submit(TrimCommand { settled }).await? {
                Trimmed::Partly => {}
                trimmed => return Ok(trimmed == Trimmed::Wholly),
            }
        }
    }

    async fn salt(&self, _partition: u32, campaign: &str, new: Salt) -> Result<Salt> {
        let campaign = campaign.to_owned();
        self.submit(SaltCommand { campaign, new }).await
    }

    fn bound_backlog(&self, bound: BacklogBound) {
        *self.bound.write().unwrap_or_else(PoisonError::into_inner) = Some(bound);
    }

    fn expect_settling(&self) {
        self.settles.store(true, Ordering::Relaxed);
    }

    async fn backlog(&self, partition: u32) -> Result<Backlog> {
        if partition != PARTITION {
            return Ok(Backlog::default());
        }
        let mut backlog = self.read(backlog).await?;
        backlog.has_sink |= self.settles.load(Ordering::Relaxed);
        Ok(backlog)
    }

    fn ledger_tables(&self) -> Option<LedgerTables> {
        Some(self.tables.clone())
    }

    async fn head(&self, _partition: u32) -> Result<u64> {
        self.read(read::head).await
    }

    fn partition_of(&self, _id: &str) -> u32 {
        PARTITION
    }
}

fn backlog(db: &Connection) -> Result<Backlog> {
    let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'settled'";
    let settled: Option<u64> = db
        .prepare_cached(sql)?
        .query_row([], |row| row.get(0))
        .optional()?;
    let last: u64 = scalar(db, "SELECT COALESCE(MAX(sequence), 0) FROM ledger", [])?;
    Ok(Backlog {
        has_sink: settled.is_some(),
        entries: Jumps::read(db)?.entries(settled.unwrap_or(0), last),
        oldest: oldest_after(db, settled.unwrap_or(0))?,
    })
}

/// How much was given up of what is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trimmed {
    /// All that nothing needs.
    Wholly,
    /// A chunk; there may be more.
    Partly,
    /// Nothing: the last settled entry is not there.
    Refused,
}

/// Reads the salt of a campaign, or keeps a new one. The table is also that of the settled ledger.
struct SaltCommand {
    campaign: String,
    new: Salt,
}

impl Command for SaltCommand {
    type Reply = Salt;

    fn run(&self, step: &mut Step<'_>) -> Result<Salt> {
        let sql = "INSERT OR IGNORE INTO salts (partition, campaign, salt) VALUES (?1, ?2, ?3)";
        step.db
            .prepare_cached(sql)?
            .execute(params![PARTITION, self.campaign, self.new.0])?;
        let sql = "SELECT salt FROM salts WHERE partition = ?1 AND campaign = ?2";
        let salt = scalar(step.db, sql, params![PARTITION, self.campaign])?;
        Ok(Salt(salt))
    }
}

/// Removes a chunk of entries before the last settled one.
///
/// Entries that answer retries stay: draws until their requests are forgotten, and operators' acts.
struct TrimCommand {
    settled: u64,
}

impl Command for TrimCommand {
    type Reply = Trimmed;

    fn run(&self, step: &mut Step<'_>) -> Result<Trimmed> {
        trim(step, self.settled)
    }
}

/// Notes how far the ledger is settled, and looks at a chunk of entries before that: those that
/// nothing needs are removed.
pub(super) fn trim(step: &mut Step<'_>, settled: u64) -> Result<Trimmed> {
    let Some(entry) = entry_at(step.db, settled)? else {
        return Ok(Trimmed::Refused);
    };
    if step
        .core
        .settled
        .is_none_or(|before| before.sequence < settled)
    {
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('settled', ?1)";
        step.db
            .prepare_cached(sql)?
            .execute([settled.to_string()])?;
        step.core.settled = Some(entry);
    }
    let sql = "SELECT min(?1, 1 + COALESCE((
                   SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'forgotten'
               ), 0))";
    let end: u64 = scalar(step.db, sql, [settled])?;
    let from = step.core.trimmed;
    let sql = "SELECT sequence FROM ledger WHERE sequence >= ?1 AND sequence < ?2
               ORDER BY sequence LIMIT 1 OFFSET ?3";
    let next = step
        .db
        .prepare_cached(sql)?
        .query_row(params![from, end, CHUNK_UNITS_MAX], |row| {
            row.get::<_, u64>(0)
        })
        .optional()?;
    let to = next.unwrap_or(end);
    let sql = "DELETE FROM ledger WHERE sequence >= ?1 AND sequence < ?2 AND NOT EXISTS (
                   SELECT 1 FROM operations WHERE operations.sequence = ledger.sequence)";
    step.db.prepare_cached(sql)?.execute(params![from, to])?;
    step.core.trimmed = to.max(from);
    Ok(match next {
        Some(_) => Trimmed::Partly,
        None => Trimmed::Wholly,
    })
}

fn entry_at(db: &Connection, sequence: u64) -> Result<Option<SettledEntry>> {
    let mut statement = db.prepare_cached("SELECT at FROM ledger WHERE sequence = ?1")?;
    let at = statement.query_row([sequence], |row| moment(row, 0));
    Ok(at.optional()?.map(|at| SettledEntry { sequence, at }))
}
