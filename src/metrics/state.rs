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
}
