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

    /// How many times as fast as the machine's clock it runs.
    fn speed(&self) -> u32 {
        1
    }
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

/// A clock that runs from another moment on, as fast as the machine's clock or faster.
#[derive(Debug)]
pub struct ShiftedClock {
    /// What the machine's clock showed at the start.
    began: Moment,
    speed: u32,
    /// What this clock showed then, and by how much it was moved since.
    start_micros: AtomicI64,
}

impl ShiftedClock {
    /// A clock that shows `start` now.
    pub fn starting_at(start: Moment) -> Self {
        Self::running(start, SystemClock.now(), 1)
    }

    /// The same clock, `speed` times as fast as the machine's from its start on.
    #[must_use]
    pub fn at_speed(self, speed: u32) -> Self {
        Self { speed, ..self }
    }

    fn running(start: Moment, began: Moment, speed: u32) -> Self {
        Self {
            began,
            speed,
            start_micros: AtomicI64::new(start.as_micros()),
        }
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.start_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// What it shows when the machine's clock shows `real`.
    fn at(&self, real: Moment) -> Moment {
        let passed = real.as_micros().saturating_sub(self.began.as_micros());
        let start = self.start_micros.load(Ordering::Relaxed);
        Moment::from_micros(start.saturating_add(passed.saturating_mul(self.speed.into())))
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Moment {
        self.at(SystemClock.now())
    }

    fn is_test(&self) -> bool {
        true
    }

    fn speed(&self) -> u32 {
        self.speed
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shifted_clock_is_as_many_times_as_fast_as_the_machine_s() {
        let (start, began) = (Moment::from_micros(5_000_000), Moment::from_micros(70));
        for speed in [1, 360] {
            let clock = ShiftedClock::running(start, began, speed);
            assert_eq!(clock.at(began), start);
            let later = clock.at(began + Duration::from_secs(2));
            assert_eq!(later, start + Duration::from_secs(2) * speed);
            clock.advance(Duration::from_secs(7));
            assert_eq!(clock.at(began), start + Duration::from_secs(7));
            assert_eq!(clock.speed(), speed);
        }
    }
}
