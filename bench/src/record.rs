//! The result of a round of calls: latencies, answers over time, errors.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

/// Throughput over time is counted in slices of this length.
pub(crate) const SLICE: Duration = Duration::from_millis(100);
/// The longest latency that is recorded; a longer one is recorded as this.
const LATENCY_MAX: Duration = Duration::from_secs(120);

/// How a call ended.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It won a unit.
    Won,
    /// It was answered, but won no unit.
    Done,
    /// It failed, with this reason.
    Failed(String),
}

/// The results of a round.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Latencies of all answered calls, in microseconds.
    pub(crate) latencies: Histogram<u64>,
    /// Calls that ended, answered or failed.
    pub(crate) calls: u64,
    /// Calls that were answered within the round.
    pub(crate) in_time: u64,
    pub(crate) wins: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    /// Calls answered in each [`SLICE`] of the round.
    pub(crate) slices: Vec<u64>,
    /// The length of the round.
    pub(crate) time: Duration,
}

impl Record {
    /// An empty histogram of latencies in microseconds, with three significant digits.
    pub(crate) fn empty_latencies() -> Histogram<u64> {
        let most = u64::try_from(LATENCY_MAX.as_micros()).unwrap_or(u64::MAX);
        let latencies = Histogram::new_with_bounds(1, most, 3);
        latencies.unwrap_or_else(|error| unreachable!("the bounds are fixed: {error}"))
    }

    /// An empty record of a round of this length.
    pub(crate) fn new(time: Duration) -> Self {
        let slices = time.as_micros().div_ceil(SLICE.as_micros());
        Self {
            latencies: Self::empty_latencies(),
            calls: 0,
            in_time: 0,
            wins: 0,
            errors: BTreeMap::new(),
            slices: vec![0; usize::try_from(slices).unwrap_or(0)],
            time,
        }
    }

    /// Answered calls per second.
    pub(crate) fn rate(&self) -> f64 {
        self.in_time as f64 / self.time.as_secs_f64()
    }

    /// Calls that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Counts failed calls.
    pub(crate) fn fail(&mut self, reason: &str, calls: u64) {
        if calls > 0 {
            self.calls += calls;
            *self.errors.entry(reason.into()).or_default() += calls;
        }
    }

    /// Counts a call that should have been sent at `from` and was answered at `to`, in a round that
    /// began at `begun`.
    pub(crate) fn note(&mut self, answer: Answer, begun: Instant, from: Instant, to: Instant) {
        match answer {
            Answer::Failed(reason) => return self.fail(&reason, 1),
            Answer::Won => self.wins += 1,
            Answer::Done => {}
        }
        self.calls += 1;
        let micros = u64::try_from((to - from).as_micros()).unwrap_or(u64::MAX);
        self.latencies.saturating_record(micros.max(1));
        let passed = to - begun;
        if passed < self.time {
            self.in_time += 1;
            let slice = (passed.as_micros() / SLICE.as_micros()) as usize;
            if let Some(calls) = self.slices.get_mut(slice) {
                *calls += 1;
            }
        }
    }

    /// Adds the results of another thread or round at the same time; the length stays.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.latencies += &other.latencies;
        self.calls += other.calls;
        self.in_time += other.in_time;
        self.wins += other.wins;
        for (reason, calls) in &other.errors {
            *self.errors.entry(reason.clone()).or_default() += calls;
        }
        for (mine, theirs) in self.slices.iter_mut().zip(&other.slices) {
            *mine += theirs;
        }
    }
}
