//! The options of commands that work on the settled ledger itself: in PostgreSQL, or in the file of
//! an embedded store.

use std::path::PathBuf;

use clap::{
    ArgMatches, Args, Command, Error, FromArgMatches, error::ErrorKind, parser::ValueSource,
};

use super::{
    client::Outcome,
    failure::Failure,
    sink_args::{SinkArgs, failed},
};
use crate::ledger::{PostgresUrl, SinkError};

/// The options as they are named.
#[derive(Args, Clone, Debug)]
struct Named {
    #[command(flatten)]
    sink: SinkArgs,
    /// The data directory of an embedded store that settles into its own file
    #[arg(long, env = "TOMBOLA_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
}

/// The options. If the directory is named, the ledger is there.
#[derive(Clone, Debug)]
pub(super) struct LedgerArgs(Named);

impl FromArgMatches for LedgerArgs {
    /// What the command line names counts, whatever the variables say: the image sets that of the
    /// directory for every command. Of two variables that of the database counts, since a service
    /// that has both settles there.
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut named = Named::from_arg_matches(matches)?;
        let [data, url] = ["data", "postgres_url"].map(|id| matches.value_source(id));
        let line = Some(ValueSource::CommandLine);
        if data == line && url == line {
            let message = "the ledger is in one place: name it with --data or with \
                           --postgres-url, not with both\n";
            return Err(Error::raw(ErrorKind::ArgumentConflict, message));
        }
        if data != line && url.is_some() {
            named.data = None;
        }
        Ok(Self(named))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for LedgerArgs {
    fn augment_args(command: Command) -> Command {
        Named::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Named::augment_args_for_update(command)
    }
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
        let Named { sink, data } = &self.0;
        if let Some(data) = data {
            return Ok(Place::File(data.clone()));
        }
        let url = sink.needed_url().map_err(|failure| {
            failure.advise("for an embedded store, name its directory with --data")
        })?;
        Ok(Place::Database(Box::new(url)))
    }

    /// The ledger cannot be used.
    pub(super) fn failed(&self, error: &SinkError) -> Box<Failure> {
        let Named { sink, data } = &self.0;
        match (data, sink.needed_url()) {
            (None, Ok(url)) => failed(&url, error),
            (data, _) => {
                let data = data.clone().unwrap_or_default();
                Failure::refused("SINK", format!("{}: {error}", data.display()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(words: &[&str]) -> Result<Outcome<Place>, Error> {
        let command = LedgerArgs::augment_args(Command::new("audit"));
        let words = ["audit"].iter().chain(words);
        let matches = command.try_get_matches_from(words)?;
        Ok(LedgerArgs::from_arg_matches(&matches)?.place())
    }

    #[test]
    fn the_command_line_names_one_place() {
        let (data, url) = (
            "--data=here",
            "--postgres-url=postgres://reader@db.example/ledger",
        );
        assert!(matches!(place(&[data]), Ok(Ok(Place::File(_)))));
        assert!(matches!(place(&[url]), Ok(Ok(Place::Database(_)))));
        let both = place(&[data, url]).err().unwrap();
        assert_eq!(both.kind(), ErrorKind::ArgumentConflict);
    }
}
