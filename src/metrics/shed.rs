//! Calls that were refused since there was too much to do.

use std::sync::LazyLock;

use prometheus::IntCounter;

use super::counters;

/// The calls that the process refused.
pub(crate) static SHED: LazyLock<Shed> = LazyLock::new(|| {
    let calls = counters(
        "tombola_shed_calls_total",
        "Calls that were refused with OVERLOADED, by where they waited",
        &["stage"],
    );
    Shed {
        at_arrival: calls.with_label_values(&["arrival"]),
        open: calls.with_label_values(&["calls"]),
        in_queue: calls.with_label_values(&["queue"]),
    }
});

/// What is counted of them.
pub(crate) struct Shed {
    /// They waited for too long before they were looked at.
    pub(crate) at_arrival: IntCounter,
    /// Too many calls had begun.
    pub(crate) open: IntCounter,
    /// They waited for too long in a queue of the store, or it was full.
    pub(crate) in_queue: IntCounter,
}
