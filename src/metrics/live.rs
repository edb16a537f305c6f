//! Reads for live pages of the console.

use std::sync::LazyLock;

use prometheus::IntCounter;

use super::counters;

/// The counters of the process.
pub(crate) static LIVE: LazyLock<Live> = LazyLock::new(|| {
    let reads = counters(
        "tombola_console_live_reads_total",
        "Reads for live pages of the console, by where they were answered from",
        &["from"],
    );
    Live {
        store: reads.with_label_values(&["store"]),
        memory: reads.with_label_values(&["memory"]),
    }
});

/// Reads for live pages.
pub(crate) struct Live {
    /// Of the store.
    pub(crate) store: IntCounter,
    /// Answered with what another viewer's read had just found.
    pub(crate) memory: IntCounter,
}
