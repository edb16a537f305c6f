//! Erases the clear values of a user from a sink: the columns beside the canonical bytes. The bytes
//! have pseudonyms, and stay as they are, so nothing that is computed from them changes.
//!
//! It works on the sink alone, beside whoever settles. What the store has of the user stays there.

use std::{collections::BTreeSet, path::PathBuf};

use async_trait::async_trait;
use thiserror::Error;

mod columns;
mod postgres;
mod sqlite;

#[cfg(any(test, fuzzing))]
pub(super) use columns::change as change_of_row;
pub use columns::{Change, WinChange};
pub use postgres::PostgresEraser;
pub use sqlite::SqliteEraser;

use self::columns::change;
use super::{PostgresUrl, SinkError, entry::Unreadable, read::EntryRow};

/// How often the entries are searched again: settlers add some meanwhile, and may move a month.
const ROUNDS_MAX: usize = 5;
/// The most entries that are changed in one transaction.
const CHANGED_AT_ONCE: usize = 500;

/// Why a user's values are not erased, or not all of them.
#[derive(Debug, Error)]
pub enum ForgetError {
    /// The sink.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// An entry's bytes are damaged or of a later version.
    #[error("entry {sequence} of partition {partition}: {cause}")]
    Unreadable {
        /// The partition.
        partition: u32,
        /// The number of the entry.
        sequence: u64,
        /// What is wrong.
        cause: Unreadable,
    },
    /// There were always further entries.
    #[error(
        "new entries of the user came as fast as they were erased: stop the user's draws, then \
         erase the user again"
    )]
    Unfinished,
}

/// Who erases, and why, for the table `erasures`.
#[derive(Clone, Debug)]
pub struct Reason {
    /// Who.
    pub operator: String,
    /// Why; may be empty.
    pub text: String,
}

/// What was erased, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Entries with a clear value of the user.
    pub entries: u64,
    /// Rows of wins with one.
    pub wins: u64,
    /// The campaigns of these entries.
    pub campaigns: BTreeSet<String>,
    /// The envelopes of these entries.
    pub envelopes: BTreeSet<String>,
    /// The user's pseudonyms in them.
    pub pseudonyms: BTreeSet<String>,
    /// Entries of format 1 that name the user: they have clear values in their bytes, which stay.
    pub in_bytes: u64,
}

impl Erased {
    /// Whether nothing of the user was found.
    pub fn is_nothing(&self) -> bool {
        self.entries == 0 && self.in_bytes == 0
    }

    fn add(&mut self, changes: &[Change]) {
        self.entries += changes.len() as u64;
        for change in changes {
            self.campaigns.extend(change.campaign.clone());
            self.envelopes.extend(change.envelope.clone());
            self.pseudonyms.insert(change.pseudonym.clone());
        }
    }
}

/// Where values can be erased.
#[derive(Clone, Debug)]
pub enum Erasable {
    /// In the directory of an embedded store's data.
    File(PathBuf),
    /// In PostgreSQL, by a role that may change entries.
    Database(Box<PostgresUrl>),
}

impl Erasable {
    /// Opens it.
    ///
    /// # Errors
    /// It is away, or its tables are of another version.
    pub async fn open(&self) -> Result<Box<dyn Eraser>, SinkError> {
        Ok(match self {
            Self::File(directory) => Box::new(SqliteEraser::open(directory)?),
            Self::Database(url) => Box::new(PostgresEraser::open(url).await?),
        })
    }
}

/// A sink from which values can be erased.
#[async_trait]
pub trait Eraser: Send {
    /// The rows of entries that have a user's clear id in a column, and how many rows of format 1
    /// have it in their bytes.
    async fn find(&mut self, user: &str) -> Result<(Vec<EntryRow>, u64), SinkError>;

    /// The number of rows of wins that have the user's clear id.
    async fn count_wins(&mut self, user: &str) -> Result<u64, SinkError>;

    /// Writes the changed columns in one transaction, with a row in `erasures`; the number of rows
    /// of wins that changed.
    async fn write(&mut self, changes: &[Change], reason: &Reason) -> Result<u64, SinkError>;
}

/// Says what would be erased of a user.
///
/// # Errors
/// See [`ForgetError`].
pub async fn look(sink: &mut dyn Eraser, user: &str) -> Result<Erased, ForgetError> {
    let (rows, in_bytes) = sink.find(user).await?;
    let mut found = Erased {
        in_bytes,
        wins: sink.count_wins(user).await?,
        ..Erased::default()
    };
    found.add(&changes(&rows, user)?);
    Ok(found)
}

/// Erases a user's clear values. It may be done again at any time, and then erases what was added
/// since.
///
/// # Errors
/// See [`ForgetError`]. What was erased before the error stays erased.
pub async fn forget(
    sink: &mut dyn Eraser,
    user: &str,
    reason: &Reason,
) -> Result<Erased, ForgetError> {
    let mut erased = Erased::default();
    for round in 0..=ROUNDS_MAX {
        let (rows, in_bytes) = sink.find(user).await?;
        erased.in_bytes = in_bytes;
        let changes = changes(&rows, user)?;
        if changes.is_empty() {
            return Ok(erased);
        } else if round == ROUNDS_MAX {
            break;
        }
        // In parts, so that neither a transaction nor those who wait for it take long.
        for part in changes.chunks(CHANGED_AT_ONCE) {
            erased.wins += sink.write(part, reason).await?;
            erased.add(part);
        }
    }
    Err(ForgetError::Unfinished)
}

/// The user's pseudonyms in some entries, as a JSON list.
fn pseudonyms(changes: &[Change]) -> String {
    let all: BTreeSet<&str> = changes.iter().map(|it| it.pseudonym.as_str()).collect();
    serde_json::json!(all).to_string()
}

fn changes(rows: &[EntryRow], user: &str) -> Result<Vec<Change>, ForgetError> {
    let changes = rows.iter().filter_map(|row| {
        let unreadable = |cause| ForgetError::Unreadable {
            partition: row.id.partition,
            sequence: row.id.sequence,
            cause,
        };
        change(row, user).map_err(unreadable).transpose()
    });
    changes.collect()
}
