//! Why an embedded store was not opened.

use std::{io, path::Path};

use thiserror::Error;

use super::{
    faults::is_damage,
    open::{DATABASE_FILE, SCHEMA_VERSION},
};
use crate::{model::Moment, store::StoreError};

/// Why an embedded store was not opened. Nothing was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The directory or a file in it cannot be used.
    #[error(
        "cannot use the data directory {directory}: {cause}; name another one with --data, or fix \
         its permissions"
    )]
    Directory {
        /// Which.
        directory: String,
        /// Why.
        cause: io::Error,
    },
    /// Another process has the store open.
    #[error(
        "the data directory {0} is in use by another tombola process: stop that one, or name \
         another directory with --data"
    )]
    InUse(String),
    /// The file was written by a newer version.
    #[error(
        "{file} has schema version {found}, this version of tombola knows up to {SCHEMA_VERSION}: \
         use the newer tombola, or another --data"
    )]
    NewerSchema {
        /// Which file.
        file: String,
        /// The version that is needed to read it.
        found: u32,
    },
    /// The file is another program's, or nothing of ours is left in it.
    #[error(
        "{0} is not a tombola database: name another directory with --data; or, if it was one, it \
         is damaged: restore it from a backup with `tombola restore`"
    )]
    NotOurs(String),
    /// The file is ours and cannot be read any more.
    #[error(
        "{file} is a tombola database, and it is damaged: {what}. Restore it from a backup: move \
         the damaged file away, with its -wal and -shm files, and run `tombola restore`; nothing \
         was changed"
    )]
    Damaged {
        /// Which file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// The file is a backup that was not restored.
    #[error(
        "{0} is a backup, and lacks what happened after it was made: served as it is, it would \
         give units and entry numbers out again. Make a store of it with `tombola restore`, in a \
         directory without one"
    )]
    Backup(String),
    /// The master key is not the one that the store was made with.
    #[error(
        "the master key is not the one this data was made with: its seeds could not be computed \
         any more; put the right key back"
    )]
    WrongKey,
    /// The store was made on a test clock and is opened on the real one, or the other way round.
    #[error("{}", test_clock_text(*.0))]
    TestClock(bool),
    /// The real time is far behind that of the last entry.
    #[error(
        "the clock shows {now}, but the data was last written at {last}: set the machine's clock \
         right, or start again after that moment"
    )]
    ClockBehind {
        /// The clock.
        now: Moment,
        /// The last entry.
        last: Moment,
    },
    /// The database cannot be read or written.
    #[error("the database cannot be used: {0}")]
    Database(String),
}

fn test_clock_text(data_is_test: bool) -> &'static str {
    if data_is_test {
        "this data was made on a TEST clock: go on with --clock-start, or name another directory \
         with --data"
    } else {
        "this data is real, a TEST clock would spoil it: name another directory with --data, or \
         leave --clock-start out"
    }
}

impl OpenError {
    /// A fault of the database itself.
    pub(super) fn database(error: rusqlite::Error) -> Self {
        if is_damage(&error) {
            Self::damaged(error.to_string())
        } else {
            Self::Database(error.to_string())
        }
    }

    /// A fault of what is read from the database.
    pub(super) fn reading(error: StoreError) -> Self {
        match error {
            StoreError::Corrupt { detail, .. } => Self::damaged(detail),
            StoreError::Unavailable { detail, .. } => Self::Database(detail),
            other => Self::Database(other.to_string()),
        }
    }

    pub(super) fn damaged(what: String) -> Self {
        Self::Damaged {
            file: DATABASE_FILE.into(),
            what,
        }
    }

    /// The same with the path of the file.
    pub(super) fn of(self, path: &Path) -> Self {
        match self {
            Self::Damaged { what, .. } => Self::Damaged {
                file: path.display().to_string(),
                what,
            },
            other => other,
        }
    }
}
