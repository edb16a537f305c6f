//! Input files of the operator. They are read and checked in full before anything is sent.

use std::{
    io::{self, ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use clap::{
    ArgMatches, Args, Command, Error, FromArgMatches, error::ErrorKind as Misuse,
    parser::ValueSource,
};

use super::{
    client::{Outcome, user_id},
    failure::Failure,
};
use crate::{
    model::{Problems, file},
    proto::{Campaign, Schedule},
};

/// The options as they are named.
#[derive(Args, Clone, Debug)]
struct Named {
    /// The file, YAML or JSON; - reads standard input
    #[arg(value_name = "FILE", required_unless_present = "file")]
    named: Option<PathBuf>,
    /// The same file, as an option
    #[arg(short, long, env = "TOMBOLA_FILE", value_name = "FILE")]
    file: Option<PathBuf>,
}

/// The input file of a command.
#[derive(Clone, Debug)]
pub(super) struct FileArgs(PathBuf);

impl FromArgMatches for FileArgs {
    /// The argument takes precedence over the variable. A second file on the command line would be
    /// ignored, so it is refused.
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let Named { named, file } = Named::from_arg_matches(matches)?;
        let is_option = matches.value_source("file") == Some(ValueSource::CommandLine);
        if named.is_some() && is_option {
            let message = "the file is named twice: name one, as an argument or with --file\n";
            return Err(Error::raw(Misuse::ArgumentConflict, message));
        }
        // The parser has checked that there is one.
        Ok(Self(named.or(file).unwrap_or_else(|| "-".into())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FileArgs {
    fn augment_args(command: Command) -> Command {
        Named::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Named::augment_args_for_update(command)
    }
}

impl FileArgs {
    /// The path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

/// Reads and checks the whole file, and reports all its problems at once.
pub(super) fn campaigns(path: &Path) -> Outcome<Vec<Campaign>> {
    let campaigns = file::check(&read(path)?);
    campaigns.map_err(|problems| Failure::problems(&shown(path), problems))
}

/// The text of a file, or of standard input for `-`.
pub(super) fn read(path: &Path) -> Outcome<String> {
    let text = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|error| {
        let (file, why) = (shown(path), why_unreadable(&error));
        Failure::refused("FILE_UNREADABLE", format!("cannot read {file}: {why}"))
    })
}

/// Why a file cannot be read.
pub(super) fn why_unreadable(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file".into(),
        ErrorKind::PermissionDenied => "you may not read it".into(),
        ErrorKind::IsADirectory => "it is a directory: name a file".into(),
        ErrorKind::NotADirectory => "a part of its path is no directory".into(),
        ErrorKind::InvalidData => "it is not UTF-8 text: save it as UTF-8".into(),
        _ => error.to_string(),
    }
}

/// The name of the input in messages.
pub(super) fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" {
        "standard input".into()
    } else {
        path.display().to_string()
    }
}

/// The schedule of one pool.
pub(super) fn schedule(path: &Path) -> Outcome<Schedule> {
    let schedule = file::parse_schedule(&read(path)?);
    schedule.map_err(|problems| Failure::problems(&shown(path), problems))
}

/// A list of users.
pub(super) fn users(path: &Path) -> Outcome<Vec<String>> {
    parse_list(&read(path)?).map_err(|problems| Failure::problems(&shown(path), problems))
}

/// Parses one id per line; lines end with LF or CR LF, and empty lines are skipped. An id is taken
/// byte for byte, so white space around it would name another user. That is most probably a
/// mistake, so it is refused.
fn parse_list(text: &str) -> Result<Vec<String>, Problems> {
    const WHITE_SPACE: &str = "begins or ends with white space: remove it; a user whose id really \
                               does can be named on the command line, in quotes";
    let mut problems = Problems::default();
    let mut users = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text); // a byte order mark
    for (index, line) in text.lines().enumerate() {
        let is_padded = line.trim() != line;
        match user_id(line) {
            _ if line.is_empty() => {}
            _ if is_padded => problems.add(format!("line {}", index + 1), WHITE_SPACE),
            Ok(user) => users.push(user),
            Err(problem) => problems.add(format!("line {}", index + 1), problem),
        }
    }
    problems.or(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_names_one_file() {
        let path = |words: &[&str]| -> Result<PathBuf, Error> {
            let command = FileArgs::augment_args(Command::new("apply"));
            let words = ["apply"].iter().chain(words);
            let matches = command.try_get_matches_from(words)?;
            Ok(FileArgs::from_arg_matches(&matches)?.0)
        };
        for words in [&["a.yaml"][..], &["-f", "a.yaml"], &["--file=a.yaml"]] {
            assert_eq!(path(words).unwrap(), Path::new("a.yaml"));
        }
        let both = path(&["a.yaml", "-f", "b.yaml"]).unwrap_err();
        assert_eq!(both.kind(), Misuse::ArgumentConflict);
        assert!(path(&[]).is_err());
    }

    #[test]
    fn a_list_of_users_names_every_wrong_line() {
        let users = parse_list("\u{feff}u-1\r\n\na, b\nauth0|5f\n老板\n#1").unwrap();
        assert_eq!(users, ["u-1", "a, b", "auth0|5f", "老板", "#1"]);
        let problems = parse_list("u-1\na\tb\nu-3\n u-4\nä\nu-5\u{a0}\n").unwrap_err();
        let paths: Vec<_> = problems
            .0
            .iter()
            .map(|problem| problem.path.as_str())
            .collect();
        assert_eq!(paths, ["line 2", "line 4", "line 6"]);
    }
}
