//! The options of commands that work on the settled ledger itself: in PostgreSQL, or in the file of
//! an embedded store.

use std::path::PathBuf;

use clap::Args;

use super::{
    client::Outcome,
    failure::Failure,
    sink_args::{SinkArgs, failed},
};
use crate::ledger::{PostgresUrl, SinkError};

#[derive(Args, Clone, Debug)]
pub(super) struct LedgerArgs {
    #[command(flatten)]
    sink: SinkArgs,
    /// The data directory of an embedded store that settles into its own file
    #[arg(
        long,
        env = "TOMBOLA_DATA",
        value_name = "DIR",
        conflicts_with = "postgres_url"
    )]
    data: Option<PathBuf>,
}

/// Where the settled ledger is.
pub(super) enum Place {
    /// In the directory of an embedded store's data.
    File(PathBuf),
    /// In PostgreSQL.
    Database(Box<PostgresUrl>),
}

impl LedgerArgs {
    /// The place, which must be named.
    pub(super) fn place(&self) -> Outcome<Place> {
        if let Some(data) = &self.data {
            return Ok(Place::File(data.clone()));
        }
        let url = self.sink.needed_url().map_err(|failure| {
            failure.advise("for an embedded store, name its directory with --data")
        })?;
        Ok(Place::Database(Box::new(url)))
    }

    /// The ledger cannot be used.
    pub(super) fn failed(&self, error: &SinkError) -> Box<Failure> {
        match (&self.data, self.sink.needed_url()) {
            (None, Ok(url)) => failed(&url, error),
            (data, _) => {
                let data = data.clone().unwrap_or_default();
                Failure::refused("SINK", format!("{}: {error}", data.display()))
            }
        }
    }
}
