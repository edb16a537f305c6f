//! Calls that arrive: how long they wait, and those that were refused since there was too much to
//! do.

use std::sync::LazyLock;

use prometheus::{Histogram, IntCounter};

use super::{counters, histogram, store::BOUNDS_S};

/// The calls that the process refused.
pub(crate) static SHED: LazyLock<Shed> = LazyLock::new(|| {
    let calls = counters(
        "tombola_shed_calls_total",
        "Calls that were refused with OVERLOADED, by where they waited",
        &["stage"],
    );
    Shed {
        arrival_s: histogram(
            "tombola_arrival_queue_duration_seconds",
            "How long calls waited until they were looked at: in their sockets, as the last task \
             has waited for its turn, and since their headers were read",
            &BOUNDS_S,
        ),
        at_arrival: calls.with_label_values(&["arrival"]),
        open: calls.with_label_values(&["calls"]),
        in_queue: calls.with_label_values(&["queue"]),
    }
});

/// What is counted of them.
pub(crate) struct Shed {
    /// How long calls waited before they were looked at, in seconds; those that are refused then
    /// too.
    pub(crate) arrival_s: Histogram,
    /// They waited for too long before they were looked at.
    pub(crate) at_arrival: IntCounter,
    /// Too many calls had begun.
    pub(crate) open: IntCounter,
    /// They waited for too long in a queue of the store, or it was full.
    pub(crate) in_queue: IntCounter,
}
