//! An audit's view of the ledger in an embedded store's file, beside the service that has it open.

use std::{collections::BTreeMap, path::Path};

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, params};

use super::{Source, Spans, StoredRow, add_span, last_partition};
use crate::{
    ledger::{
        audit::Orphans,
        read::{sql::REMOVED_COLUMNS, sqlite::removed},
        removed::RemovedRow,
        sink::{Cursor, SinkError, sqlite::read_cursors},
        wins::Win,
    },
    model::Moment,
    store::{
        LedgerId, StoreError,
        sqlite::{DATABASE_FILE, is_up_to_date, needs_later_version},
    },
};

/// A connection that only reads.
pub struct SqliteSource {
    db: Connection,
}

impl SqliteSource {
    /// Opens the file in the directory of an embedded store's data.
    ///
    /// # Errors
    /// There is no such file, it is no such store, or it is of another version.
    pub fn open(directory: &Path) -> Result<Self, SinkError> {
        let file = directory.join(DATABASE_FILE);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || -> rusqlite::Result<Result<Connection, SinkError>> {
            let db = Connection::open_with_flags(&file, flags)?;
            db.busy_timeout(std::time::Duration::from_secs(5))?;
            if !is_up_to_date(&db)? {
                return Ok(Err(SinkError::OlderFile));
            }
            if needs_later_version(&db)? {
                return Ok(Err(SinkError::LaterFile));
            }
            Ok(Ok(db))
        };
        let db = open().map_err(StoreError::from)??;
        Ok(Self { db })
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Answer<T> {
        Ok(work(&self.db).map_err(StoreError::from)?)
    }
}

type Answer<T> = Result<T, SinkError>;

#[async_trait]
impl Source for SqliteSource {
    async fn cursors(&mut self) -> Answer<BTreeMap<u32, Cursor>> {
        Ok(read_cursors(&self.db)?)
    }

    async fn orphans(&mut self) -> Answer<Orphans> {
        let sql = "SELECT partition, first_sequence, last_sequence FROM orphans
                   ORDER BY partition, first_sequence";
        self.read(|db| {
            let mut orphans = Orphans::new();
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let ranges = orphans.entry(row.get(0)?).or_default();
                ranges.push((row.get(1)?, row.get(2)?));
            }
            Ok(orphans)
        })
    }

    async fn entries(
        &mut self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Answer<Vec<StoredRow>> {
        let sql = "SELECT sequence, number, fork, at, kind, campaign, envelope, format, body,
                       user_id, request_id, people
                   FROM entries WHERE partition = ?1 AND sequence > ?2
                   ORDER BY sequence LIMIT ?3";
        self.read(|db| {
            let mut statement = db.prepare_cached(sql)?;
            let rows = statement.query_map(params![partition, after, limit], |row| {
                Ok(StoredRow {
                    id: LedgerId {
                        partition,
                        sequence: row.get(0)?,
                    },
                    number: row.get(1)?,
                    fork: row.get::<_, Option<u32>>(2)?.unwrap_or(0),
                    at: moment(row, 3)?,
                    kind: row.get(4)?,
                    campaign: row.get(5)?,
                    envelope: row.get(6)?,
                    format: row.get(7)?,
                    body: row.get(8)?,
                    user: row.get(9)?,
                    request: row.get(10)?,
                    people: row.get(11)?,
                })
            })?;
            rows.collect()
        })
    }

    async fn wins(&mut self, partition: u32, first: u64, last: u64) -> Answer<Vec<Win>> {
        let sql = "SELECT sequence, number, at, campaign, version, user_id, request_id, pool,
                       prize, unit_id, release_at
                   FROM wins WHERE partition = ?1 AND sequence BETWEEN ?2 AND ?3
                   ORDER BY sequence, number";
        self.read(|db| {
            let mut statement = db.prepare_cached(sql)?;
            let wins = statement.query_map(params![partition, first, last], |row| {
                Ok(Win {
                    partition,
                    sequence: row.get(0)?,
                    number: row.get(1)?,
                    at: moment(row, 2)?,
                    campaign: row.get(3)?,
                    version: row.get(4)?,
                    user: row.get(5)?,
                    request: row.get(6)?,
                    pool: row.get(7)?,
                    prize: row.get(8)?,
                    unit: row.get(9)?,
                    release: row.get::<_, Option<i64>>(10)?.map(Moment::from_micros),
                })
            })?;
            wins.collect()
        })
    }

    async fn spans(&mut self) -> Answer<Spans> {
        self.read(|db| {
            let mut spans = Spans::new();
            for table in ["entries", "wins"] {
                let mut statement = db.prepare(&last_partition(table))?;
                let mut below = i64::MAX;
                while let Some((partition, span)) =
                    statement.query_row([below], span_of).optional()?
                {
                    add_span(&mut spans, partition, span);
                    below = partition;
                }
            }
            Ok(spans)
        })
    }

    async fn removed(&mut self) -> Answer<Vec<(RemovedRow, Vec<u8>)>> {
        let sql = format!(
            "SELECT {REMOVED_COLUMNS} FROM removed_campaigns AS removed
             JOIN removed_versions AS versions
                 ON versions.campaign = removed.campaign AND versions.version = removed.version"
        );
        self.read(|db| db.prepare(&sql)?.query_map([], removed)?.collect())
    }
}

/// A row of [`last_partition`].
fn span_of(row: &Row<'_>) -> rusqlite::Result<(i64, (i64, i64))> {
    Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))
}

fn moment(row: &Row<'_>, column: usize) -> rusqlite::Result<Moment> {
    row.get(column).map(Moment::from_micros)
}
