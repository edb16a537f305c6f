//! The embedded store's clock, a value that is passed in.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::model::Moment;

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// Now. May step back; the store does not.
    fn now(&self) -> Moment;

    /// This is not the real time: everything that shows it is marked TEST.
    fn is_test(&self) -> bool;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Moment::EPOCH + since_epoch
    }

    fn is_test(&self) -> bool {
        false
    }
}

/// The machine's clock, shifted: it runs, from another moment on.
#[derive(Debug)]
pub struct ShiftedClock {
    shift_micros: AtomicI64,
}

impl ShiftedClock {
    /// A clock that shows `start` now.
    pub fn starting_at(start: Moment) -> Self {
        let shift = start.as_micros() - SystemClock.now().as_micros();
        Self {
            shift_micros: AtomicI64::new(shift),
        }
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.shift_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Moment {
        let shift = self.shift_micros.load(Ordering::Relaxed);
        Moment::from_micros(SystemClock.now().as_micros().saturating_add(shift))
    }

    fn is_test(&self) -> bool {
        true
    }
}

/// A clock that stands until it is moved.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Moment) -> Self {
        Self {
            micros: AtomicI64::new(now.as_micros()),
        }
    }

    /// Moves it to a moment.
    pub fn set(&self, now: Moment) {
        self.micros.store(now.as_micros(), Ordering::SeqCst);
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment::from_micros(self.micros.load(Ordering::SeqCst))
    }

    fn is_test(&self) -> bool {
        true
    }
}
