//! Erases the clear values of a user from a sink: the columns beside the canonical bytes. The bytes
//! have pseudonyms, and stay as they are, so nothing that is computed from them changes.
//!
//! A win of an erased user may be delivered or revoked later. The service then knows the user only
//! by the pseudonym in the row of the win, so the new entry has this pseudonym as its `user_id`.
//! Nobody can tell whose it is without the master key, which an eraser does not have. But the table
//! `erasures` lists the pseudonyms of all erased users. So each erasure also erases what names
//! users in such entries, whoever they are.
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

use self::columns::{change, change_later};
use super::{PostgresUrl, SinkError, entry::Unreadable, read::EntryRow};
use crate::store::LedgerId;

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
    /// Entries with a clear value of the user, and those that are in `later_entries`.
    pub entries: u64,
    /// Rows of wins with one, and those that are in `later_wins`.
    pub wins: u64,
    /// Deliveries and revocations that came after their users were erased. They may be of any user.
    pub later_entries: u64,
    /// Rows of wins with the reference of such a delivery.
    pub later_wins: u64,
    /// The campaigns of these entries.
    pub campaigns: BTreeSet<String>,
    /// The envelopes of these entries.
    pub envelopes: BTreeSet<String>,
    /// The user's pseudonyms in them, without those in later entries.
    pub pseudonyms: BTreeSet<String>,
    /// Entries of format 1 that name the user: they have clear values in their bytes, which stay.
    pub in_bytes: u64,
}

impl Erased {
    /// Whether nothing of the user was found.
    pub fn is_nothing(&self) -> bool {
        self.entries == self.later_entries && self.in_bytes == 0
    }

    fn add(&mut self, changes: &[Change], wins: u64) {
        self.count(changes, wins);
        let pseudonyms = changes.iter().map(|change| change.pseudonym.clone());
        self.pseudonyms.extend(pseudonyms);
    }

    fn add_later(&mut self, changes: &[Change], wins: u64) {
        self.count(changes, wins);
        self.later_entries += changes.len() as u64;
        self.later_wins += wins;
    }

    fn count(&mut self, changes: &[Change], wins: u64) {
        self.entries += changes.len() as u64;
        self.wins += wins;
        for change in changes {
            self.campaigns.extend(change.campaign.clone());
            self.envelopes.extend(change.envelope.clone());
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

    /// The rows of deliveries and revocations that have a pseudonym of an erased user as the id.
    async fn find_later(&mut self) -> Result<Vec<EntryRow>, SinkError>;

    /// The number of rows of wins that have the user's clear id.
    async fn count_wins(&mut self, user: &str) -> Result<u64, SinkError>;

    /// The number of rows of these users' wins that have the reference of a delivery.
    async fn count_references(&mut self, users: &[String]) -> Result<u64, SinkError>;

    /// Writes the changed columns in one transaction, with a row in `erasures`; the number of rows
    /// of wins that changed.
    async fn write(&mut self, changes: &[Change], reason: &Reason) -> Result<u64, SinkError>;
}

/// Says what would be erased of a user.
///
/// # Errors
/// See [`ForgetError`].
pub async fn look(sink: &mut dyn Eraser, user: &str) -> Result<Erased, ForgetError> {
    let found = search(sink, user).await?;
    let wins = sink.count_wins(user).await?;
    let later = found.later.unwrap_or_default();
    let users = later.iter().filter_map(|change| change.win.as_ref());
    let users: BTreeSet<String> = users.map(|win| win.user.clone()).collect();
    let later_wins = sink.count_references(&Vec::from_iter(users)).await?;
    let mut erased = Erased {
        in_bytes: found.in_bytes,
        ..Erased::default()
    };
    erased.add(&found.own, wins);
    erased.add_later(&later, later_wins);
    Ok(erased)
}

/// Erases a user's clear values, and what came after earlier erasures of any user. It may be done
/// again at any time, and then erases what was added since.
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
        let found = search(sink, user).await?;
        erased.in_bytes = found.in_bytes;
        let is_last = round == ROUNDS_MAX;
        // Wins of other users that are delivered all the time, or do not read back, must not make
        // this one fail before its end.
        let (later, unreadable) = match found.later {
            Ok(later) => (later, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        if found.own.is_empty() && (later.is_empty() || is_last) {
            return unreadable.map_or(Ok(erased), Err);
        } else if is_last {
            break;
        }
        // In parts, so that neither a transaction nor those who wait for it take long. No part has
        // both, so the user's row in `erasures` names no other user's pseudonym.
        for part in found.own.chunks(CHANGED_AT_ONCE) {
            erased.add(part, sink.write(part, reason).await?);
        }
        for part in later.chunks(CHANGED_AT_ONCE) {
            erased.add_later(part, sink.write(part, reason).await?);
        }
    }
    Err(ForgetError::Unfinished)
}

/// What is to be erased.
struct Found {
    /// Entries of the user.
    own: Vec<Change>,
    /// Deliveries and revocations that came after their users were erased, if they read back.
    later: Result<Vec<Change>, ForgetError>,
    /// See [`Erased::in_bytes`].
    in_bytes: u64,
}

async fn search(sink: &mut dyn Eraser, user: &str) -> Result<Found, ForgetError> {
    let (rows, in_bytes) = sink.find(user).await?;
    let later = sink.find_later().await?;
    let known: BTreeSet<LedgerId> = later.iter().map(|row| row.id).collect();
    let later = changes(&later, change_later);
    let mut own = changes(&rows, |row| change(row, user))?;
    // Someone may erase a pseudonym as if it were an id. Its entries are among the later ones.
    own.retain(|change| !known.contains(&change.id));
    Ok(Found {
        own,
        later,
        in_bytes,
    })
}

/// The pseudonyms of the users in some entries, as a JSON list.
fn pseudonyms(changes: &[Change]) -> String {
    let all: BTreeSet<&str> = changes.iter().map(|it| it.pseudonym.as_str()).collect();
    serde_json::json!(all).to_string()
}

fn changes(
    rows: &[EntryRow],
    change: impl Fn(&EntryRow) -> Result<Option<Change>, Unreadable>,
) -> Result<Vec<Change>, ForgetError> {
    let changes = rows.iter().filter_map(|row| {
        let unreadable = |cause| ForgetError::Unreadable {
            partition: row.id.partition,
            sequence: row.id.sequence,
            cause,
        };
        change(row).map_err(unreadable).transpose()
    });
    changes.collect()
}
