//! The options that name the database which the ledger is settled into.

use std::path::PathBuf;

use clap::Args;

use super::{client::Outcome, failure::Failure};
use crate::{
    ledger::{PostgresUrl, SinkError},
    model::Problems,
};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "PostgreSQL")]
pub(super) struct SinkArgs {
    /// Settle the ledger into this database: postgres://user@host/database
    #[arg(
        long,
        env = "TOMBOLA_POSTGRES_URL",
        value_name = "URL",
        hide_env_values = true
    )]
    postgres_url: Option<String>,
    /// The file whose first line is the password, read for each connection
    #[arg(
        long,
        env = "TOMBOLA_POSTGRES_PASSWORD_FILE",
        value_name = "FILE",
        requires = "postgres_url"
    )]
    postgres_password_file: Option<PathBuf>,
}

impl SinkArgs {
    /// The database, if one is named.
    pub(super) fn url(&self, problems: &mut Problems) -> Option<PostgresUrl> {
        let url = PostgresUrl::parse(self.postgres_url.as_ref()?);
        let url = url.map_err(|error| problems.add("--postgres-url", error.to_string()));
        let file = self.postgres_password_file.clone();
        Some(url.ok()?.with_password_file(file))
    }

    /// The database, which must be named.
    pub(super) fn needed_url(&self) -> Outcome<PostgresUrl> {
        let mut problems = Problems::default();
        match self.url(&mut problems) {
            Some(url) => Ok(url),
            None if problems.is_empty() => Err(Failure::usage(
                "name the database of the ledger with --postgres-url",
            )),
            None => Err(Failure::options(problems)),
        }
    }
}

/// PostgreSQL did not do its work.
pub(super) fn failed(url: &PostgresUrl, error: &SinkError) -> Box<Failure> {
    let text = format!("{url}: {error}");
    if error.is_permanent() {
        Failure::refused("SINK", text)
    } else {
        Failure::unavailable(text)
    }
}
