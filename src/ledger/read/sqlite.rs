//! Reading the ledger in tables of the embedded store's own file.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use rusqlite::{Connection, Row, ToSql, params_from_iter, types::ToSqlOutput};

use super::{
    EntryQuery, LedgerReader, ReadError, Removed, Rows, SettledTo, SettledWin, WinQuery,
    row::{self, EntryRow, VersionColumns, decode},
    sql::{Sql, Value},
};
use crate::{
    ledger::{
        activity::{Counts, Hour},
        removed::{RemovedCampaign, RemovedRow},
        sink::SinkError,
        wins::Win,
    },
    model::{Campaign, CampaignId, Moment, RequestId, UserId},
    store::{
        Entry, LedgerId, Result as StoreResult, SettledUpTo,
        sqlite::LedgerTables,
        view::{DrawCounts, VersionInfo},
    },
};

/// Tables have no schema here.
pub const SCHEMA: &str = "";

/// Reads the tables of an embedded store.
pub struct SqliteReader {
    tables: LedgerTables,
}

impl SqliteReader {
    /// Of these tables.
    pub fn new(tables: LedgerTables) -> Self {
        Self { tables }
    }

    async fn query<T: Send + 'static>(
        &self,
        sql: Sql,
        read: fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, ReadError> {
        let rows = self.tables.read(move |db| rows(db, &sql, read)).await;
        Ok(rows.map_err(SinkError::from)?)
    }
}

fn rows<T>(
    db: &Connection,
    sql: &Sql,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> StoreResult<Vec<T>> {
    let mut statement = db.prepare_cached(&sql.text)?;
    let found = statement.query_map(params_from_iter(&sql.values), read)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Text(text) => text.to_sql(),
            Self::Number(number) => number.to_sql(),
            Self::Small(number) => number.to_sql(),
            Self::Moment(moment) => Ok(moment.as_micros().into()),
        }
    }
}

fn cursor(row: &Row<'_>) -> rusqlite::Result<(u32, SettledTo)> {
    let up_to = SettledUpTo {
        sequence: row.get::<_, u64>(1)? - 1,
        fork: row.get(2)?,
    };
    let at = Moment::from_micros(row.get(3)?);
    Ok((row.get(0)?, SettledTo { up_to, at }))
}

/// An entry, from [`super::sql::ENTRY_COLUMNS`].
pub(in crate::ledger) fn entry(row: &Row<'_>) -> rusqlite::Result<EntryRow> {
    Ok(EntryRow {
        id: LedgerId {
            partition: row.get(0)?,
            sequence: row.get(1)?,
        },
        at: Moment::from_micros(row.get(2)?),
        campaign: row.get(3)?,
        envelope: row.get(4)?,
        format: row.get(5)?,
        body: row.get(6)?,
        number: row.get(7)?,
        fork: row.get::<_, Option<u32>>(8)?.unwrap_or(0),
        user: row.get(9)?,
        request: row.get(10)?,
        people: row.get(11)?,
    })
}

fn win(row: &Row<'_>) -> rusqlite::Result<SettledWin> {
    let release: Option<i64> = row.get(11)?;
    let delivery_at: Option<i64> = row.get(14)?;
    let win = Win {
        partition: row.get(0)?,
        sequence: row.get(1)?,
        number: row.get(2)?,
        at: Moment::from_micros(row.get(3)?),
        campaign: row.get(4)?,
        version: row.get(5)?,
        user: row.get(6)?,
        request: row.get(7)?,
        pool: row.get(8)?,
        prize: row.get(9)?,
        unit: row.get(10)?,
        release: release.map(Moment::from_micros),
    };
    Ok(SettledWin {
        win,
        delivery: row::delivery(
            row.get(12)?,
            row.get(13)?,
            delivery_at.map(Moment::from_micros),
        ),
    })
}

/// A removed campaign and the definition of its last version, from
/// [`crate::ledger::read::sql::REMOVED_COLUMNS`].
pub(in crate::ledger) fn removed(row: &Row<'_>) -> rusqlite::Result<(RemovedRow, Vec<u8>)> {
    let removed = RemovedRow {
        campaign: row.get(0)?,
        partition: row.get(1)?,
        version: row.get(2)?,
        entries: row.get(3)?,
        at: Moment::from_micros(row.get(4)?),
        nonce: row.get(5)?,
        commitment: row.get(6)?,
        users: row.get(7)?,
        draws: DrawCounts {
            wins: row.get(8)?,
            consolations: row.get(9)?,
            nothings: row.get(10)?,
        },
        record: row.get(11)?,
    };
    Ok((removed, row.get(12)?))
}

fn version(row: &Row<'_>) -> rusqlite::Result<VersionColumns> {
    let at = Moment::from_micros(row.get(1)?);
    Ok((row.get(0)?, at, row.get(2)?, row.get(3)?))
}

#[async_trait]
impl LedgerReader for SqliteReader {
    async fn cursors(&self) -> Result<BTreeMap<u32, SettledTo>, ReadError> {
        let found = self.query(Sql::cursors(SCHEMA), cursor).await?;
        Ok(found.into_iter().collect())
    }

    async fn entries(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        let sql = Sql::entries_after(partition, after, limit, SCHEMA);
        self.query(sql, entry)
            .await?
            .into_iter()
            .map(decode)
            .collect()
    }

    async fn win(
        &self,
        campaign: &CampaignId,
        unit: &str,
    ) -> Result<Option<SettledWin>, ReadError> {
        let mut found = self.query(Sql::win(campaign, unit, SCHEMA), win).await?;
        Ok(found.pop())
    }

    async fn wins(&self, query: &WinQuery) -> Result<Rows<SettledWin>, ReadError> {
        let rows = self.query(Sql::wins(query, SCHEMA), win).await?;
        Ok(Rows {
            more: rows.len() == query.range.limit,
            rows,
        })
    }

    async fn draws_of(&self, wins: &[&Win]) -> Result<Vec<Entry>, ReadError> {
        let found = self.query(Sql::draws_of(wins, SCHEMA), entry).await?;
        found.into_iter().map(decode).collect()
    }

    async fn list(&self, query: &EntryQuery) -> Result<Rows<Entry>, ReadError> {
        let found = self.query(Sql::list(query, SCHEMA), entry).await?;
        Rows::of(found, query.range.limit)
    }

    async fn activity(
        &self,
        campaign: &CampaignId,
        between: (Moment, Moment),
    ) -> Result<Vec<Hour>, ReadError> {
        let read = |row: &Row<'_>| {
            Ok(Hour {
                start: Moment::from_micros(row.get(0)?),
                counts: Counts {
                    draws: row.get(1)?,
                    wins: row.get(2)?,
                    consolations: row.get(3)?,
                },
            })
        };
        self.query(Sql::activity(campaign, between, SCHEMA), read)
            .await
    }

    async fn applied(
        &self,
        campaign: &CampaignId,
        version: Option<u32>,
    ) -> Result<Option<Entry>, ReadError> {
        let sql = Sql::applied(campaign, version, SCHEMA);
        let found = self.query(sql, entry).await?;
        found.into_iter().next().map(decode).transpose()
    }

    async fn draw(
        &self,
        campaign: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<Option<Entry>, ReadError> {
        let sql = Sql::draw((campaign, user), request, SCHEMA);
        let found = self.query(sql, entry).await?;
        found.into_iter().next().map(decode).transpose()
    }

    async fn removed(&self, which: Removed<'_>) -> Result<Vec<RemovedCampaign>, ReadError> {
        let found = self.query(Sql::removed(which, SCHEMA), removed).await?;
        found.into_iter().map(row::removed).collect()
    }

    async fn removed_versions(&self, campaign: &CampaignId) -> Result<Vec<VersionInfo>, ReadError> {
        let sql = Sql::removed_versions(campaign, SCHEMA);
        let found = self.query(sql, version).await?;
        let found = found.into_iter();
        found
            .map(|columns| row::version(campaign, columns))
            .collect()
    }

    async fn removed_version(
        &self,
        campaign: &CampaignId,
        version: u32,
    ) -> Result<Option<Arc<Campaign>>, ReadError> {
        let sql = Sql::removed_version(campaign, version, SCHEMA);
        let found = self.query(sql, |row| row.get::<_, Vec<u8>>(0)).await?;
        let found = found.first();
        found
            .map(|bytes| row::definition(campaign, bytes))
            .transpose()
    }
}
