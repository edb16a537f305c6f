//! The options of callers' connections: how long one may idle, and how long it may live.

use std::time::Duration;

use clap::Args;

use super::time::parse_span;
use crate::model::Problems;

/// The shortest and the longest time without calls on a connection.
const IDLE_MIN: Duration = Duration::from_secs(1);
const IDLE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest and the longest life of a connection, if it is bounded.
const AGE_MIN: Duration = Duration::from_secs(1);
const AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Args, Clone, Debug)]
pub(super) struct ConnectionArgs {
    /// How long a connection may be without calls before it is closed
    #[arg(
        long,
        env = "TOMBOLA_IDLE_TIMEOUT",
        value_name = "SPAN",
        default_value = "10m"
    )]
    idle_timeout: String,
    /// The age at which clients are asked to connect again, so that they find new servers; each
    /// connection's differs by up to a tenth. Calls that have begun go on. No bound unless named
    #[arg(long, env = "TOMBOLA_MAX_CONNECTION_AGE", value_name = "SPAN")]
    max_connection_age: Option<String>,
}

/// The bounds of a connection, after their checks.
pub(super) struct ConnectionTimes {
    /// How long it may be without calls.
    pub(super) idle: Duration,
    /// How long it may live, if that is bounded.
    pub(super) age: Option<Duration>,
}

impl ConnectionArgs {
    /// Checks the options. The values of bad ones are not used: they are in `problems`.
    pub(super) fn times(&self, problems: &mut Problems) -> ConnectionTimes {
        let mut read = |option, text: &str, min, max| {
            read_span(text, min, max).unwrap_or_else(|problem| {
                problems.add(option, problem);
                Duration::ZERO
            })
        };
        let idle = read("--idle-timeout", &self.idle_timeout, IDLE_MIN, IDLE_MAX);
        let age = self.max_connection_age.as_deref();
        let age = age.map(|text| read("--max-connection-age", text, AGE_MIN, AGE_MAX));
        ConnectionTimes { idle, age }
    }
}

fn read_span(text: &str, min: Duration, max: Duration) -> Result<Duration, String> {
    let span = parse_span(text).map_err(|error| format!("`{text}`: {error}"))?;
    match Duration::try_from(span) {
        Ok(span) if (min..=max).contains(&span) => Ok(span),
        _ => Err(format!("`{text}` is out of range: 1s to 24h")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(idle: &str, age: Option<&str>) -> (ConnectionTimes, Problems) {
        let args = ConnectionArgs {
            idle_timeout: idle.into(),
            max_connection_age: age.map(str::to_owned),
        };
        let mut problems = Problems::default();
        (args.times(&mut problems), problems)
    }

    #[test]
    fn times_of_connections_are_checked() {
        let (times, problems) = read("10m", None);
        assert!(problems.is_empty(), "{problems}");
        assert_eq!((times.idle, times.age), (Duration::from_secs(600), None));
        assert_eq!(read("1s", Some("5m")).0.age, Some(Duration::from_secs(300)));
        for bad in ["", "5", "-1m", "0s", "2d", "soon"] {
            let (_, problems) = read(bad, Some(bad));
            let problems = problems.to_string();
            assert!(problems.contains("--idle-timeout"), "{bad}: {problems}");
            assert!(
                problems.contains("--max-connection-age"),
                "{bad}: {problems}"
            );
        }
    }
}
