//! Traces: spans that were exported or dropped, and calls that were not traced.

use std::sync::LazyLock;

use prometheus::{IntCounter, IntGauge};

use super::{counter, counters, gauge};

/// The traces of the process.
pub(crate) static TRACES: LazyLock<Traces> = LazyLock::new(|| {
    let dropped = counters(
        "tombola_trace_spans_dropped_total",
        "Spans that were lost, by where: the queue was full, or the collector did not take them",
        &["stage"],
    );
    let over_limit = counters(
        "tombola_trace_calls_over_limit_total",
        "Calls that were not traced since too many were, by who wanted them traced",
        &["decision"],
    );
    Traces {
        exported: counter(
            "tombola_trace_spans_exported_total",
            "Spans that the collector took",
        ),
        dropped_in_queue: dropped.with_label_values(&["queue"]),
        dropped_by_collector: dropped.with_label_values(&["collector"]),
        over_limit_by_callers: over_limit.with_label_values(&["caller"]),
        over_limit_by_share: over_limit.with_label_values(&["share"]),
        collector_is_up: gauge(
            "tombola_trace_collector_up",
            "1 while the collector of traces answers, else 0; always 0 without one",
        ),
    }
});

/// What is counted of traces.
pub(crate) struct Traces {
    /// Spans that the collector took.
    pub(crate) exported: IntCounter,
    /// Spans that were dropped since too many waited.
    pub(crate) dropped_in_queue: IntCounter,
    /// Spans that the collector refused or was not there for.
    pub(crate) dropped_by_collector: IntCounter,
    /// Calls that callers wanted traced.
    pub(crate) over_limit_by_callers: IntCounter,
    /// Calls that belonged to the share.
    pub(crate) over_limit_by_share: IntCounter,
    /// 1 if the collector answered the last time.
    pub(crate) collector_is_up: IntGauge,
}
