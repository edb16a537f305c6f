//! The store: batches, their time in the queue and at the store, connections to Redis; and the
//! settling of its ledger.

use std::sync::LazyLock;

use prometheus::{Gauge, Histogram, IntCounter, IntGauge};

use super::{counter, gauge, histogram, seconds};

/// Upper bounds of buckets of times at the store and in its queue, in seconds.
const BOUNDS_S: [f64; 14] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 20.0,
];

/// Upper bounds of buckets of calls in a batch.
const BOUNDS_CALLS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// The store of the process.
pub(crate) static STORE: LazyLock<Store> = LazyLock::new(|| Store {
    batch_calls: histogram(
        "tombola_store_batch_calls",
        "Calls in a batch",
        &BOUNDS_CALLS,
    ),
    queue_s: histogram(
        "tombola_store_queue_duration_seconds",
        "How long the oldest call of a batch waited for its batch",
        &BOUNDS_S,
    ),
    call_s: histogram(
        "tombola_store_call_duration_seconds",
        "Time of a script at Redis with its confirmation, or of a transaction of the embedded \
         store",
        &BOUNDS_S,
    ),
    connects: counter(
        "tombola_store_connects_total",
        "Connections to Redis that were made",
    ),
    connect_attempts: counter(
        "tombola_store_connect_attempts_total",
        "Connections to Redis that were begun",
    ),
    settled_entries: counter(
        "tombola_ledger_settled_entries_total",
        "Ledger entries that this service settled",
    ),
    settle_lag_s: seconds(
        "tombola_ledger_lag_seconds",
        "Age of the oldest entry of the last pass of settling; 0 if there was none, or if another \
         service settles",
    ),
    sink_is_up: gauge(
        "tombola_ledger_sink_up",
        "1 while this service reaches the database of the ledger, else 0",
    ),
});

/// What is measured of the store.
pub(crate) struct Store {
    /// Calls in a batch.
    pub(crate) batch_calls: Histogram,
    /// The longest wait in a batch, in seconds.
    pub(crate) queue_s: Histogram,
    /// The time of a script or a transaction, in seconds.
    pub(crate) call_s: Histogram,
    /// Connections to Redis.
    pub(crate) connects: IntCounter,
    /// Connections to Redis that were begun.
    pub(crate) connect_attempts: IntCounter,
    /// Entries that were settled.
    pub(crate) settled_entries: IntCounter,
    /// How far settling is behind, in seconds.
    pub(crate) settle_lag_s: Gauge,
    /// 1 if the sink of the ledger is reached.
    pub(crate) sink_is_up: IntGauge,
}
