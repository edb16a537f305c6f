//! The options of `tombola-bench soak`, and the times that follow from them.

use std::{path::PathBuf, time::Duration};

use clap::{Args, value_parser};

use crate::{
    failure::{Failure, Outcome},
    options::span,
    output::note,
    subject::Store,
};

/// The fastest clock that a service takes.
const SPEED_MAX: f64 = 1000.0;
const DAY_S: f64 = 86_400.0;

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "It takes --duration and some minutes, of which most are the audit. It ends with 1
if sums or the audit are wrong, if a call failed for good, or if a service logged an error or ended
by itself. A figure that is not flat is reported, no failure.

Example:
  tombola-bench soak --report soak.md
  tombola-bench soak --duration 6m --days 4 --store embedded --rate 500"
)]
pub(crate) struct SoakArgs {
    /// How long the load lasts
    #[arg(long, env = "TOMBOLA_BENCH_SOAK_DURATION", value_name = "SPAN", default_value = "2h",
          value_parser = span)]
    duration: Duration,
    /// How many days pass meanwhile by the clock of the stores, which is at most 1000 times as fast
    #[arg(long, env = "TOMBOLA_BENCH_SOAK_DAYS", value_name = "DAYS", default_value = "30",
          value_parser = days)]
    days: f64,
    /// The stores, all under load at the same time: embedded, redis-settled
    #[arg(
        long,
        env = "TOMBOLA_BENCH_SOAK_STORE",
        value_enum,
        value_name = "STORE",
        value_delimiter = ',',
        default_value = "embedded,redis-settled"
    )]
    store: Vec<Store>,
    /// Calls a second on each store [default: a quarter of what it answers at most while all are
    /// under load, which is measured first]
    #[arg(long, env = "TOMBOLA_BENCH_SOAK_RATE", value_name = "N",
          value_parser = value_parser!(u64).range(1..=100_000))]
    pub(super) rate: Option<u64>,
    /// How many users there are
    #[arg(long, env = "TOMBOLA_BENCH_SOAK_USERS", value_name = "N", default_value_t = 200_000,
          value_parser = value_parser!(u64).range(1..=100_000_000))]
    pub(super) users: u64,
    /// How often one of several services is stopped and started again [default: a 24th of
    /// --duration]. An only service is restarted six times less often
    #[arg(long, env = "TOMBOLA_BENCH_SOAK_RESTART_EVERY", value_name = "SPAN", value_parser = span)]
    restart_every: Option<Duration>,
    /// Write the figures as Markdown to this file
    #[arg(long, env = "TOMBOLA_BENCH_SOAK_REPORT", value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Directory for temporary data [default: the system's temporary directory]. A draw takes some
    /// hundred bytes of the ledger
    #[arg(long, env = "TOMBOLA_BENCH_SOAK_DIRECTORY", value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,
}

/// The times of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    /// The real time that the load lasts.
    pub(super) load: Duration,
    /// The time that passes meanwhile by the clock of the stores.
    pub(super) story: Duration,
    pub(super) speed: u32,
    /// The real time between restarts of one of several services.
    pub(super) restart_every: Duration,
}

impl SoakArgs {
    /// The stores, each with a ledger that is settled: the audit reads it.
    pub(super) fn stores(&self) -> Outcome<&[Store]> {
        let fits = |store: &Store| matches!(store, Store::Embedded | Store::RedisSettled);
        let Some(other) = self.store.iter().find(|store| !fits(store)) else {
            return Ok(&self.store);
        };
        Err(Failure::usage(format!(
            "--store {}: a soak audits a ledger that is settled, by services without TLS: take \
             embedded or redis-settled",
            other.name()
        )))
    }

    /// The times: the clock's speed is a whole number, so the load may be a little shorter.
    pub(super) fn times(&self) -> Outcome<Times> {
        let story = Duration::from_secs_f64((self.days * DAY_S).round());
        let exact = story.as_secs_f64() / self.duration.as_secs_f64();
        let speed = exact.ceil().max(1.0);
        if speed > SPEED_MAX {
            let most = self.duration.as_secs_f64() * SPEED_MAX / DAY_S;
            return Err(Failure::usage(format!(
                "--days: the clock would be {speed} times as fast, and 1000 times is the most: \
                 take a longer --duration, or at most {most:.2} days"
            )));
        }
        let load = story.div_f64(speed);
        if (load.as_secs_f64() - self.duration.as_secs_f64()).abs() > 1.0 {
            note(&format!(
                "the clock is {speed} times as fast, so the load lasts {load:.0?}"
            ));
        }
        Ok(Times {
            load,
            story,
            speed: speed as u32,
            restart_every: self.restart_every.unwrap_or(load / 24),
        })
    }
}

impl Times {
    /// A day of the story: the time between two changes of the plan. A story of less than three
    /// days has three shorter ones.
    pub(super) fn day(&self) -> Duration {
        Duration::from_secs_f64(DAY_S).min(self.story / 3)
    }

    /// The real time between two samples: 240 of a long run, more often in a short one.
    pub(super) fn sample_every(&self) -> Duration {
        let shortest = Duration::from_secs(1).min(self.load / 8);
        (self.load / 60).clamp(shortest, (self.load / 240).max(Duration::from_secs(30)))
    }
}

fn days(text: &str) -> Result<f64, String> {
    let days: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is no number of days"))?;
    if (0.01..=366.0).contains(&days) {
        return Ok(days);
    }
    Err(format!("`{text}` is out of range: 0.01 to 366"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        soak: SoakArgs,
    }

    fn args(line: &str) -> SoakArgs {
        let words = std::iter::once("x").chain(line.split_whitespace());
        Line::parse_from(words).soak
    }

    fn times(line: &str) -> Outcome<Times> {
        args(line).times()
    }

    #[test]
    fn a_store_that_cannot_be_audited_is_refused_before_the_run() {
        assert_eq!(args("").stores().unwrap().len(), 2);
        for other in ["redis", "redis-strict", "embedded-secured"] {
            let refused = args(&format!("--store embedded,{other}"));
            let refused = refused.stores().unwrap_err();
            let named = format!("--store {other}:");
            assert!(refused.message.contains(&named), "{refused}");
        }
    }

    #[test]
    fn the_clock_s_speed_is_a_whole_number_up_to_1000() {
        let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
        let two_hours = times("").unwrap();
        assert_eq!((two_hours.load, two_hours.speed), (7200 * second, 360));
        assert_eq!((two_hours.story, two_hours.day()), (30 * day, day));
        assert_eq!(two_hours.sample_every(), 30 * second);
        assert_eq!(two_hours.restart_every, 300 * second);
        let uneven = times("--duration 5m --days 3.4").unwrap();
        assert_eq!(uneven.speed, 980);
        assert!(uneven.load < 300 * second && uneven.load > 299 * second);
        assert_eq!(
            times("--duration 10s --days 0.1").unwrap().day(),
            2880 * second
        );
        let refused = times("--duration 1m --days 1").unwrap_err();
        assert!(refused.message.contains("at most 0.69 days"), "{refused}");
    }
}
