//! The injector: hours of schedules by when they were injected.

use std::sync::LazyLock;

use prometheus::IntCounter;

use super::counters;

/// The injector of the process.
pub(crate) static INJECTOR: LazyLock<Injections> = LazyLock::new(|| {
    let windows = counters(
        "tombola_windows_total",
        "Hours of schedules that this service took from the plan, by when that was",
        &["outcome"],
    );
    Injections {
        in_time: windows.with_label_values(&["in_time"]),
        late: windows.with_label_values(&["late"]),
        missed: windows.with_label_values(&["missed"]),
    }
});

/// What is counted of it.
pub(crate) struct Injections {
    /// Before their first moment.
    pub(crate) in_time: IntCounter,
    /// When they had begun.
    pub(crate) late: IntCounter,
    /// When they were over.
    pub(crate) missed: IntCounter,
}
