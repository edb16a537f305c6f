//! What goes wrong at the database, as the store's errors.

use rusqlite::ErrorCode;

use crate::store::{Executed, StoreError};

/// The error of a call after the writer has stopped: there will be none in this process any more.
pub(super) fn stopped(executed: Executed) -> StoreError {
    unavailable(executed, "its writer has stopped: restart the service")
}

/// The error of a call that the store could not do.
pub(super) fn unavailable(executed: Executed, detail: &str) -> StoreError {
    StoreError::Unavailable {
        executed,
        detail: detail.into(),
    }
}

impl From<rusqlite::Error> for StoreError {
    /// A fault before the commit: the transaction is rolled back, so nothing happened.
    fn from(error: rusqlite::Error) -> Self {
        let detail = fault_text(&error);
        if is_damage(&error) {
            return Self::corrupt(detail);
        }
        Self::Unavailable {
            executed: Executed::No,
            detail,
        }
    }
}

/// The file is at fault, or a value in it: no retry helps.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as E;
    match error {
        E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::InvalidColumnType(..)
        | E::Utf8Error(..) => true,
        other => matches!(
            other.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        ),
    }
}

/// What SQLite says, and what helps if it is the file that is at fault.
pub(super) fn fault_text(error: &rusqlite::Error) -> String {
    if is_damage(error) {
        format!(
            "the database is damaged ({error}): stop the service, and restore a backup with \
             `tombola restore`"
        )
    } else {
        error.to_string()
    }
}
