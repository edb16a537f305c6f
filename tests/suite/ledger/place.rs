//! The sinks that a test can settle into, each with the same questions.

use std::sync::Arc;

use tombola::{
    ledger::{
        PostgresSink, Sink, SqliteSink,
        entry::{decode, from_system_time},
        settle::Carrier,
    },
    model::{CampaignId, EnvelopeId, Moment},
    store::{Entry, LedgerId, Store, StoreError, Subject, sqlite::LedgerTables},
};

use super::{Database, assert_in_order};
use crate::support::World;

/// Where a store is settled.
pub enum Place {
    Postgres(Database),
    Embedded(LedgerTables),
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

    /// The open sink.
    pub async fn open(&self, store: &Arc<dyn Store>) -> Box<dyn Sink> {
        match self {
            Self::Postgres(database) => {
                let url = database.url();
                let sink = PostgresSink::open(&url, &store.info().store_id).await;
                Box::new(sink.unwrap())
            }
            Self::Embedded(tables) => Box::new(SqliteSink::new(tables.clone())),
        }
    }

    /// A settler of this store.
    pub async fn settler(&self, store: &Arc<dyn Store>) -> (Carrier, Box<dyn Sink>) {
        let mut sink = self.open(store).await;
        let mut carrier = Carrier::new(store.clone());
        carrier.resume(&mut *sink).await.unwrap();
        (carrier, sink)
    }

    /// All settled entries; see [`Database::entries`].
    pub async fn entries(&self) -> Vec<Entry> {
        let tables = match self {
            Self::Postgres(database) => return database.entries().await,
            Self::Embedded(tables) => tables,
        };
        let rows = tables.read(|db| {
            let sql = "SELECT sequence, at, campaign, envelope, format, body, number, fork
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
                })
            })?;
            rows.map(|row| row.map_err(StoreError::from)).collect()
        });
        let rows: Vec<Row> = rows.await.unwrap();
        let entries: Vec<_> = rows.into_iter().map(Row::entry).collect();
        assert_in_order(&entries);
        entries
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
        }
    }
}

/// A settled entry, as a table has it.
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
        Entry {
            id: LedgerId {
                partition: self.partition,
                sequence: self.sequence,
            },
            number: self.number,
            fork: self.fork,
            at: self.at,
            subject,
            body: decode(self.format, &self.body).unwrap(),
        }
    }
}
