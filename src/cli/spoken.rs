//! Passwords on the command line, where everybody can read them: none is taken from there.

use clap::{ArgMatches, parser::ValueSource};

use super::{client::Outcome, failure::Failure};
use crate::{ledger::PostgresUrl, store::redis::RedisUrl};

/// An option whose URL may have a password.
struct Secretive {
    id: &'static str,
    option: &'static str,
    variable: &'static str,
    /// The options for the password's file.
    files: &'static str,
    has_password: fn(&str) -> bool,
}

const SECRETIVE: [Secretive; 3] = [
    Secretive {
        id: "redis_url",
        option: "--redis-url",
        variable: "TOMBOLA_REDIS_URL",
        files: "--redis-password-file (--sentinel-password-file for that of sentinels)",
        has_password: redis_has_password,
    },
    Secretive {
        id: "postgres_url",
        option: "--postgres-url",
        variable: "TOMBOLA_POSTGRES_URL",
        files: "--postgres-password-file",
        has_password: postgres_has_password,
    },
    Secretive {
        id: "postgres_eraser_url",
        option: "--postgres-eraser-url",
        variable: "TOMBOLA_POSTGRES_ERASER_URL",
        files: "--postgres-eraser-password-file",
        has_password: postgres_has_password,
    },
];

fn redis_has_password(url: &str) -> bool {
    RedisUrl::parse(url).is_ok_and(|url| url.has_password())
}

fn postgres_has_password(url: &str) -> bool {
    PostgresUrl::parse(url).is_ok_and(|url| url.has_password())
}

/// Refuses a URL with a password that the command line has; one in a variable is fine.
pub(super) fn check(matches: &ArgMatches) -> Outcome {
    if let Some((_, inner)) = matches.subcommand() {
        return check(inner);
    }
    for Secretive {
        id,
        option,
        variable,
        files,
        has_password,
    } in SECRETIVE
    {
        let is_named = matches.ids().any(|named| named.as_str() == id)
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        let url = matches.try_get_one::<String>(id).ok().flatten();
        if is_named && url.is_some_and(|url| has_password(url)) {
            return Err(Failure::usage(format!(
                "{option} has a password, and everybody on this machine can read a command line: \
                 leave it out and name its file with {files}, or set the variable {variable} to \
                 the URL"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    fn checked(line: &str) -> Result<(), String> {
        let matches = command().try_get_matches_from(line.split(' ')).unwrap();
        check(&matches).map_err(|failure| failure.message)
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_with_what_to_do_and_not_shown() {
        for (line, words) in [
            (
                "serve --redis-url redis://u:secret@h",
                ["--redis-password-file", "TOMBOLA_REDIS_URL"],
            ),
            (
                "init --redis-url redis+sentinel://h/main?sentinel=:secret",
                ["--sentinel-password-file", "TOMBOLA_REDIS_URL"],
            ),
            (
                "migrate --postgres-url postgres://u:secret@h/db",
                ["--postgres-password-file", "TOMBOLA_POSTGRES_URL"],
            ),
            (
                "migrate --postgres-url postgres://u@h/db?password=secret",
                ["--postgres-password-file", "TOMBOLA_POSTGRES_URL"],
            ),
            (
                "serve --postgres-url postgres://u@h/db \
                 --postgres-eraser-url postgres://e:secret@h/db",
                [
                    "--postgres-eraser-password-file",
                    "TOMBOLA_POSTGRES_ERASER_URL",
                ],
            ),
        ] {
            let message = checked(&format!("tombola {line}")).unwrap_err();
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
        for line in [
            "serve --redis-url redis://h",
            "serve --redis-url redis://u@h --redis-password-file /run/redis",
            "migrate --postgres-url postgres://u@h/db --postgres-password-file /run/postgres",
            "stats",
        ] {
            assert_eq!(checked(&format!("tombola {line}")), Ok(()), "{line}");
        }
    }
}
