//! What was found, as JSON and as a table.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use tombola::model::text::grouped;

use super::cores::Cores;
use crate::{
    figures::Latency,
    host::Host,
    output::{Side, Table},
    record::{Record, SLICE},
};

/// A service has recovered once it answers this share of the calls again.
const RECOVERED: f64 = 0.9;

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Overload {
    pub(super) tombola: &'static str,
    pub(super) host: Host,
    pub(super) store: &'static str,
    /// Absent if there is one core.
    pub(super) cores: Option<Cores>,
    pub(super) peak_per_second: f64,
    pub(super) phases: Vec<Phase>,
    /// Answers a second in the phase with the most load, over the peak.
    pub(super) goodput_over_peak: f64,
    /// The p99 of answered calls in that phase, over that in the first one.
    pub(super) p99_over_normal: f64,
    pub(super) recovery: Recovery,
    pub(crate) balanced: bool,
}

/// A time with a fixed rate.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Phase {
    /// The rate over the peak.
    pub(super) times: f64,
    pub(super) rate: u64,
    /// Answered calls a second.
    pub(super) per_second: f64,
    /// Latencies of answered calls, from the moment at which they should have been sent.
    pub(super) latency_us: Latency,
    pub(super) errors: BTreeMap<String, u64>,
}

impl Phase {
    pub(super) fn of(times: f64, rate: u64, record: &Record) -> Self {
        Self {
            times,
            rate,
            per_second: record.rate(),
            latency_us: Latency::of(&record.latencies),
            errors: record.errors.clone(),
        }
    }
}

/// The p99 in the last phase over that in the first.
pub(super) fn p99_ratio(phases: &[Phase]) -> f64 {
    let p99 = |phase: Option<&Phase>| phase.map_or(1, |phase| phase.latency_us.p99).max(1) as f64;
    p99(phases.last()) / p99(phases.first())
}

/// A service after a storm of retries.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Recovery {
    pub(super) rate: u64,
    /// Answers a second before, in and after the storm, over the rate.
    pub(super) before: f64,
    pub(super) during: f64,
    pub(super) after: f64,
    /// Answers a second after the storm over those before it.
    pub(super) after_over_before: f64,
    /// From the end of the storm to the first tenth of a second in which the service answered
    /// nine of ten calls; absent if there was none.
    pub(super) seconds: Option<f64>,
}

impl Recovery {
    /// Reads it off three durations of calls at a rate, with the storm in the second one.
    pub(super) fn of(record: &Record, rate: u64, time: Duration) -> Self {
        let slices = (time.as_secs_f64() / SLICE.as_secs_f64()) as usize;
        let wanted = rate as f64 * SLICE.as_secs_f64();
        let share = |slices: &[u64]| {
            let answered: u64 = slices.iter().sum();
            answered as f64 / (wanted * slices.len().max(1) as f64)
        };
        let part = |index: usize| {
            let all = &record.slices;
            let [from, to] = [index, index + 1].map(|index| (index * slices).min(all.len()));
            &all[from..to]
        };
        let mut after = part(2).iter();
        let recovered = after.position(|answered| *answered as f64 >= wanted * RECOVERED);
        let (before, after) = (share(part(0)), share(part(2)));
        Self {
            rate,
            before,
            during: share(part(1)),
            after,
            after_over_before: after / before.max(f64::MIN_POSITIVE),
            seconds: recovered.map(|slices| slices as f64 * SLICE.as_secs_f64()),
        }
    }
}

/// Renders it.
pub(crate) fn render(found: &Overload) -> String {
    let mut table = Table::new([
        ("load", Side::Right),
        ("calls a second", Side::Right),
        ("answered", Side::Right),
        ("p50 ms", Side::Right),
        ("p99", Side::Right),
        ("max", Side::Right),
        ("errors", Side::Left),
    ]);
    let ms = |us: u64| format!("{:.1}", us as f64 / 1000.0);
    for phase in &found.phases {
        let errors = phase.errors.iter();
        let errors: Vec<String> = errors
            .map(|(reason, calls)| format!("{reason} {}", grouped(*calls)))
            .collect();
        table.row([
            format!("{} x", phase.times),
            grouped(phase.rate),
            grouped(phase.per_second as u64),
            ms(phase.latency_us.p50),
            ms(phase.latency_us.p99),
            ms(phase.latency_us.max),
            errors.join(", "),
        ]);
    }
    let (host, recovery) = (&found.host, &found.recovery);
    let cores = found.cores.map_or("one core".into(), |cores| {
        format!(
            "cores {} (load) and {} (service)",
            cores.load, cores.service
        )
    });
    let back = recovery
        .seconds
        .map_or("never".into(), |seconds| format!("after {seconds:.1} s"));
    format!(
        "tombola {} on {cores} of {}, load {} before\na peak of {} draws a second on {}\n\n{}\n\
         answered over the peak {:.2}\np99 over that of the normal load {:.2}\n\
         a storm of retries on {}: {:.2} of the calls answered before, {:.2} during, {:.2} after \
         it; goodput after over before {:.2}, nine of ten again {back}",
        found.tombola,
        host.processor,
        host.load,
        grouped(found.peak_per_second as u64),
        found.store,
        table.render(),
        found.goodput_over_peak,
        found.p99_over_normal,
        found.store,
        recovery.before,
        recovery.during,
        recovery.after,
        recovery.after_over_before,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_read_off_the_third_part() {
        let second = Duration::from_secs(1);
        let mut record = Record::new(second * 3);
        record.slices = vec![100; 10];
        record.slices.extend([50; 10]);
        record.slices.extend([20, 80, 95, 105]);
        record.slices.extend([100; 6]);
        let recovery = Recovery::of(&record, 1000, second);
        assert_eq!((recovery.before, recovery.during), (1.0, 0.5));
        assert_eq!((recovery.after, recovery.seconds), (0.9, Some(0.2)));
        assert_eq!(recovery.after_over_before, 0.9);
        record.slices[20..].fill(10);
        assert_eq!(Recovery::of(&record, 1000, second).seconds, None);
    }
}
