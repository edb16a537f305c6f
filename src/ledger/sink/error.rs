//! Why a sink did not do what it was asked.

use std::{
    error::Error as _,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use thiserror::Error;
use tokio_postgres::error::Severity;

use crate::{password::PasswordError, store::StoreError, tls::TlsError};

/// Why the sink did not do what it was asked. Whether a transaction was committed is then not
/// known: the cursor says it.
#[derive(Debug, Error)]
pub enum SinkError {
    /// The connection, or a statement, failed.
    #[error("PostgreSQL: {}", text(.0))]
    Postgres(#[from] tokio_postgres::Error),
    /// The role that erases users lacks a right.
    #[error(
        "PostgreSQL: {}: grant the role USAGE on the schema `tombola`, SELECT on its tables, \
         UPDATE (user_id, request_id, people) on `entries`, UPDATE (user_id, request_id, \
         delivery_reference) on `wins`, and INSERT on `erasures`",
        text(.0)
    )]
    EraserLacksRight(tokio_postgres::Error),
    /// The embedded store, which has the tables.
    #[error("the embedded store: {0}")]
    Embedded(#[from] StoreError),
    /// A directory of files cannot be used.
    #[error("the directory {} cannot be used: {cause}", .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Another process writes to the directory.
    #[error(
        "another process writes to the directory {}: stop that one, or name another directory",
        .0.display()
    )]
    DirectoryInUse(PathBuf),
    /// A file is not as this version has written it.
    #[error(
        "the file {} is damaged, or a later version wrote it: restore it, or use that version",
        .0.display()
    )]
    DirectoryDamaged(PathBuf),
    /// No answer.
    #[error("PostgreSQL did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The password cannot be read.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// A file of TLS cannot be used.
    #[error("the PostgreSQL URL: {0}")]
    TlsFile(#[from] TlsError),
    /// The settings of TLS cannot be used.
    #[error("TLS to PostgreSQL cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The tables are not there, or are those of an earlier version.
    #[error(
        "the schema `tombola` in PostgreSQL is of version {found}, and this version needs \
         {needed}: run `tombola migrate`"
    )]
    NotMigrated {
        /// The schema's version; 0 if there is none.
        found: i32,
        /// What is needed.
        needed: i32,
    },
    /// The embedded store's file is of an earlier version, and is not open.
    #[error(
        "the data are of an earlier version of tombola: start `tombola serve` of this version on \
         them once, which brings them up to date"
    )]
    OlderFile,
    /// The embedded store's file is of a later version that this one would misread.
    #[error(
        "the data are of a later version of tombola, and this one would misread them: use that \
         version"
    )]
    LaterFile,
    /// A later version has changed the tables so that this one does not understand them.
    #[error(
        "the schema `tombola` in PostgreSQL needs a version of tombola that knows schema \
         {min_reader}, and this one knows schema {known}: replace it by the newer version"
    )]
    NewerSchema {
        /// The lowest schema version that a program must know.
        min_reader: i32,
        /// What this version knows.
        known: i32,
    },
    /// The database has the ledger of another store.
    #[error(
        "the sink has the ledger of another store, {found}, and this is store {store}: name a \
         database or directory of its own for each store"
    )]
    OtherStore {
        /// The database's.
        found: String,
        /// This one's.
        store: String,
    },
    /// PostgreSQL would lose what it says it has committed.
    #[error(
        "PostgreSQL runs with {0}, so a crash may undo what is settled, after the store has given \
         it up: set it to on"
    )]
    NotDurable(&'static str),
    /// A migration failed.
    #[error("the schema in PostgreSQL cannot be migrated: {0}")]
    Migration(#[from] refinery::Error),
}

impl SinkError {
    /// A fault of a directory of files.
    pub(super) fn directory(path: &Path, cause: io::Error) -> Self {
        Self::Directory {
            path: path.to_owned(),
            cause,
        }
    }

    /// Whether the connection is of no use any more, so that all further calls would fail.
    pub fn is_of_connection(&self) -> bool {
        match self {
            Self::Postgres(error) => error.is_closed() || is_fatal(error),
            Self::TimedOut(_) => true,
            _ => false,
        }
    }

    /// Whether someone must change something before it can work.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Postgres(_) | Self::Embedded(_) | Self::Directory { .. } | Self::TimedOut(_) => {
                false
            }
            Self::EraserLacksRight(_)
            | Self::DirectoryInUse(_)
            | Self::DirectoryDamaged(_)
            | Self::Password(_)
            | Self::TlsFile(_)
            | Self::Tls(_)
            | Self::NotMigrated { .. }
            | Self::OlderFile
            | Self::LaterFile
            | Self::NewerSchema { .. }
            | Self::OtherStore { .. }
            | Self::NotDurable(_)
            | Self::Migration(_) => true,
        }
    }
}

/// Whether PostgreSQL has ended the session, as when it is shut down.
fn is_fatal(error: &tokio_postgres::Error) -> bool {
    let severity = error
        .as_db_error()
        .and_then(|error| error.parsed_severity());
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

/// What the driver says, with its cause.
fn text(error: &tokio_postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        let hint = db.hint().map_or(String::new(), |hint| format!(": {hint}"));
        return format!("{} ({}){hint}", db.message(), db.code().code());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
