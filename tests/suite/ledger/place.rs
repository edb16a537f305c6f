//! The sinks that a test can settle into, each with the same questions.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use tombola::{
    ledger::{
        DirectorySink, DirectoryTarget, PostgresSink, Sink, SqliteSink,
        entry::{Clear, decode, from_system_time},
        settle::Carrier,
    },
    model::{CampaignId, EnvelopeId, Moment},
    store::{Entry, LedgerId, Store, StoreError, Subject, sqlite::LedgerTables},
};

use super::{Database, assert_in_order};
use crate::support::{World, world::key};

/// Where a store is settled.
pub enum Place {
    Postgres(Database),
    Embedded(LedgerTables),
    Directory(DirectoryTarget),
}

impl Place {
    /// A new database.
    pub async fn postgres() -> Self {
        Self::Postgres(Database::new().await)
    }

    /// The embedded store's own file.
    pub fn own_file(world: &World) -> Self {
        Self::Embedded(world.store().ledger_tables().unwrap())
    }

    /// The database.
    pub fn database(&self) -> &Database {
        match self {
            Self::Postgres(database) => database,
            Self::Embedded(_) | Self::Directory(_) => panic!("it is no database"),
        }
    }

    /// The open sink.
    pub async fn open(&self, store: &Arc<dyn Store>) -> Box<dyn Sink> {
        match self {
            Self::Postgres(database) => {
                let url = database.url();
                let sink = PostgresSink::open(&url, &store.info().store_id).await;
                Box::new(sink.unwrap())
            }
            Self::Embedded(tables) => Box::new(SqliteSink::new(tables.clone())),
            Self::Directory(target) => {
                let sink = DirectorySink::open(target, &store.info().store_id).await;
                Box::new(sink.unwrap())
            }
        }
    }

    /// A settler of this store.
    pub async fn settler(&self, store: &Arc<dyn Store>) -> (Carrier, Box<dyn Sink>) {
        let mut sink = self.open(store).await;
        let mut carrier = Carrier::new(store.clone(), key());
        carrier.resume(&mut *sink).await.unwrap();
        (carrier, sink)
    }

    /// All settled entries; see [`Database::entries`].
    pub async fn entries(&self) -> Vec<Entry> {
        let rows = self.rows().await;
        let entries: Vec<_> = rows.into_iter().map(Row::entry).collect();
        assert_in_order(&entries);
        entries
    }

    /// All settled entries as they are stored, by partition and number.
    pub async fn rows(&self) -> Vec<Row> {
        let tables = match self {
            Self::Postgres(database) => return database.rows().await,
            Self::Directory(target) => return rows_of_files(&target.path),
            Self::Embedded(tables) => tables,
        };
        let rows = tables.read(|db| {
            let sql = "SELECT sequence, at, campaign, envelope, format, body, number, fork,
                              user_id, request_id, people
                       FROM entries ORDER BY partition, sequence";
            let mut statement = db.prepare(sql)?;
            let rows = statement.query_map([], |row| {
                Ok(Row {
                    partition: 0,
                    sequence: row.get(0)?,
                    at: Moment::from_micros(row.get(1)?),
                    campaign: row.get(2)?,
                    envelope: row.get(3)?,
                    format: row.get(4)?,
                    body: row.get(5)?,
                    number: row.get(6)?,
                    fork: row.get(7)?,
                    user: row.get(8)?,
                    request: row.get(9)?,
                    people: row.get(10)?,
                })
            })?;
            rows.map(|row| row.map_err(StoreError::from)).collect()
        });
        rows.await.unwrap()
    }

    /// The number that a query gives.
    pub async fn number(&self, sql: &str) -> i64 {
        match self {
            Self::Postgres(database) => database.number(sql).await,
            Self::Embedded(tables) => {
                let sql = sql.replace("tombola.", "").replace("::bigint", "");
                let found = tables.read(move |db| Ok(db.query_row(&sql, [], |row| row.get(0))?));
                found.await.unwrap()
            }
            Self::Directory(_) => panic!("a directory answers no queries"),
        }
    }
}

/// The entries of a directory's files.
fn rows_of_files(path: &Path) -> Vec<Row> {
    let files = fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
    let is_ledger = |file: &PathBuf| file.to_str().unwrap().contains("ledger-");
    let mut files: Vec<_> = files.filter(is_ledger).collect();
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let text: String = texts.collect();
    let lines = text
        .lines()
        .filter(|line| line.starts_with("{\"partition\":"));
    let mut rows: Vec<_> = lines.map(Row::of_line).collect();
    rows.sort_by_key(|row| (row.partition, row.sequence));
    rows
}

/// A settled entry, as a table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub partition: u32,
    pub sequence: u64,
    pub at: Moment,
    pub campaign: Option<String>,
    pub envelope: Option<String>,
    pub format: i16,
    pub body: Vec<u8>,
    pub number: Option<u64>,
    pub fork: u32,
    pub user: Option<String>,
    pub request: Option<String>,
    pub people: Option<String>,
}

impl Row {
    /// A row of PostgreSQL.
    pub fn of(row: &tokio_postgres::Row) -> Self {
        Self {
            partition: row.get::<_, i32>(0).cast_unsigned(),
            sequence: row.get::<_, i64>(1).cast_unsigned(),
            at: from_system_time(row.get(2)),
            campaign: row.get(3),
            envelope: row.get(4),
            format: row.get(5),
            body: row.get(6),
            number: row.get::<_, Option<i64>>(7).map(i64::cast_unsigned),
            fork: row.get::<_, i32>(8).cast_unsigned(),
            user: row.get(9),
            request: row.get(10),
            people: row.get(11),
        }
    }

    /// A line of a file.
    fn of_line(line: &str) -> Self {
        let fields: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| fields[name].as_str().map(ToOwned::to_owned);
        // The bytes stand there as they are.
        let body = line.split_once(",\"body\":").unwrap().1;
        Self {
            partition: fields["partition"].as_u64().unwrap() as u32,
            sequence: fields["sequence"].as_u64().unwrap(),
            at: Moment::from_micros(fields["at"].as_i64().unwrap()),
            campaign: text("campaign"),
            envelope: text("envelope"),
            format: fields["format"].as_i64().unwrap() as i16,
            body: body.strip_suffix('}').unwrap().into(),
            number: fields["number"].as_u64(),
            fork: fields["fork"].as_u64().unwrap() as u32,
            user: text("user_id"),
            request: text("request_id"),
            people: text("people"),
        }
    }

    /// The entry.
    pub fn entry(self) -> Entry {
        let subject = match (&self.campaign, &self.envelope) {
            (Some(id), None) => Subject::Campaign(CampaignId::parse("campaign", id).unwrap()),
            (None, Some(id)) => Subject::Envelope(EnvelopeId::parse("envelope", id).unwrap()),
            (None, None) => Subject::Partition,
            both => panic!("{both:?}"),
        };
        let clear = Clear {
            user: self.user.as_deref(),
            request: self.request.as_deref(),
            people: self.people.as_deref(),
        };
        Entry {
            id: LedgerId {
                partition: self.partition,
                sequence: self.sequence,
            },
            number: self.number,
            fork: self.fork,
            at: self.at,
            subject,
            body: decode(self.format, &self.body, &clear).unwrap(),
        }
    }
}
