//! What `serve` and `demo` share: the embedded store, its key and its injector.

use std::{path::PathBuf, sync::Arc, time::Duration};

use thiserror::Error;

use super::key::{self, KeyError};
use crate::{
    injector::Injector,
    store::{
        Store,
        clock::Clock,
        sqlite::{DATABASE_FILE, DirectoryLock, OpenError, Options, SqliteStore},
    },
};

/// What the house is built from.
pub(super) struct Plan {
    /// The directory of data and key.
    pub(super) data: PathBuf,
    /// The store's clock.
    pub(super) clock: Arc<dyn Clock>,
    /// How long request ids are remembered.
    pub(super) request_memory: Duration,
    /// How long before its start a window is injected.
    pub(super) lead: Duration,
}

/// Why the house was not built. Nothing was changed.
#[derive(Debug, Error)]
pub(super) enum BuildError {
    /// No key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is a key, but what it was made for is gone.
    #[error(
        "{0} has a master key but no data: restore {DATABASE_FILE} with its -wal file from a backup; \
         if nothing was ever served from there, remove master.key to begin anew"
    )]
    DataLost(String),
    /// No store.
    #[error(transparent)]
    Store(#[from] OpenError),
}

/// Opens the store and makes its injector.
pub(super) fn build(plan: Plan) -> Result<Arc<Injector>, BuildError> {
    let lock = DirectoryLock::take(&plan.data)?;
    let has_data = SqliteStore::exists(&lock, &plan.data)?;
    if !has_data && key::exists(&plan.data) {
        return Err(BuildError::DataLost(plan.data.display().to_string()));
    }
    let key = key::load(&plan.data, has_data)?;
    let store = SqliteStore::open_locked(
        lock,
        Options {
            directory: plan.data,
            clock: plan.clock,
            request_memory: plan.request_memory,
            key_fingerprint: key.fingerprint(),
        },
    )?;
    let store: Arc<dyn Store> = Arc::new(store);
    Ok(Arc::new(Injector::new(store, key, plan.lead)))
}
