//! Settling entries from the store into a real PostgreSQL: each is settled exactly once, whatever
//! is killed, cut off or away in between.

mod audit;
mod away;
mod canonical;
mod chain;
mod cut;
mod deliveries;
mod directory;
mod forget;
mod found;
pub mod kill;
mod lost;
mod outages;
mod place;
mod read;
mod removal;
mod restored;
mod roles;
mod schema;
mod settled;
mod sql;
mod standby;
mod watch;
mod watching;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use tombola::{
    ledger::{
        PostgresSink, PostgresUrl, Sink,
        settle::{Carrier, Settled},
    },
    store::{Entry, LedgerId, Store, entry::Body},
};

use self::place::Row;
use crate::support::{audit::ledger_after, postgres::Postgres, world::key};

/// A database with the tables of the ledger.
pub struct Database {
    pub server: Arc<Postgres>,
    pub name: String,
}

impl Database {
    /// An empty one on the server that tests share.
    pub async fn new() -> Self {
        let empty = Self::without_tables().await;
        assert!(PostgresSink::migrate(&empty.url()).await.unwrap());
        empty
    }

    /// An empty one on a server of this test alone, which it may stop.
    pub async fn alone() -> Self {
        let server = Postgres::start();
        let name = "ledger".to_owned();
        server.database(&name).await;
        let database = Self {
            server: Arc::new(server),
            name,
        };
        assert!(PostgresSink::migrate(&database.url()).await.unwrap());
        database
    }

    /// The same without tables.
    pub async fn without_tables() -> Self {
        static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        let server = {
            let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
            shared.upgrade().unwrap_or_else(|| {
                let started = Arc::new(Postgres::start());
                *shared = Arc::downgrade(&started);
                started
            })
        };
        static DATABASES: AtomicU32 = AtomicU32::new(0);
        let name = format!("ledger{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        server.database(&name).await;
        Self { server, name }
    }

    /// Its URL as text, for the superuser.
    pub fn url_text(&self) -> String {
        self.server.url("postgres", &self.name)
    }

    /// Its URL, for the superuser.
    pub fn url(&self) -> PostgresUrl {
        PostgresUrl::parse(&self.url_text()).unwrap()
    }

    /// The number that a query gives.
    pub async fn number(&self, sql: &str) -> i64 {
        self.server.number(&self.name, sql).await
    }

    /// All settled entries, by partition and number. Fails if one is there twice, or a number is
    /// left out other than by a fork.
    pub async fn entries(&self) -> Vec<Entry> {
        let rows = self.rows().await;
        let entries: Vec<_> = rows.into_iter().map(Row::entry).collect();
        assert_in_order(&entries);
        entries
    }

    /// All settled entries as they are stored, by partition and number.
    pub async fn rows(&self) -> Vec<Row> {
        let sql = "SELECT partition, sequence, at, campaign, envelope, format, body, number,
                          fork, user_id, request_id, people
                   FROM tombola.entries ORDER BY partition, sequence";
        let rows = self.server.query(&self.name, sql).await;
        rows.iter().map(Row::of).collect()
    }
}

/// Each number once, and none left out but by a fork.
fn assert_in_order(entries: &[Entry]) {
    let mut last = LedgerId {
        partition: u32::MAX,
        sequence: 0,
    };
    for entry in entries {
        if entry.id.partition != last.partition {
            last = LedgerId {
                partition: entry.id.partition,
                sequence: 0,
            };
        }
        let follows = match entry.body {
            Body::Forked { base, .. } => base == last.sequence && entry.id.sequence > base,
            _ => entry.id.sequence == last.sequence + 1,
        };
        assert!(follows, "{entry:?} follows {last:?}");
        last = entry.id;
    }
}

/// Settles until nothing is left; how many entries.
pub async fn settle_all(carrier: &mut Carrier, sink: &mut dyn Sink) -> usize {
    let mut settled = 0;
    for partition in 0..carrier.store().info().partitions {
        loop {
            match carrier.settle(sink, partition).await.unwrap() {
                Settled::Nothing => break,
                Settled::Elsewhere => {}
                Settled::Entries { count, .. } => settled += count,
            }
        }
    }
    settled
}

/// A settler of this store into this database.
pub async fn settler(store: &Arc<dyn Store>, url: &PostgresUrl) -> (Carrier, PostgresSink) {
    let mut sink = PostgresSink::open(url, &store.info().store_id)
        .await
        .unwrap();
    let mut carrier = Carrier::new(store.clone(), key());
    carrier.resume(&mut sink).await.unwrap();
    (carrier, sink)
}

/// Entries of the store, read before it gives them up.
#[derive(Default)]
pub struct Seen {
    /// The number of each partition's last entry that was read.
    heads: Vec<u64>,
    ids: BTreeSet<LedgerId>,
    pub entries: Vec<Entry>,
}

impl Seen {
    /// Adds what was not seen before. There may be no forks: entries come after those before.
    pub async fn look(&mut self, store: &dyn Store) {
        self.heads.resize(store.info().partitions as usize, 0);
        for entry in ledger_after(store, &self.heads).await {
            assert!(self.ids.insert(entry.id), "{entry:?} was read before");
            self.heads[entry.id.partition as usize] = entry.id.sequence;
            self.entries.push(entry);
        }
        self.entries.sort_by_key(|entry| entry.id);
    }

    /// Holds the settled entries against those that were seen: all of these are there as they were,
    /// and what is there besides was written since.
    #[track_caller]
    pub fn assert_settled(&self, settled: &[Entry]) {
        let found: Vec<_> = settled
            .iter()
            .filter(|entry| self.ids.contains(&entry.id))
            .collect();
        let seen: Vec<_> = self.entries.iter().collect();
        assert_eq!(found.len(), seen.len(), "entries are missing");
        for (found, seen) in found.into_iter().zip(seen) {
            assert_eq!(found, seen);
        }
    }
}
