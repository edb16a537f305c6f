//! An audit's view of the ledger in PostgreSQL.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use tokio::time::timeout;
use tokio_postgres::{Client, Row, types::ToSql};

use super::{Source, Spans, StoredRow, add_span, last_partition};
use crate::{
    ledger::{
        audit::Orphans,
        entry::from_system_time,
        read::{postgres::removed, sql::REMOVED_COLUMNS},
        removed::RemovedRow,
        sink::{
            Cursor, PostgresSink, PostgresUrl, SinkError,
            postgres::{CURSORS, read_cursor},
        },
        wins::Win,
    },
    store::LedgerId,
};

/// How long a statement may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// One connection, which only reads.
pub struct PostgresSource {
    client: Client,
}

impl PostgresSource {
    /// Connects to the tables, whichever store's they are.
    ///
    /// # Errors
    /// PostgreSQL is away, or its tables are of another version.
    pub async fn open(url: &PostgresUrl) -> Result<Self, SinkError> {
        Self::connect(url, None).await
    }

    /// Connects to the tables, which must be this store's.
    ///
    /// # Errors
    /// PostgreSQL is away, or its tables are another store's or of another version.
    pub async fn open_of(url: &PostgresUrl, store_id: &str) -> Result<Self, SinkError> {
        Self::connect(url, Some(store_id)).await
    }

    async fn connect(url: &PostgresUrl, store_id: Option<&str>) -> Result<Self, SinkError> {
        let client = PostgresSink::connect_to_read(url, store_id).await?;
        client
            .batch_execute("SET statement_timeout = '60s'")
            .await?;
        Ok(Self { client })
    }

    async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, SinkError> {
        match timeout(ANSWER_MAX, self.client.query(sql, parameters)).await {
            Ok(rows) => Ok(rows?),
            Err(_) => Err(SinkError::TimedOut(ANSWER_MAX)),
        }
    }
}

#[async_trait]
impl Source for PostgresSource {
    async fn cursors(&mut self) -> Result<BTreeMap<u32, Cursor>, SinkError> {
        let rows = self.query(CURSORS, &[]).await?;
        let cursors = rows.iter().map(read_cursor);
        Ok(cursors.map(|cursor| (cursor.partition, cursor)).collect())
    }

    async fn orphans(&mut self) -> Result<Orphans, SinkError> {
        let sql = "SELECT partition, first_sequence, last_sequence FROM tombola.orphans
                   ORDER BY partition, first_sequence";
        let mut orphans = Orphans::new();
        for row in self.query(sql, &[]).await? {
            let ranges = orphans.entry(unsigned(&row, 0)).or_default();
            ranges.push((number(&row, 1), number(&row, 2)));
        }
        Ok(orphans)
    }

    async fn entries(
        &mut self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredRow>, SinkError> {
        let sql = "SELECT sequence, number, fork, at, kind, campaign, envelope, format, body,
                       user_id, request_id, people
                   FROM tombola.entries WHERE partition = $1 AND sequence > $2
                   ORDER BY sequence LIMIT $3";
        let parameters: [&(dyn ToSql + Sync); 3] = [
            &partition.cast_signed(),
            &after.cast_signed(),
            &(limit as i64),
        ];
        let rows = self.query(sql, &parameters).await?;
        let rows = rows.iter().map(|row| StoredRow {
            id: LedgerId {
                partition,
                sequence: number(row, 0),
            },
            number: row.get::<_, Option<i64>>(1).map(i64::cast_unsigned),
            fork: row.get::<_, Option<i32>>(2).unwrap_or(0).cast_unsigned(),
            at: from_system_time(row.get(3)),
            kind: row.get(4),
            campaign: row.get(5),
            envelope: row.get(6),
            format: row.get(7),
            body: row.get(8),
            user: row.get(9),
            request: row.get(10),
            people: row.get(11),
        });
        Ok(rows.collect())
    }

    async fn wins(&mut self, partition: u32, first: u64, last: u64) -> Result<Vec<Win>, SinkError> {
        let sql = "SELECT sequence, number, at, campaign, version, user_id, request_id, pool,
                       prize, unit_id, release_at
                   FROM tombola.wins WHERE partition = $1 AND sequence BETWEEN $2 AND $3
                   ORDER BY sequence, number";
        let parameters: [&(dyn ToSql + Sync); 3] = [
            &partition.cast_signed(),
            &first.cast_signed(),
            &last.cast_signed(),
        ];
        let rows = self.query(sql, &parameters).await?;
        let wins = rows.iter().map(|row| Win {
            partition,
            sequence: number(row, 0),
            number: row.get(1),
            at: from_system_time(row.get(2)),
            campaign: row.get(3),
            version: unsigned(row, 4),
            user: row.get(5),
            request: row.get(6),
            pool: row.get(7),
            prize: row.get(8),
            unit: row.get(9),
            release: row.get::<_, Option<_>>(10).map(from_system_time),
        });
        Ok(wins.collect())
    }

    async fn spans(&mut self) -> Result<Spans, SinkError> {
        let mut spans = Spans::new();
        for table in ["tombola.entries", "tombola.wins"] {
            let (sql, mut below) = (last_partition(table), i64::MAX);
            loop {
                let rows = self.query(&sql, &[&below]).await?;
                let Some(row) = rows.first() else { break };
                below = row.get::<_, i32>(0).into();
                add_span(&mut spans, below, (row.get(1), row.get(2)));
            }
        }
        Ok(spans)
    }

    async fn removed(&mut self) -> Result<Vec<(RemovedRow, Vec<u8>)>, SinkError> {
        let sql = format!(
            "SELECT {REMOVED_COLUMNS} FROM tombola.removed_campaigns AS removed
             JOIN tombola.removed_versions AS versions
                 ON versions.campaign = removed.campaign AND versions.version = removed.version"
        );
        Ok(self.query(&sql, &[]).await?.iter().map(removed).collect())
    }
}

/// Partitions and versions are far below 2^31.
fn unsigned(row: &Row, column: usize) -> u32 {
    row.get::<_, i32>(column).cast_unsigned()
}

fn number(row: &Row, column: usize) -> u64 {
    row.get::<_, i64>(column).cast_unsigned()
}
