//! When the log has said something last, so that it does not repeat it all the time.

use std::time::{Duration, Instant};

/// How often the log repeats what has not ended.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// When the log has said something last.
#[derive(Default)]
pub(super) struct Said(Option<Instant>);

impl Said {
    /// True if it is time to say it, again or for the first time.
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|at| at.elapsed() >= LOG_INTERVAL);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}
