//! The process as a whole: its build, its connections, its health.

use std::sync::LazyLock;

use prometheus::{IntCounter, IntGauge};

use super::{counter, gauge, info};

/// The state of the process.
pub(crate) static STATE: LazyLock<State> = LazyLock::new(|| {
    info(
        "tombola_build_info",
        "The version and the build that runs; always 1",
        &[
            ("version", env!("CARGO_PKG_VERSION")),
            ("build", crate::BUILD_ID),
        ],
    );
    State {
        is_ready: gauge(
            "tombola_ready",
            "1 while the service is ready, as /readyz says, else 0",
        ),
        connections: gauge("tombola_connections", "Connections of callers"),
        connections_refused: counter(
            "tombola_connections_refused_total",
            "Connections of callers that were closed at once, as there were too many",
        ),
        access_is_stale: gauge(
            "tombola_access_stale",
            "1 while the access file has a version that cannot be used, else 0",
        ),
        key_sets_failed: counter(
            "tombola_access_key_sets_failed_total",
            "Key sets of token issuers that could not be read",
        ),
    }
});

/// What is counted of the process.
pub(crate) struct State {
    /// 1 if the service is ready.
    pub(crate) is_ready: IntGauge,
    /// Connections of callers.
    pub(crate) connections: IntGauge,
    /// Connections that were refused.
    pub(crate) connections_refused: IntCounter,
    /// 1 if the access file cannot be used as it is.
    pub(crate) access_is_stale: IntGauge,
    /// Key sets that could not be read.
    pub(crate) key_sets_failed: IntCounter,
}
