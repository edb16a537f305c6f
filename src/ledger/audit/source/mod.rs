//! What an audit reads of a sink: rows as they are stored.

use std::collections::BTreeMap;

use async_trait::async_trait;

mod postgres;
mod sqlite;

pub use postgres::PostgresSource;
pub use sqlite::SqliteSource;

use super::Orphans;
use crate::{
    ledger::{
        chain::Link,
        entry::{Clear, Unreadable, decode},
        removed::RemovedRow,
        sink::{Cursor, SinkError},
        wins::Win,
    },
    model::{CampaignId, EnvelopeId, Moment},
    store::{Entry, LedgerId, Subject, entry::Body},
};

/// A stored entry.
#[derive(Clone, Debug)]
pub struct StoredRow {
    /// Its partition and number.
    pub id: LedgerId,
    /// Its number in its campaign.
    pub number: Option<u64>,
    /// Mark of the store's fork.
    pub fork: u32,
    /// When it was written.
    pub at: Moment,
    /// What happened.
    pub kind: String,
    /// The campaign that it is about.
    pub campaign: Option<String>,
    /// The envelope that it is about.
    pub envelope: Option<String>,
    /// The form of its bytes.
    pub format: i16,
    /// Its bytes.
    pub body: Vec<u8>,
    /// The clear values beside them.
    pub user: Option<String>,
    /// See `user`.
    pub request: Option<String>,
    /// See `user`.
    pub people: Option<String>,
}

impl StoredRow {
    /// The entry by its bytes alone: people are pseudonyms in it, except in format 1.
    ///
    /// # Errors
    /// Bytes or ids are damaged, or of a later version.
    pub fn entry(&self) -> Result<Entry, Unreadable> {
        let subject = match (&self.campaign, &self.envelope) {
            (Some(id), _) => CampaignId::parse("campaign", id).map(Subject::Campaign),
            (None, Some(id)) => EnvelopeId::parse("envelope", id).map(Subject::Envelope),
            (None, None) => Ok(Subject::Partition),
        };
        Ok(Entry {
            id: self.id,
            number: self.number,
            fork: self.fork,
            at: self.at,
            subject: subject.map_err(|problem| Unreadable::Id(problem.message))?,
            body: decode(self.format, &self.body, &Clear::default())?,
        })
    }

    /// What happened, with the clear values that there are.
    ///
    /// # Errors
    /// The bytes or the columns beside them are damaged.
    pub fn body_with_clear_values(&self) -> Result<Body, Unreadable> {
        let clear = Clear {
            user: self.user.as_deref(),
            request: self.request.as_deref(),
            people: self.people.as_deref(),
        };
        decode(self.format, &self.body, &clear)
    }

    /// What the running digest covers of it.
    pub(super) fn link(&self) -> Link<'_> {
        Link {
            partition: self.id.partition,
            sequence: self.id.sequence,
            at: self.at,
            kind: &self.kind,
            campaign: self.campaign.as_deref(),
            envelope: self.envelope.as_deref(),
            number: self.number,
            fork: self.fork,
            format: self.format,
            body: &self.body,
        }
    }
}

/// By partition, the numbers of the first and of the last row that it has.
pub type Spans = BTreeMap<i64, (i64, i64)>;

/// Selects the highest partition below a number that has rows in a table, with the numbers of the
/// first and of the last of them. Indexes find these; to group all rows would read them all.
fn last_partition(table: &str) -> String {
    format!(
        "SELECT partition,
             (SELECT min(sequence) FROM {table} AS own WHERE own.partition = found.partition),
             sequence
         FROM (SELECT partition, sequence FROM {table} WHERE partition < CAST($1 AS bigint)
               ORDER BY partition DESC, sequence DESC LIMIT 1) AS found"
    )
}

/// Adds the rows of one more table.
fn add_span(spans: &mut Spans, partition: i64, (first, last): (i64, i64)) {
    let span = spans.entry(partition).or_insert((first, last));
    *span = (span.0.min(first), span.1.max(last));
}

/// A sink that is audited. Everything is read as it is stored.
#[async_trait]
pub trait Source: Send {
    /// How far each partition is settled.
    async fn cursors(&mut self) -> Result<BTreeMap<u32, Cursor>, SinkError>;

    /// Settled entries that the store has lost.
    async fn orphans(&mut self) -> Result<Orphans, SinkError>;

    /// Entries of a partition after a number, in order, at most `limit`.
    async fn entries(
        &mut self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredRow>, SinkError>;

    /// Rows of units that the entries of a partition from `first` to `last` won, in order.
    async fn wins(&mut self, partition: u32, first: u64, last: u64) -> Result<Vec<Win>, SinkError>;

    /// The rows of entries and wins that each partition has, those beyond its cursor too.
    async fn spans(&mut self) -> Result<Spans, SinkError>;

    /// Rows of campaigns whose data have left the store, each with the definition of its last
    /// version.
    async fn removed(&mut self) -> Result<Vec<(RemovedRow, Vec<u8>)>, SinkError>;
}
