//! The options of callers' connections: how long one may idle, and how long it may live.

use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use super::time::read_span;
use crate::model::Problems;

/// The bounds of a connection's time without calls, and of its life.
const TIME_MIN: Duration = Duration::from_secs(1);
const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// File descriptors that connections of callers leave to the store, the ledger and the log.
const DESCRIPTORS_KEPT: u64 = 256;

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
    /// The most connections at once; further ones are closed. It is lower if the process may not
    /// have as many file descriptors
    #[arg(
        long,
        env = "TOMBOLA_MAX_CONNECTIONS",
        value_name = "N",
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    max_connections: u32,
    /// The most connections of one address at once (of one /64 network with IPv6). No bound unless
    /// named
    #[arg(
        long,
        env = "TOMBOLA_MAX_CONNECTIONS_PER_ADDRESS",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    max_connections_per_address: Option<u32>,
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
        let mut read = |option, text: &str| {
            read_span(text, TIME_MIN..=TIME_MAX, "1s to 24h").unwrap_or_else(|problem| {
                problems.add(option, problem);
                Duration::ZERO
            })
        };
        let idle = read("--idle-timeout", &self.idle_timeout);
        let age = self.max_connection_age.as_deref();
        let age = age.map(|text| read("--max-connection-age", text));
        ConnectionTimes { idle, age }
    }

    /// The most connections of one address, if they are bounded.
    pub(super) fn per_address_max(&self) -> Option<usize> {
        let max = self.max_connections_per_address?;
        Some(usize::try_from(max).unwrap_or(usize::MAX))
    }

    /// The most connections: as many as the options say, if the process may have as many file
    /// descriptors. Its limit is raised as far as it may be.
    pub(super) fn bounded_by_descriptors(&self) -> usize {
        let wanted = u64::from(self.max_connections);
        let descriptors = descriptors(wanted + DESCRIPTORS_KEPT);
        let max = wanted.min(descriptors.saturating_sub(DESCRIPTORS_KEPT).max(1));
        if max < wanted {
            warn!(
                max,
                "the process may have {descriptors} file descriptors, so there may be {max} \
                 connections and not {wanted}: raise the limit (ulimit -n), or name fewer with \
                 --max-connections"
            );
        }
        usize::try_from(max).unwrap_or(usize::MAX)
    }
}

/// Raises the limit of file descriptors towards `wanted`; returns the limit.
fn descriptors(wanted: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let soft = current.unwrap_or(u64::MAX);
    if soft >= wanted {
        return soft;
    }
    let raised = wanted.min(maximum.unwrap_or(u64::MAX));
    let limit = Rlimit {
        current: Some(raised),
        maximum,
    };
    setrlimit(Resource::Nofile, limit).map_or(soft, |()| raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(idle: &str, age: Option<&str>) -> (ConnectionTimes, Problems) {
        let args = ConnectionArgs {
            idle_timeout: idle.into(),
            max_connection_age: age.map(str::to_owned),
            max_connections: 10_000,
            max_connections_per_address: None,
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
