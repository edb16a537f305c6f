//! The results of the bench, as they are printed, written as JSON and drawn.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{
    baselines::promises::Broken,
    campaigns::Sums,
    host::{Environment, Host},
    load::NOT_SENT,
    record::{Record, SLICE},
};

/// All results of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) tombola: &'static str,
    pub(crate) host: Host,
    pub(crate) load: Load,
    pub(crate) stores: Vec<Environment>,
    pub(crate) series: Vec<Series>,
    pub(crate) ratios: Vec<Ratio>,
    /// How often each promise was broken.
    pub(crate) promises: Vec<Broken>,
    /// P2 for every campaign of the bench.
    pub(crate) campaigns: Vec<Sums>,
    /// Whether P2 held for all of them.
    pub(crate) balanced: bool,
}

/// How calls were made.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    /// Absent at a fixed rate.
    pub(crate) outstanding: Option<usize>,
    /// Calls per second at a fixed rate.
    pub(crate) rate: Option<u64>,
    pub(crate) round_seconds: f64,
    pub(crate) rounds: u64,
}

/// The calls of one scenario to one service, over all rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) call: String,
    pub(crate) store: String,
    /// Connections and calls in progress on each, if they differ from those of the other series.
    pub(crate) concurrency: Option<String>,
    /// The baseline limits draws, but does not draw.
    #[serde(skip)]
    pub(crate) is_limit: bool,
    pub(crate) per_second: Spread,
    /// Its median relative to that of the empty call; absent for the empty call, and at a fixed
    /// rate.
    pub(crate) over_empty: Option<f64>,
    pub(crate) latency_us: Latency,
    /// Calls that ended, calls that won, and failed calls by reason.
    pub(crate) calls: u64,
    pub(crate) wins: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    /// Processor time per sent call: of the service, of Redis for scripts (by its own clock), and
    /// of PostgreSQL.
    pub(crate) server_cpu_us: Option<f64>,
    pub(crate) redis_us: Option<f64>,
    pub(crate) postgres_cpu_us: Option<f64>,
    pub(crate) rounds: Vec<Round>,
    /// Pairs of a percentile and its latency in microseconds.
    pub(crate) percentiles: Vec<(f64, u64)>,
}

/// A median, and how far the rounds differ.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// Latencies in microseconds, over all rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
}

/// One round.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) per_second: f64,
    pub(crate) calls: u64,
    /// Answered calls per second, for each tenth of a second.
    pub(crate) over_time: Vec<f64>,
}

/// One figure relative to another of the same run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ratio {
    pub(crate) name: String,
    pub(crate) value: f64,
}

/// Microseconds that the service, Redis and PostgreSQL spent on all calls of a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) server_cpu_us: Option<f64>,
    pub(crate) redis_us: Option<f64>,
    pub(crate) postgres_cpu_us: Option<f64>,
}

/// The rounds of one series so far.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    records: Vec<Record>,
    spent: Vec<Spent>,
}

impl Rounds {
    /// Adds a round.
    pub(crate) fn add(&mut self, record: Record, spent: Spent) {
        self.records.push(record);
        self.spent.push(spent);
    }

    /// All rounds as figures.
    pub(crate) fn series(&self, call: &str, store: &str, concurrency: Option<String>) -> Series {
        let all = self.latencies();
        let sum = |of: fn(&Record) -> u64| self.records.iter().map(of).sum();
        let mut errors: BTreeMap<String, u64> = BTreeMap::new();
        for (reason, calls) in self.records.iter().flat_map(|record| &record.errors) {
            *errors.entry(reason.clone()).or_default() += calls;
        }
        let calls: u64 = sum(|record| record.calls);
        let sent = calls - errors.get(NOT_SENT).copied().unwrap_or(0);
        let a_call = |of: fn(&Spent) -> Option<f64>| {
            let total: Option<f64> = self.spent.iter().map(of).sum();
            total.map(|total| total / sent.max(1) as f64)
        };
        Series {
            call: call.into(),
            store: store.into(),
            concurrency,
            is_limit: false,
            per_second: Spread::of(self.records.iter().map(Record::rate)),
            over_empty: None,
            latency_us: Latency::of(&all),
            calls,
            wins: sum(|record| record.wins),
            errors,
            server_cpu_us: a_call(|spent| spent.server_cpu_us),
            redis_us: a_call(|spent| spent.redis_us),
            postgres_cpu_us: a_call(|spent| spent.postgres_cpu_us),
            rounds: self.records.iter().map(Round::of).collect(),
            percentiles: percentiles(&all),
        }
    }

    /// The latencies of all rounds in microseconds.
    pub(crate) fn latencies(&self) -> Histogram<u64> {
        let mut records = self.records.iter().map(|record| &record.latencies);
        let mut all = records
            .next()
            .map_or_else(Record::empty_latencies, Clone::clone);
        for latencies in records {
            all += latencies;
        }
        all
    }
}

impl Round {
    fn of(record: &Record) -> Self {
        let slice = SLICE.as_secs_f64();
        let seconds = record.time.as_secs_f64();
        let over_time = record.slices.iter().enumerate().map(|(index, calls)| {
            // The last slice may be cut short.
            let length = (seconds - index as f64 * slice).clamp(0.001, slice);
            *calls as f64 / length
        });
        Self {
            per_second: record.rate(),
            calls: record.calls,
            over_time: over_time.collect(),
        }
    }
}

impl Spread {
    /// The spread of some figures; all zeros if there are none.
    pub(crate) fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut all: Vec<f64> = figures.collect();
        all.sort_by(f64::total_cmp);
        let at = |index: usize| all.get(index).copied().unwrap_or(0.0);
        let middle = all.len() / 2;
        let median = if all.len().is_multiple_of(2) && middle > 0 {
            f64::midpoint(at(middle - 1), at(middle))
        } else {
            at(middle)
        };
        Self {
            median,
            min: at(0),
            max: at(all.len().saturating_sub(1)),
        }
    }
}

impl Latency {
    pub(crate) fn of(latencies: &Histogram<u64>) -> Self {
        let at = |quantile| latencies.value_at_quantile(quantile);
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: latencies.max(),
        }
    }
}

/// A percentile curve, with more points at its steep end.
fn percentiles(latencies: &Histogram<u64>) -> Vec<(f64, u64)> {
    if latencies.is_empty() {
        return Vec::new();
    }
    let mut points = Vec::new();
    let mut left = 1.0;
    while left * latencies.len() as f64 >= 1.0 {
        for step in 0..5 {
            let quantile: f64 = 1.0 - left * (1.0 - 0.1 * f64::from(step));
            points.push((quantile * 100.0, latencies.value_at_quantile(quantile)));
        }
        left /= 2.0;
    }
    points.push((100.0, latencies.max()));
    points
}

impl Figures {
    /// Promises that Tombola broke, and how often.
    pub(crate) fn broken(&self) -> Vec<String> {
        let broken = self.promises.iter();
        let broken = broken.filter(|one| one.counts_against_tombola());
        let texts = broken.map(|one| {
            let Broken { way, promise, .. } = one;
            format!(
                "{way}, {promise}: {}, {} of {}",
                one.what, one.times, one.of
            )
        });
        texts.collect()
    }

    /// Computes what follows from the series: each relative to the empty call, and the ratios. At
    /// a fixed rate there are none: every series has the rate that was asked for.
    pub(crate) fn relate(&mut self) {
        if self.load.rate.is_some() {
            return;
        }
        let rate = |call: &str, store: Option<&str>| {
            let mut series = self.series.iter();
            let found =
                series.find(|one| one.call == call && store.is_none_or(|store| one.store == store));
            found
                .map(|one| one.per_second.median)
                .filter(|rate| *rate > 0.0)
        };
        let empty = rate("empty", None);
        let mut ratios = Vec::new();
        for one in self.series.iter().filter(|one| one.call != "empty") {
            let mine = one.per_second.median;
            let mut over = |what: &str, other: Option<f64>| {
                let Some(other) = other else { return };
                let name = format!("{} on {} over {what}", one.call, one.store);
                ratios.push(Ratio {
                    name,
                    value: mine / other,
                });
            };
            if one.is_baseline() {
                continue;
            }
            over("empty", empty);
            if let Some(unsecured) = one.store.strip_suffix("-secured") {
                over(
                    "the same without TLS, tokens and metrics",
                    rate(&one.call, Some(unsecured)),
                );
            }
            if one.store == "redis-strict" {
                over("the same without a replica", rate(&one.call, Some("redis")));
            }
            if one.store == "redis-settled" {
                let unsettled = rate(&one.call, Some("redis"));
                over("the same without settling", unsettled);
                let others = one.share_without_postgres(self.host.cores);
                over(
                    "the same without settling, PostgreSQL's processor time counted apart",
                    unsettled.map(|rate| rate * others),
                );
            }
            if one.store == "redis" {
                over(
                    "the same with the append-only file synced each second",
                    rate(&one.call, Some("redis-fast")),
                );
                // A baseline that only counts is compared with CheckLimit, one that draws with a
                // draw.
                let mine = |series: &Series| match one.call.as_str() {
                    "draw" => !series.is_limit,
                    "check" => series.is_limit,
                    _ => false,
                };
                for series in self
                    .series
                    .iter()
                    .filter(|series| series.is_baseline() && mine(series))
                {
                    over(&series.label(), Some(series.per_second.median));
                }
            }
        }
        self.ratios.extend(ratios);
        for one in &mut self.series {
            if one.call != "empty" && !one.is_baseline() {
                one.over_empty = empty.map(|empty| one.per_second.median / empty);
            }
        }
    }
}

impl Series {
    /// Some calls of a baseline found no unit: such a call costs less.
    pub(crate) fn has_run_out(&self) -> bool {
        let failed: u64 = self.errors.values().sum();
        self.is_baseline() && !self.is_limit && self.wins + failed < self.calls
    }

    /// The series is a baseline, called without gRPC.
    pub(crate) fn is_baseline(&self) -> bool {
        self.concurrency.is_some()
    }

    /// The share of the processors' time that PostgreSQL left to the others.
    fn share_without_postgres(&self, cores: usize) -> f64 {
        let busy = self.postgres_cpu_us.unwrap_or(0.0) / 1e6 * self.per_second.median;
        1.0 - busy / cores as f64
    }

    /// The name of the call, with its concurrency if that is special: a baseline may run with two.
    pub(crate) fn label(&self) -> String {
        match &self.concurrency {
            Some(concurrency) => format!("{} ({concurrency})", self.call),
            None => self.call.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_median_between_its_ends() {
        let odd = Spread::of([3.0, 1.0, 2.0].into_iter());
        assert_eq!((odd.min, odd.median, odd.max), (1.0, 2.0, 3.0));
        assert_eq!(Spread::of([1.0, 3.0].into_iter()).median, 2.0);
        assert_eq!(Spread::of(std::iter::empty()).median, 0.0);
    }

    #[test]
    fn calls_that_were_not_sent_cost_nothing() {
        let mut record = Record::new(SLICE);
        record.calls = 6;
        record.fail(NOT_SENT, 4);
        let spent = Spent {
            server_cpu_us: Some(60.0),
            ..Spent::default()
        };
        let mut rounds = Rounds::default();
        rounds.add(record, spent);
        let series = rounds.series("draw", "embedded", None);
        assert_eq!((series.calls, series.server_cpu_us), (10, Some(10.0)));
    }

    #[test]
    fn a_baseline_whose_calls_win_nothing_has_run_out_unless_it_only_limits() {
        let mut record = Record::new(SLICE);
        record.calls = 3;
        record.wins = 3;
        record.fail("GAVE_UP", 1);
        let mut rounds = Rounds::default();
        rounds.add(record, Spent::default());
        let mut series = rounds.series("lock", "redis", Some("2 × 1".into()));
        assert!(!series.has_run_out());
        series.wins = 2;
        assert!(series.has_run_out());
        series.is_limit = true;
        assert!(!series.has_run_out());
    }

    #[test]
    fn a_curve_ends_with_the_longest() {
        let mut latencies = Record::empty_latencies();
        for micros in 1..=1000 {
            latencies.saturating_record(micros);
        }
        let curve = percentiles(&latencies);
        assert_eq!(curve.last(), Some(&(100.0, latencies.max())));
        assert!(
            curve
                .windows(2)
                .all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1)
        );
    }
}
