//! The options that name the database which the ledger is settled into.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::{client::Outcome, failure::Failure, time::read_span};
use crate::{
    ledger::{PostgresUrl, SinkError},
    model::Problems,
    store::BacklogBound,
};

/// How long a closed campaign stays unless the options say so.
const KEEP_CLOSED: Duration = Duration::from_secs(30 * 86_400);
/// The shortest and the longest age of an entry that waits, and of a closed campaign.
const AGE_MIN: Duration = Duration::from_secs(60);
const AGE_MAX: Duration = Duration::from_secs(3650 * 86_400);

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

/// The role that erases users.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "PostgreSQL")]
pub(super) struct EraserArgs {
    /// Erase users, for operators who may, by this role of the same database, which may change
    /// entries: postgres://eraser@host/database
    #[arg(
        long,
        env = "TOMBOLA_POSTGRES_ERASER_URL",
        value_name = "URL",
        hide_env_values = true,
        requires = "postgres_url"
    )]
    postgres_eraser_url: Option<String>,
    /// The file whose first line is this role's password, read for each connection
    #[arg(
        long,
        env = "TOMBOLA_POSTGRES_ERASER_PASSWORD_FILE",
        value_name = "FILE",
        requires = "postgres_eraser_url"
    )]
    postgres_eraser_password_file: Option<PathBuf>,
}

impl EraserArgs {
    /// The role, if one is named.
    pub(super) fn url(&self, problems: &mut Problems) -> Option<PostgresUrl> {
        let url = self.postgres_eraser_url.as_ref()?;
        let file = self.postgres_eraser_password_file.clone();
        parsed("--postgres-eraser-url", url, file, problems)
    }
}

/// How much of the ledger may wait to be settled.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "PostgreSQL")]
pub(super) struct BacklogArgs {
    /// Refuse draws while as many entries of a partition wait to be settled
    #[arg(
        long,
        env = "TOMBOLA_BACKLOG_ENTRIES",
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1000..)
    )]
    backlog_entries: u64,
    /// Refuse draws while an entry waits for as long to be settled
    #[arg(
        long,
        env = "TOMBOLA_BACKLOG_AGE",
        value_name = "SPAN",
        default_value = "72h"
    )]
    backlog_age: String,
}

impl BacklogArgs {
    /// The bound.
    pub(super) fn bound(&self) -> Result<BacklogBound, String> {
        Ok(BacklogBound {
            entries: self.backlog_entries,
            age: read_age(&self.backlog_age)?,
        })
    }
}

/// When closed campaigns leave the store.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "PostgreSQL")]
pub(super) struct RemovalArgs {
    /// How long a closed campaign stays in the store after the last thing that happened to it; its
    /// ledger must be settled where it can be queried [default: 30d]
    #[arg(long, env = "TOMBOLA_KEEP_CLOSED", value_name = "SPAN")]
    keep_closed: Option<String>,
}

impl RemovalArgs {
    /// The time, which is not shorter than `least`, for which draws are remembered.
    pub(super) fn keep(&self, least: Duration) -> Result<Duration, String> {
        let Some(text) = &self.keep_closed else {
            return Ok(KEEP_CLOSED.max(least));
        };
        let keep = read_age(text)?;
        if keep < least {
            return Err(format!(
                "`{text}` is shorter than --request-memory: a draw that is remembered could not be \
                 answered again; name a longer time"
            ));
        }
        Ok(keep)
    }
}

impl SinkArgs {
    /// The database, if one is named.
    pub(super) fn url(&self, problems: &mut Problems) -> Option<PostgresUrl> {
        let url = self.postgres_url.as_ref()?;
        let file = self.postgres_password_file.clone();
        parsed("--postgres-url", url, file, problems)
    }

    /// The database, which must be named.
    pub(super) fn needed_url(&self) -> Outcome<PostgresUrl> {
        self.url_if_named()?
            .ok_or_else(|| Failure::usage("name the database of the ledger with --postgres-url"))
    }

    /// The database; none if none is named.
    pub(super) fn url_if_named(&self) -> Outcome<Option<PostgresUrl>> {
        let mut problems = Problems::default();
        let url = self.url(&mut problems);
        if problems.is_empty() {
            return Ok(url);
        }
        Err(Failure::options(problems))
    }
}

/// Reads the age of an entry that waits, or of a closed campaign.
fn read_age(text: &str) -> Result<Duration, String> {
    read_span(text, AGE_MIN..=AGE_MAX, "1m to 3650d")
}

/// The database that an option names.
fn parsed(
    option: &str,
    url: &str,
    password_file: Option<PathBuf>,
    problems: &mut Problems,
) -> Option<PostgresUrl> {
    let url = PostgresUrl::parse(url);
    let url = url.map_err(|error| problems.add(option, error.to_string()));
    Some(url.ok()?.with_password_file(password_file))
}

/// The sink did not do its work.
pub(super) fn failed(url: &impl std::fmt::Display, error: &SinkError) -> Box<Failure> {
    let text = format!("{url}: {error}");
    if error.is_permanent() {
        Failure::refused("SINK", text)
    } else {
        Failure::unavailable(text)
    }
}
