//! The embedded store: SQLite in WAL mode, one writer thread, one transaction for each batch, acknowledged after its fsync.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::clock::Clock;

/// How an embedded store is opened.
#[derive(Clone)]
pub struct Options {
    /// The directory of its files; made where it is missing.
    pub directory: PathBuf,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// How long request ids are remembered.
    pub request_memory: Duration,
    /// Tells one master key from another (see [`crate::chance::MasterKey`]); a store belongs to one key for ever.
    pub key_fingerprint: String,
}
