//! Whether figures stay flat: the second quarter of a run against the last one.

use serde::Serialize;

use super::samples::Sample;
use crate::figures::Spread;

/// A figure in the second and in the last quarter.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Trend {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) second: f64,
    pub(super) last: f64,
    pub(super) is_flat: bool,
}

/// Reads a figure off a sample that has it.
type Of<T> = fn(&Sample) -> Option<T>;

/// A figure whose median is compared.
struct Figure {
    name: &'static str,
    unit: &'static str,
    of: Of<f64>,
    /// It is flat up to this ratio, or up to this difference.
    ratio_max: f64,
    more_max: f64,
}

const FIGURES: [Figure; 9] = [
    Figure::new(
        "memory of the service that takes the most",
        "MiB",
        1.1,
        8.0,
        |sample| mib(Some(sample.service_bytes)),
    ),
    Figure::new("open files of a service", "", 1.1, 20.0, |sample| {
        Some(sample.open_files as f64)
    }),
    Figure::new("memory of Redis", "MiB", 1.1, 8.0, |sample| {
        mib(sample.redis_bytes)
    }),
    // A rewrite makes it small, and the next one begins when it has doubled.
    Figure::new("append-only file of Redis", "MiB", 1.5, 64.0, |sample| {
        mib(sample.redis_file_bytes)
    }),
    Figure::new(
        "write-ahead log of the embedded store",
        "MiB",
        1.5,
        32.0,
        |sample| mib(sample.wal_bytes),
    ),
    Figure::new(
        "entries that wait to be settled",
        "",
        1.5,
        10_000.0,
        |sample| Some(sample.unsettled as f64),
    ),
    Figure::new("p50 of calls", "ms", 1.25, 0.5, |sample| {
        Some(ms(sample.latency_us.p50))
    }),
    Figure::new("p99 of calls", "ms", 1.25, 2.0, |sample| {
        Some(ms(sample.latency_us.p99))
    }),
    Figure::new("p99.9 of calls", "ms", 1.5, 10.0, |sample| {
        Some(ms(sample.latency_us.p999))
    }),
];

impl Figure {
    const fn new(
        name: &'static str,
        unit: &'static str,
        ratio_max: f64,
        more_max: f64,
        of: Of<f64>,
    ) -> Self {
        Self {
            name,
            unit,
            of,
            ratio_max,
            more_max,
        }
    }
}

fn mib(bytes: Option<u64>) -> Option<f64> {
    Some(bytes? as f64 / 1_048_576.0)
}

fn ms(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

/// What holds the ledger grows with each draw: flat is the growth for each call.
const GROWTH_RATIO_MAX: f64 = 1.1;

/// All figures that the samples have; none from too few samples.
pub(super) fn trends(samples: &[Sample]) -> Vec<Trend> {
    let quarter = samples.len() / 4;
    if quarter == 0 {
        return Vec::new();
    }
    let second = &samples[quarter..2 * quarter];
    let last = &samples[samples.len() - quarter..];
    let median = |samples: &[Sample], of: Of<f64>| {
        let figures: Option<Vec<f64>> = samples.iter().map(of).collect();
        figures.map(|figures| Spread::of(figures.into_iter()).median)
    };
    let medians = FIGURES.iter().filter_map(|figure| {
        let (second, last) = (median(second, figure.of)?, median(last, figure.of)?);
        Some(Trend {
            name: figure.name,
            unit: figure.unit,
            second,
            last,
            is_flat: last <= second * figure.ratio_max || last <= second + figure.more_max,
        })
    });
    let mut trends: Vec<Trend> = medians.collect();
    let ledgers: [(_, Of<u64>); 2] = [
        ("growth of PostgreSQL", |sample| sample.postgres_bytes),
        ("growth of the embedded store", |sample| {
            sample.database_bytes
        }),
    ];
    for (name, of) in ledgers {
        let growth = |from: usize, to: usize| {
            let calls: u64 = samples[from + 1..=to].iter().map(|one| one.calls).sum();
            let bytes = of(&samples[to])? as f64 - of(&samples[from])? as f64;
            Some(bytes / calls.max(1) as f64)
        };
        let end = samples.len() - 1;
        let found = growth(quarter - 1, 2 * quarter - 1).zip(growth(end - quarter, end));
        trends.extend(found.map(|(second, last)| Trend {
            name,
            unit: "bytes a call",
            second,
            last,
            is_flat: last <= second * GROWTH_RATIO_MAX,
        }));
    }
    trends
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::figures::Latency;

    pub(in crate::soak) fn sample(second: u32, service_mib: u64) -> Sample {
        Sample {
            second: second.into(),
            service_bytes: service_mib << 20,
            open_files: 30,
            redis_bytes: Some(1 << 20),
            redis_file_bytes: Some(1 << 20),
            postgres_bytes: Some(u64::from(second) * 1000 * 300),
            database_bytes: None,
            wal_bytes: None,
            unsettled: 0,
            calls: 1000,
            per_second: 1000.0,
            wins: 100,
            refused: [("DRAWS_PER_DAY".into(), 3)].into(),
            latency_us: Latency {
                p50: 900,
                p90: 1200,
                p99: 4000,
                p999: 9000,
                max: 20_000,
            },
            balanced: true,
        }
    }

    #[test]
    fn memory_that_grows_is_not_flat_and_a_ledger_may_grow_evenly() {
        let flat = |mib: fn(u32) -> u64| {
            let samples: Vec<Sample> = (0..40).map(|n| sample(n, mib(n))).collect();
            trends(&samples)
        };
        let even = flat(|_| 100);
        assert!(even.iter().all(|trend| trend.is_flat), "{even:?}");
        let growth = even.last().unwrap();
        assert_eq!(
            (growth.name, growth.second),
            ("growth of PostgreSQL", 300.0)
        );
        let growing = flat(|n| 100 + u64::from(n));
        let bad: Vec<_> = growing.iter().filter(|trend| !trend.is_flat).collect();
        assert_eq!(bad.len(), 1, "{bad:?}");
        assert_eq!((bad[0].second, bad[0].last), (114.5, 134.5));
        // A restart in the first quarter says nothing.
        assert!(flat(|n| if n < 10 { 500 } else { 100 })[0].is_flat);
        assert!(trends(&[sample(0, 1)]).is_empty());
    }
}
