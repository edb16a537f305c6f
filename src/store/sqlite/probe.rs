//! The probe of the store's health: a write, since a disk that can still be read may be full or
//! read-only.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rusqlite::params;

use super::{job::Command, step::Step};
use crate::store::Result;

/// A store that has committed within this time works.
const FRESH_TIME_MAX: Duration = Duration::from_millis(1500);

/// When the store committed last.
pub(super) struct Committed {
    opened: Instant,
    millis: AtomicU64,
}

impl Committed {
    /// The store was opened now, which writes.
    pub(super) fn now() -> Self {
        Self {
            opened: Instant::now(),
            millis: AtomicU64::new(0),
        }
    }

    /// A batch is committed.
    pub(super) fn again(&self) {
        let millis = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.millis.store(millis, Ordering::Relaxed);
    }

    /// Whether the last commit shows that the store works.
    pub(super) fn is_fresh(&self) -> bool {
        let last = Duration::from_millis(self.millis.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(last) < FRESH_TIME_MAX
    }
}

/// Writes a row.
pub(super) struct ProbeCommand;

impl Command for ProbeCommand {
    type Reply = ();

    fn run(&self, step: &mut Step<'_>) -> Result<()> {
        step.db
            .prepare_cached(
                "INSERT INTO meta (key, value) VALUES ('probed', ?1)
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            )?
            .execute(params![step.now.as_micros().to_string()])?;
        Ok(())
    }
}
