//! The store: batches, their time in the queue and at the store, connections to Redis; and the
//! settling of its ledger.

use std::sync::LazyLock;

use prometheus::{Gauge, GaugeVec, Histogram, IntCounter, IntGauge, IntGaugeVec, Opts};

use super::{counter, gauge, gauges, histogram, registered, seconds};

/// Upper bounds of buckets of times at the store and in queues, in seconds.
pub(super) const BOUNDS_S: [f64; 14] = [
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
    script_s: histogram(
        "tombola_store_script_duration_seconds",
        "Time of a script at Redis without its confirmation, or of a transaction of the embedded \
         store without its commit",
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
    forks: counter(
        "tombola_store_forks_total",
        "Forks that this service recorded: partitions that another Redis server serves, or one \
         that was restarted, and in which all services say what they have acknowledged",
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
    removed_campaigns: counter(
        "tombola_campaigns_removed_total",
        "Closed campaigns whose data this service let leave the store",
    ),
    sink_is_up: gauge(
        "tombola_ledger_sink_up",
        "1 while this service reaches the sink of the ledger (PostgreSQL, or the file of the \
         embedded store), and it takes what the service settles, else 0",
    ),
    unsettled_entries: gauge(
        "tombola_ledger_unsettled_entries",
        "Entries of the whole store that are not settled",
    ),
    unsettled_age_s: seconds(
        "tombola_ledger_unsettled_age_seconds",
        "Age of the oldest of them; 0 if there is none, or if nothing was ever settled and this \
         service does not settle",
    ),
    memory_used_bytes: gauge(
        "tombola_store_memory_used_bytes",
        "Memory that Redis takes; of a cluster, that of the master with the least left",
    ),
    memory_max_bytes: gauge(
        "tombola_store_memory_max_bytes",
        "Memory that this Redis may take; 0 if it is not known, and on the embedded store",
    ),
    clock_skew_s: seconds(
        "tombola_store_clock_skew_seconds",
        "How far the store's clock is ahead of this machine's; 0 on a test clock",
    ),
    clock_still_partitions: gauge(
        "tombola_store_clock_still_partitions",
        "Partitions in which the store's clock stands still, since it was ahead and was set back",
    ),
    partitions: gauges(
        "tombola_store_partitions",
        "Partitions of the store by what they do, as this service finds them",
        &["state"],
    ),
    campaigns_unreadable: gauge(
        "tombola_campaigns_unreadable",
        "Campaigns whose gauges could not be read from the store: they have none",
    ),
    campaigns_read_at_s: READ_AT_S.with_label_values(&["campaigns"]),
    shared_read_at_s: READ_AT_S.with_label_values(&["shared"]),
});

static READ_AT_S: LazyLock<GaugeVec> = LazyLock::new(|| {
    let options = Opts::new(
        "tombola_store_read_timestamp_seconds",
        "When gauges were read from the store, in Unix time: those of campaigns, and those that \
         are shared by all of them, of ledger, memory and clock",
    );
    registered(GaugeVec::new(options, &["gauges"]))
});

/// What is measured of the store.
pub(crate) struct Store {
    /// Calls in a batch.
    pub(crate) batch_calls: Histogram,
    /// The longest wait in a batch, in seconds.
    pub(crate) queue_s: Histogram,
    /// The time of a script or a transaction, in seconds.
    pub(crate) call_s: Histogram,
    /// The time of a script without its confirmation, or of a transaction without its commit.
    pub(crate) script_s: Histogram,
    /// Connections to Redis.
    pub(crate) connects: IntCounter,
    /// Connections to Redis that were begun.
    pub(crate) connect_attempts: IntCounter,
    /// Forks that were recorded.
    pub(crate) forks: IntCounter,
    /// Entries that were settled.
    pub(crate) settled_entries: IntCounter,
    /// How far settling is behind, in seconds.
    pub(crate) settle_lag_s: Gauge,
    /// Closed campaigns that were given a tombstone.
    pub(crate) removed_campaigns: IntCounter,
    /// 1 if the sink of the ledger is reached.
    pub(crate) sink_is_up: IntGauge,
    /// Entries that are not settled.
    pub(crate) unsettled_entries: IntGauge,
    /// The age of the oldest of them, in seconds.
    pub(crate) unsettled_age_s: Gauge,
    /// Memory that Redis takes.
    pub(crate) memory_used_bytes: IntGauge,
    /// Memory that it may take.
    pub(crate) memory_max_bytes: IntGauge,
    /// How far the store's clock is ahead, in seconds.
    pub(crate) clock_skew_s: Gauge,
    /// Partitions in which the clock stands still.
    pub(crate) clock_still_partitions: IntGauge,
    /// Partitions by state.
    pub(crate) partitions: IntGaugeVec,
    /// Campaigns that could not be read.
    pub(crate) campaigns_unreadable: IntGauge,
    /// When campaigns were read, in seconds of Unix time.
    pub(crate) campaigns_read_at_s: Gauge,
    /// When ledger, memory and clock were.
    pub(crate) shared_read_at_s: Gauge,
}
