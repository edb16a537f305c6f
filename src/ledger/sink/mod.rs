//! Where settled entries go. What a sink is given is written whole or not at all, together with the
//! cursor that says how far the partition is settled.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;

mod batch;
pub mod directory;
mod error;
pub mod postgres;
pub mod sqlite;

pub use batch::{Batch, Cursor, PrizeRow};
pub use directory::{DirectorySink, DirectoryTarget};
pub use error::SinkError;
pub use postgres::{PostgresSink, PostgresUrl};
pub use sqlite::SqliteSink;

use super::{
    contradiction::Contradiction,
    removed::{RemovedRow, VersionRow},
};
use crate::{chance::Salt, store::sqlite::LedgerTables};

/// A place for one store's settled entries. After an error it is dropped, and what was committed is
/// read from the cursors of a new one.
#[async_trait]
pub trait Sink: Send {
    /// Entries of a batch, about, at most.
    fn batch_entries(&self) -> usize {
        2000
    }

    /// Whether the transaction that writes a batch also lets the store give up what is settled.
    fn trims(&self) -> bool {
        false
    }

    /// Whether this is the sink that settles, of several that are open. It stays so.
    ///
    /// # Errors
    /// The sink is away.
    async fn is_leader(&mut self) -> Result<bool, SinkError>;

    /// How far each partition is settled; those of which nothing is settled are not in it.
    ///
    /// # Errors
    /// The sink is away.
    async fn cursors(&mut self) -> Result<BTreeMap<u32, Cursor>, SinkError>;

    /// Makes sure that the cursors are as durable as those that [`Self::write`] returns: a commit
    /// that can be read need not have reached a standby.
    ///
    /// # Errors
    /// The sink is away.
    async fn confirm(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Writes a batch and moves the cursor from `before` in one transaction; the new cursor. None
    /// if the cursor is not at `before`: another settler was faster, and nothing is written.
    ///
    /// # Errors
    /// The sink is away or refuses. Whether the batch is written is then not known.
    async fn write(
        &mut self,
        before: Option<&Cursor>,
        batch: &Arc<Batch>,
    ) -> Result<Option<Cursor>, SinkError>;

    /// The salt of a campaign's pseudonyms, or with an empty id of those of all other entries of a
    /// partition, if the sink has it.
    ///
    /// # Errors
    /// The sink is away.
    async fn salt(&mut self, partition: u32, campaign: &str) -> Result<Option<Salt>, SinkError>;

    /// Whether it has an entry, lost or not: data that were lost may come back. True if it has no
    /// earlier ones either, as for number 0. A sink that cannot be queried, or that is restored
    /// together with its store, takes it as there.
    ///
    /// # Errors
    /// The sink is away.
    async fn has_entry(&mut self, _partition: u32, _sequence: u64) -> Result<bool, SinkError> {
        Ok(true)
    }

    /// The number of a closed campaign's last entry, if there is one with a number that the store
    /// has not lost. Of a sink that cannot be queried none is known: campaigns stay in the store.
    ///
    /// # Errors
    /// The sink is away.
    async fn last_number(&mut self, _campaign: &str) -> Result<Option<u64>, SinkError> {
        Ok(None)
    }

    /// Keeps what reads of a campaign give once its data have left the store; replaces what was
    /// kept of it before. Only asked of a sink that knows the campaign's last number.
    ///
    /// # Errors
    /// The sink is away.
    async fn keep_removed(
        &mut self,
        _campaign: &RemovedRow,
        _versions: &[VersionRow],
    ) -> Result<(), SinkError> {
        Ok(())
    }

    /// Keeps a contradiction, for people and alerts.
    ///
    /// # Errors
    /// The sink is away.
    async fn quarantine(&mut self, contradiction: &Contradiction) -> Result<(), SinkError>;

    /// Notes that contradictions of a partition are in the past.
    ///
    /// # Errors
    /// The sink is away.
    async fn end_quarantine(&mut self, partition: u32) -> Result<(), SinkError>;
}

/// Which sink to settle into, and how it is opened.
#[derive(Clone)]
pub enum Target {
    /// A database.
    Postgres(Box<PostgresUrl>),
    /// Tables of the embedded store's own file.
    Embedded(LedgerTables),
    /// Files of JSON lines.
    Directory(DirectoryTarget),
}

impl Target {
    /// Opens the sink for the store of this id.
    ///
    /// # Errors
    /// It is away, keeps less than it commits, or is another store's.
    pub async fn open(&self, store_id: &str) -> Result<Box<dyn Sink>, SinkError> {
        Ok(match self {
            Self::Postgres(url) => Box::new(PostgresSink::open(url, store_id).await?),
            Self::Embedded(tables) => Box::new(SqliteSink::new(tables.clone())),
            Self::Directory(target) => Box::new(DirectorySink::open(target, store_id).await?),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(url) => url.fmt(f),
            Self::Embedded(_) => f.write_str("the embedded store"),
            Self::Directory(target) => target.path.display().fmt(f),
        }
    }
}
