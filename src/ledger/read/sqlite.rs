//! Reading the ledger in tables of the embedded store's own file.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use rusqlite::{Connection, Row, ToSql, params_from_iter, types::ToSqlOutput};

use super::{
    EntryQuery, LedgerReader, Range, ReadError, Removed, Rows, SettledTo, SettledWin, WinQuery,
    found::{cut_by_bytes, found, search_for_entries, search_for_wins, within},
    row::{self, EntryRow, VersionColumns, decode},
    sql::{Source, Sql, Value, outside},
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
        Entry, LedgerId, Result as StoreResult, SettledUpTo, StoreError,
        sqlite::{LedgerTables, lookup::Term, search::Search},
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
        self.read(move |db| rows(db, &sql, read)).await
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
    ) -> Result<T, ReadError> {
        match self.tables.read(work).await {
            Err(StoreError::Overloaded) => Err(ReadError::Busy),
            read => Ok(read.map_err(SinkError::from)?),
        }
    }
}

const ONE: Range = Range {
    from: None,
    to: None,
    after: None,
    limit: 1,
};

pub(super) fn rows<T>(
    db: &Connection,
    sql: &Sql,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> StoreResult<Vec<T>> {
    let mut statement = db.prepare_cached(&sql.text)?;
    let found = statement.query_map(params_from_iter(&sql.values), read)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Entries of a partition after a number, without those that the store has lost in a rollback.
fn entries(
    db: &Connection,
    partition: u32,
    after: u64,
    limit: usize,
) -> StoreResult<Vec<EntryRow>> {
    let lost = Sql::lost_after(partition, after, SCHEMA);
    let lost: Vec<(u64, u64)> = rows(db, &lost, |row| Ok((row.get(0)?, row.get(1)?)))?;
    for between in outside(&lost, after) {
        let sql = Sql::entries_between(partition, between, limit, SCHEMA);
        let found = rows(db, &sql, entry)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
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
        let found = self.read(move |db| entries(db, partition, after, limit));
        found.await?.into_iter().map(decode).collect()
    }

    async fn win(
        &self,
        campaign: &CampaignId,
        unit: &str,
    ) -> Result<Option<SettledWin>, ReadError> {
        let (campaign, unit) = (campaign.clone(), unit.to_owned());
        let read = move |db: &Connection| {
            let search = Search::new([Term::unit(campaign.as_str(), &unit)]);
            let sql = |_: Range, source: Source<'_>| Sql::win(&campaign, &unit, source);
            found(db, search, ONE, sql, win, |_| false)
        };
        Ok(self.read(read).await?.pop())
    }

    async fn wins(&self, query: &WinQuery) -> Result<Rows<SettledWin>, ReadError> {
        let (query, limit) = (query.clone(), query.range.limit);
        let read = move |db: &Connection| {
            let search = within(db, search_for_wins(db, &query)?, &query.range)?;
            let sql = |range: Range, source: Source<'_>| {
                let query = WinQuery {
                    range,
                    ..query.clone()
                };
                Sql::wins(&query, source)
            };
            found(db, search, query.range, sql, win, |_| false)
        };
        let rows = self.read(read).await?;
        Ok(Rows {
            more: rows.len() == limit,
            rows,
        })
    }

    async fn draws_of(&self, wins: &[&Win]) -> Result<Vec<Entry>, ReadError> {
        let found = self.query(Sql::draws_of(wins, SCHEMA), entry).await?;
        found.into_iter().map(decode).collect()
    }

    async fn list(&self, query: &EntryQuery) -> Result<Rows<Entry>, ReadError> {
        let (query, limit) = (query.clone(), query.range.limit);
        let read = move |db: &Connection| {
            let Some(search) = search_for_entries(&query) else {
                return rows(db, &Sql::list(&query, Source::Schema(SCHEMA)), entry);
            };
            let search = within(db, search, &query.range)?;
            let sql = |range: Range, source: Source<'_>| {
                let query = EntryQuery {
                    range,
                    ..query.clone()
                };
                Sql::list(&query, source)
            };
            found(db, search, query.range, sql, entry, cut_by_bytes)
        };
        Rows::of(self.read(read).await?, limit)
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
        let (campaign, user, request) = (campaign.clone(), user.clone(), request.clone());
        let read = move |db: &Connection| {
            let search = Search::new([Term::request(request.as_str())]);
            let sql =
                |_: Range, source: Source<'_>| Sql::draw((&campaign, &user), &request, source);
            found(db, search, ONE, sql, entry, |_| false)
        };
        let found = self.read(read).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_entries_leave_out_what_was_lost_and_are_empty_only_at_the_end() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE entries (partition, sequence, at, campaign, envelope, format, body,
                 number, fork, user_id, request_id, people, PRIMARY KEY (partition, sequence));
             CREATE TABLE orphans (partition, first_sequence, last_sequence);",
        )
        .unwrap();
        // Old entries were dropped, and so were some in the middle.
        let all = (5..=60).filter(|number| !(22..=24).contains(number));
        let all: Vec<u64> = all.chain(1000..1010).collect();
        for number in &all {
            let sql = "INSERT INTO entries (partition, sequence, at, format, body)
                       VALUES (0, ?1, 0, 2, x'00')";
            db.execute(sql, [number]).unwrap();
        }
        // Ranges that overlap or touch each other, without entries, and up to the end.
        let lost = [
            (3, 6),
            (8, 12),
            (10, 14),
            (15, 16),
            (23, 30),
            (40, 40),
            (61, 999),
            (1004, 2000),
        ];
        for (first, last) in lost {
            let sql = "INSERT INTO orphans VALUES (0, ?1, ?2), (1, 1, 5000)";
            db.execute(sql, [first, last]).unwrap();
        }
        let is_true = |number: &u64| {
            !lost
                .iter()
                .any(|(first, last)| (first..=last).contains(&number))
        };
        let all: Vec<u64> = all.into_iter().filter(is_true).collect();
        for after in 0..1015 {
            let expected: Vec<u64> = all.iter().copied().filter(|it| *it > after).collect();
            for limit in [1, 4, 100] {
                let found = entries(&db, 0, after, limit).unwrap();
                let found: Vec<u64> = found.iter().map(|row| row.id.sequence).collect();
                assert!(expected.starts_with(&found), "{after}: {found:?}");
                assert_eq!(found.is_empty(), expected.is_empty(), "{after}");
            }
        }
    }
}
