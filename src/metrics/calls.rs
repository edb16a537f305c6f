//! Calls of the gRPC server: how long they took by method and outcome, and how many are open.

use std::{
    collections::HashMap,
    sync::{LazyLock, PoisonError, RwLock},
    time::Duration,
};

use prometheus::{Histogram, HistogramOpts, HistogramVec, IntGauge};

use super::{gauge, registered};

/// Upper bounds of the buckets, in seconds: those of OpenTelemetry's conventions for RPCs, and
/// smaller ones, since a draw takes about a millisecond.
const BOUNDS_S: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// The most combinations of method, status code and reason with a histogram of their own. Further
/// ones are counted under [`OTHER`], by status code alone.
const COMBINATIONS_MAX: usize = 400;

/// The method of calls that have no histogram of their own, after OpenTelemetry's conventions.
pub(crate) const OTHER: &str = "_OTHER";

/// The calls of the process.
pub(crate) static CALLS: LazyLock<Calls> = LazyLock::new(|| Calls {
    open: gauge(
        "tombola_rpc_calls_in_flight",
        "Calls that have begun and have no status yet",
    ),
    durations: Durations::new(registered(family())),
});

/// A call's method and outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    /// The full name of the method, e.g. `tombola.v1.LotteryService/Draw`; or [`OTHER`].
    pub(crate) method: &'static str,
    /// The name of the status code, e.g. `OK`.
    pub(crate) code: &'static str,
    /// The error's reason; empty if it has none.
    pub(crate) reason: &'static str,
}

/// What is counted of calls.
pub(crate) struct Calls {
    /// Calls without a status.
    pub(crate) open: IntGauge,
    durations: Durations,
}

impl Calls {
    /// Counts a call that has its status.
    pub(crate) fn ended(&self, key: CallKey, took: Duration) {
        self.durations.of(key).observe(took.as_secs_f64());
    }
}

fn family() -> prometheus::Result<HistogramVec> {
    let options = HistogramOpts::new(
        "rpc_server_call_duration_seconds",
        "Time from the headers of a call to its status",
    );
    HistogramVec::new(
        options.buckets(BOUNDS_S.to_vec()),
        &["rpc_method", "rpc_response_status_code", "reason"],
    )
}

/// The histograms, each looked up without allocating once it is there.
struct Durations {
    family: HistogramVec,
    known: RwLock<HashMap<CallKey, Histogram>>,
}

impl Durations {
    fn new(family: HistogramVec) -> Self {
        Self {
            family,
            known: RwLock::default(),
        }
    }

    fn of(&self, key: CallKey) -> Histogram {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(histogram) = known.get(&key) {
            return histogram.clone();
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let is_full = known.len() >= COMBINATIONS_MAX && !known.contains_key(&key);
        let (method, reason) = match is_full {
            true => (OTHER, ""),
            false => (key.method, key.reason),
        };
        let histogram = self.family.with_label_values(&[method, key.code, reason]);
        if !is_full {
            known.insert(key, histogram.clone());
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use prometheus::core::Collector as _;

    use super::*;

    /// The status codes of gRPC.
    const CODES: usize = 17;

    fn names(prefix: &str, count: usize) -> Vec<&'static str> {
        let name = |index| &*Box::leak(format!("{prefix}{index}").into_boxed_str());
        (0..count).map(name).collect()
    }

    #[test]
    fn series_are_bounded_and_no_call_is_lost() {
        let durations = Durations::new(family().unwrap());
        let (methods, codes, reasons) = (names("m", 20), names("C", CODES), names("R", 10));
        let mut calls = 0;
        for method in &methods {
            for code in &codes {
                for reason in &reasons {
                    let key = CallKey {
                        method,
                        code,
                        reason,
                    };
                    durations.of(key).observe(0.001);
                    calls += 1;
                }
            }
        }
        let families = durations.family.collect();
        let histograms = families[0].get_metric();
        assert_eq!(histograms.len(), COMBINATIONS_MAX + CODES);
        let counts = histograms.iter().map(|one| one.get_histogram());
        let counted: u64 = counts.map(|one| one.get_sample_count()).sum();
        assert_eq!(counted, calls);
        // Each histogram has its buckets, the one without a bound, a sum and a count.
        assert!(histograms.len() * (BOUNDS_S.len() + 3) < 7_500);
    }
}
