//! The ledger in tables of the embedded store's own file (`src/store/sqlite/schema_ledger.sql`).
//!
//! A batch is one job of the store's writer: it shares the transaction and the fsync of the draws
//! that wait beside it, and lets the store give up entries in the same transaction. So batches are
//! small, and a draw waits no longer than for a chunk of an injection.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

mod removed;
mod write;

use super::{Batch, Cursor, Sink, SinkError};
use crate::{
    chance::Salt,
    ledger::{
        chain::Chain,
        contradiction::Contradiction,
        removed::{RemovedRow, VersionRow},
    },
    model::Moment,
    store::{Result, SettledUpTo, sqlite::LedgerTables},
};

/// Entries of a batch. It is small, since draws wait for it.
const BATCH_ENTRIES: usize = 50;
/// Entries of a batch while settling is behind: a larger batch takes less time for an entry.
const BATCH_ENTRIES_BEHIND: usize = 200;
/// Settling is behind once this many batches in a row were full.
const FULL_BATCHES: usize = 100;

/// The tables of an embedded store.
pub struct SqliteSink {
    tables: LedgerTables,
    /// How many batches in a row were full.
    full_batches: usize,
}

impl SqliteSink {
    /// The sink in these tables.
    pub fn new(tables: LedgerTables) -> Self {
        Self {
            tables,
            full_batches: 0,
        }
    }
}

#[async_trait]
impl Sink for SqliteSink {
    fn batch_entries(&self) -> usize {
        match self.full_batches < FULL_BATCHES {
            true => BATCH_ENTRIES,
            false => BATCH_ENTRIES_BEHIND,
        }
    }

    fn trims(&self) -> bool {
        true
    }

    /// No other process has the file open.
    async fn is_leader(&mut self) -> std::result::Result<bool, SinkError> {
        Ok(true)
    }

    async fn cursors(&mut self) -> std::result::Result<BTreeMap<u32, Cursor>, SinkError> {
        Ok(self.tables.read(read_cursors).await?)
    }

    async fn write(
        &mut self,
        before: Option<&Cursor>,
        batch: &Arc<Batch>,
    ) -> std::result::Result<Option<Cursor>, SinkError> {
        let Some(after) = batch.cursor(before) else {
            return Ok(before.cloned());
        };
        self.full_batches = match batch.entries.len() < self.batch_entries() {
            true => 0,
            false => self.full_batches + 1,
        };
        let settled = after.up_to.sequence;
        // The writer may run a job again, on its own thread.
        let (before, after) = (before.cloned(), Arc::new(after));
        let batch = Arc::new(write::Indexed::new(Arc::clone(batch)));
        let job = move |db: &Connection, now: Moment| {
            let is_written = write::write(db, now, before.as_ref(), &after, &batch)?;
            Ok(is_written.then(|| Cursor::clone(&after)))
        };
        Ok(self.tables.settle(settled, job).await?)
    }

    async fn salt(
        &mut self,
        partition: u32,
        campaign: &str,
    ) -> std::result::Result<Option<Salt>, SinkError> {
        let campaign = campaign.to_owned();
        let job = move |db: &Connection| {
            let sql = "SELECT salt FROM salts WHERE partition = ?1 AND campaign = ?2";
            let mut statement = db.prepare_cached(sql)?;
            let found = statement.query_row(params![partition, campaign], |row| row.get(0));
            Ok(found.optional()?.map(Salt))
        };
        Ok(self.tables.read(job).await?)
    }

    async fn last_number(&mut self, campaign: &str) -> std::result::Result<Option<u64>, SinkError> {
        let campaign = campaign.to_owned();
        let job = move |db: &Connection| removed::last_number(db, &campaign);
        Ok(self.tables.read(job).await?)
    }

    async fn keep_removed(
        &mut self,
        campaign: &RemovedRow,
        versions: &[VersionRow],
    ) -> std::result::Result<(), SinkError> {
        let (row, versions) = (campaign.clone(), versions.to_vec());
        let job = move |db: &Connection, _: Moment| removed::keep(db, &row, &versions);
        Ok(self.tables.write(job).await?)
    }

    async fn quarantine(
        &mut self,
        contradiction: &Contradiction,
    ) -> std::result::Result<(), SinkError> {
        let found = contradiction.clone();
        let job = move |db: &Connection, now: Moment| write::quarantine(db, now, &found);
        Ok(self.tables.write(job).await?)
    }

    async fn end_quarantine(&mut self, partition: u32) -> std::result::Result<(), SinkError> {
        let job = move |db: &Connection, now: Moment| write::end_quarantine(db, now, partition);
        Ok(self.tables.write(job).await?)
    }
}

/// How far each partition is settled.
pub(in crate::ledger) fn read_cursors(db: &Connection) -> Result<BTreeMap<u32, Cursor>> {
    let sql = "SELECT partition, next_sequence, fork, at, format, digest, chain, chain_first,
                   chain_last
               FROM cursors";
    let mut statement = db.prepare_cached(sql)?;
    let cursors = statement.query_map([], read_cursor)?;
    let cursors = cursors.map(|cursor| Ok(cursor.map(|cursor| (cursor.partition, cursor))?));
    cursors.collect()
}

fn read_cursor(row: &Row<'_>) -> rusqlite::Result<Cursor> {
    Ok(Cursor {
        partition: row.get(0)?,
        up_to: SettledUpTo {
            sequence: row.get::<_, u64>(1)? - 1,
            fork: row.get(2)?,
        },
        at: Moment::from_micros(row.get(3)?),
        format: row.get(4)?,
        digest: row.get(5)?,
        chain: read_chain(row)?,
    })
}

fn read_chain(row: &Row<'_>) -> rusqlite::Result<Option<Chain>> {
    let Some(digest) = row.get(6)? else {
        return Ok(None);
    };
    let (first, last) = (row.get(7)?, row.get(8)?);
    Ok(Some(Chain {
        first,
        last,
        digest,
    }))
}
