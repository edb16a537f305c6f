//! The options of a run.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, builder::BoolishValueParser, value_parser};
use jiff::SignedDuration;

use crate::{
    campaigns::UNITS_MAX,
    failure::{Failure, Outcome},
    load::Plan,
    program,
    scenario::Scenario,
    service::{Address, server_url},
    subject::{Kind, Store},
    tls_args::TlsArgs,
    token_args::TokenArgs,
};

const CONNECTIONS_MAX: u64 = 10_000;
const OUTSTANDING_MAX: u64 = 1000;
const RATE_MAX: u64 = 10_000_000;
const TIME_MIN: Duration = Duration::from_millis(50);
const TIME_MAX: Duration = Duration::from_secs(86_400);
/// Waiting units for each second of draws: more than one core can draw.
const UNITS_A_SECOND: u64 = 100_000;
const UNITS_MIN: u64 = 10_000;
/// How many such pools a published method may empty: it is called without gRPC.
const POOLS_OF_A_BASELINE: u64 = 2;

#[derive(Args, Clone, Debug)]
pub(crate) struct BenchArgs {
    /// A running server to put under load, instead of services that the bench starts
    #[arg(long, env = "TOMBOLA_BENCH_SERVER", value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    token: TokenArgs,
    /// Scenarios to run, one or more; empty is always run
    #[arg(
        long,
        env = "TOMBOLA_BENCH_SCENARIO",
        value_enum,
        value_delimiter = ',',
        value_name = "NAMES",
        default_value = "draw,check"
    )]
    scenario: Vec<Scenario>,
    /// Stores of the services that the bench starts, one or more [default: embedded, or redis with
    /// --redis-url or --baselines]
    #[arg(
        long,
        env = "TOMBOLA_BENCH_STORE",
        value_enum,
        value_delimiter = ',',
        value_name = "STORES"
    )]
    store: Vec<Store>,
    /// A running Redis instead of one that the bench starts: redis://; the bench removes its keys
    /// at the end
    #[arg(
        long,
        env = "TOMBOLA_BENCH_REDIS_URL",
        value_name = "URL",
        hide_env_values = true
    )]
    redis_url: Option<String>,
    /// Also run published methods to draw on the same Redis, and show which promises they break
    #[arg(long, env = "TOMBOLA_BENCH_BASELINES", value_parser = BoolishValueParser::new())]
    baselines: bool,
    /// Connections
    #[arg(long, env = "TOMBOLA_BENCH_CONNECTIONS", value_name = "N", default_value_t = 8,
          value_parser = value_parser!(u64).range(1..=CONNECTIONS_MAX))]
    connections: u64,
    /// Calls in progress at once on each connection
    #[arg(long, env = "TOMBOLA_BENCH_OUTSTANDING", value_name = "N", default_value_t = 128,
          value_parser = value_parser!(u64).range(1..=OUTSTANDING_MAX))]
    outstanding: u64,
    /// Calls per second at a fixed rate, whether or not earlier calls were answered; latencies
    /// count from when a call should have been sent
    #[arg(long, env = "TOMBOLA_BENCH_RATE", value_name = "N", conflicts_with = "outstanding",
          value_parser = value_parser!(u64).range(1..=RATE_MAX))]
    rate: Option<u64>,
    /// The length of a round
    #[arg(long, env = "TOMBOLA_BENCH_DURATION", value_name = "SPAN", default_value = "5s",
          value_parser = span)]
    duration: Duration,
    /// The length of the warm-up before the first round, which does not count
    #[arg(long, env = "TOMBOLA_BENCH_WARM_UP", value_name = "SPAN", default_value = "2s",
          value_parser = span)]
    warm_up: Duration,
    /// The number of rounds; tables show the median
    #[arg(long, env = "TOMBOLA_BENCH_ROUNDS", value_name = "N", default_value_t = 3,
          value_parser = value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Units that wait in the schedule's pool, and in that of each published method [default:
    /// enough for all rounds, up to 10,000,000]
    #[arg(long, env = "TOMBOLA_BENCH_UNITS", value_name = "N",
          value_parser = value_parser!(u64).range(1..=UNITS_MAX))]
    units: Option<u64>,
    /// Units a second that the scenario inject injects
    #[arg(long, env = "TOMBOLA_BENCH_INJECT_RATE", value_name = "N", default_value_t = 100_000,
          value_parser = value_parser!(u64).range(1..=UNITS_MAX))]
    inject_rate: u64,
    /// Directory for temporary data: its disk is part of the measurement [default: the system's
    /// temporary directory]
    #[arg(long, env = "TOMBOLA_BENCH_DIRECTORY", value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Write a page with curves to this file; it needs no other file
    #[arg(long, env = "TOMBOLA_BENCH_REPORT", value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// The options after their checks.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) subjects: Vec<Kind>,
    pub(crate) baselines: bool,
    pub(crate) plan: Plan,
    pub(crate) warm_up: Duration,
    pub(crate) rounds: u64,
    pub(crate) units: u64,
    pub(crate) inject_rate: u64,
    pub(crate) directory: PathBuf,
    pub(crate) report: Option<PathBuf>,
}

impl BenchArgs {
    /// Checks what the parser cannot check. `program` is the server program if one was named.
    pub(crate) fn read(self, program: Option<PathBuf>) -> Outcome<Settings> {
        let subjects = match &self.server {
            Some(server) => self.running(server)?,
            None => self.own(program)?,
        };
        let mut scenarios = Vec::new();
        for scenario in self.scenario {
            if scenario != Scenario::Empty && !scenarios.contains(&scenario) {
                scenarios.push(scenario);
            }
        }
        let round = self.duration.as_millis() as u64;
        let millis = self.warm_up.as_millis() as u64 + self.rounds.saturating_mul(round);
        let enough = enough(&scenarios, self.baselines, millis);
        let directory = directory(self.directory)?;
        if let Some(report) = &self.report {
            check_report(report)?;
        }
        Ok(Settings {
            scenarios,
            subjects,
            baselines: self.baselines,
            plan: Plan {
                connections: self.connections as usize,
                outstanding: self.outstanding as usize,
                rate: self.rate,
                time: self.duration,
                calls_max: u64::MAX,
            },
            warm_up: self.warm_up,
            rounds: self.rounds,
            units: self.units.unwrap_or(enough),
            inject_rate: self.inject_rate,
            directory,
            report: self.report,
        })
    }

    fn running(&self, server: &str) -> Outcome<Vec<Kind>> {
        if !self.store.is_empty() || self.redis_url.is_some() || self.baselines {
            return Err(Failure::usage(
                "--store, --redis-url and --baselines are for services that the bench starts: \
                 leave them out, or leave out --server",
            ));
        }
        let url = server_url(server)
            .map_err(|problem| Failure::usage(format!("--server {server}: {problem}")))?;
        let tls = self.tls.config(&url)?;
        let credentials = self.token.credentials(&url)?;
        let address = Address::new(url, tls, credentials);
        Ok(vec![Kind::Running { address }])
    }

    fn own(&self, program: Option<PathBuf>) -> Outcome<Vec<Kind>> {
        let mut stores = self.store.clone();
        if stores.is_empty() {
            let on_redis = self.redis_url.is_some() || self.baselines;
            stores.push(if on_redis {
                Store::Redis
            } else {
                Store::Embedded
            });
        }
        if self.baselines && !stores.contains(&Store::Redis) {
            return Err(Failure::usage(
                "--baselines draws on the Redis of a service: add redis to --store",
            ));
        }
        if self.redis_url.is_some() && stores.contains(&Store::RedisFast) {
            return Err(Failure::usage(
                "--store redis-fast sets appendfsync to everysec, which the bench does to a Redis \
                 of its own only: leave out --redis-url",
            ));
        }
        if self.redis_url.is_some() && stores.contains(&Store::RedisStrict) {
            return Err(Failure::usage(
                "--store redis-strict needs a replica, which the bench gives to a Redis of its \
                 own only: leave out --redis-url",
            ));
        }
        if self.redis_url.is_some() && !stores.contains(&Store::Redis) {
            return Err(Failure::usage("--redis-url needs redis among --store"));
        }
        let program = program::find(program)?;
        let mut kinds: Vec<Kind> = Vec::new();
        for (index, store) in stores.iter().enumerate() {
            if !stores[..index].contains(store) {
                kinds.push(Kind::Own {
                    program: program.clone(),
                    store: *store,
                    redis_url: self.redis_url.clone(),
                    is_shedding: false,
                });
            }
        }
        Ok(kinds)
    }
}

/// Units that are enough for all draws of a run of this length, as far as a pool can have them.
fn enough(scenarios: &[Scenario], baselines: bool, millis: u64) -> u64 {
    let drawing = scenarios.iter().filter(|one| one.draws_from_the_schedule());
    let pools = (drawing.count() as u64).max(if baselines { POOLS_OF_A_BASELINE } else { 0 });
    let units = millis.saturating_mul(UNITS_A_SECOND * pools) / 1000;
    units.clamp(UNITS_MIN, UNITS_MAX)
}

/// The directory for temporary data.
pub(crate) fn directory(named: Option<PathBuf>) -> Outcome<PathBuf> {
    let directory = named.unwrap_or_else(std::env::temp_dir);
    if directory.is_dir() {
        return Ok(directory);
    }
    Err(Failure::usage(format!(
        "--directory: there is no directory {}: make it first, or name another one",
        directory.display()
    )))
}

/// Checks that the report can be written, before the run.
pub(crate) fn check_report(file: &Path) -> Outcome {
    let directory = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let message = match directory {
        _ if file.is_dir() => format!("{} is a directory: name a file", file.display()),
        Some(directory) if !directory.is_dir() => {
            format!(
                "there is no directory {}: make it first",
                directory.display()
            )
        }
        _ => match try_to_open(file) {
            Ok(()) => return Ok(()),
            Err(error) => format!("{} cannot be written: {error}", file.display()),
        },
    };
    Err(Failure::usage(format!("--report: {message}")))
}

/// Opens a file for writing and leaves it as it was; one that was not there is removed again.
fn try_to_open(file: &Path) -> io::Result<()> {
    // A pipe waits for its reader, and a device may do anything.
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return Ok(());
    }
    let is_new = fs::symlink_metadata(file).is_err();
    OpenOptions::new().create(true).append(true).open(file)?;
    match is_new {
        true => fs::remove_file(file),
        false => Ok(()),
    }
}

/// A span of time, e.g. `5s` or `200ms`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let form = || format!("`{text}` is no span of time: write one like 5s, 200ms or 1m");
    let span: SignedDuration = text.parse().map_err(|_| form())?;
    let span = Duration::try_from(span).map_err(|_| form())?;
    if span < TIME_MIN || span > TIME_MAX {
        return Err(format!("`{text}` is out of range: 50ms to 24h"));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_enough_for_what_draws_the_fastest() {
        assert_eq!(enough(&[Scenario::Draw], false, 17_000), 1_700_000);
        assert_eq!(enough(&[Scenario::Deck], false, 17_000), UNITS_MIN);
        for scenario in [Scenario::Draw, Scenario::Deck] {
            assert_eq!(enough(&[scenario], true, 17_000), 3_400_000);
        }
        assert_eq!(enough(&[Scenario::Draw], false, u64::MAX), UNITS_MAX);
    }

    #[test]
    fn a_report_is_tried_before_the_run_and_left_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("report.html");
        check_report(&file).unwrap();
        assert!(!file.exists());
        fs::write(&file, "before").unwrap();
        check_report(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "before");
        // No file system takes such a name.
        let refused = check_report(&directory.path().join("x".repeat(1000))).unwrap_err();
        assert!(refused.message.contains("--report"), "{refused}");
    }

    #[test]
    fn spans_are_checked() {
        assert_eq!(span("200ms"), Ok(Duration::from_millis(200)));
        for bad in ["", "5", "0s", "-1s", "soon", "48h"] {
            assert!(span(bad).unwrap_err().contains(bad), "{bad}");
        }
    }
}
