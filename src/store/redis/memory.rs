//! How much memory the masters have left, and how fast it becomes less.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::store::Memory;

/// The rate is that of this time.
const WINDOW: Duration = Duration::from_secs(600);
/// No rate is known before this time.
const WINDOW_MIN: Duration = Duration::from_secs(60);
/// At most one sample is kept for each of these.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

/// Memory of a master, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) used: u64,
    /// The most that it may take: `maxmemory`, or else that of its machine.
    pub(crate) max: u64,
}

impl Use {
    fn left(self) -> u64 {
        self.max.saturating_sub(self.used)
    }

    /// The one of two masters that has less left.
    pub(crate) fn scarcer(self, other: Option<Self>) -> Self {
        match other {
            Some(other) if other.left() < self.left() => other,
            _ => self,
        }
    }
}

/// Samples of the master that has the least left.
#[derive(Default)]
pub(super) struct Trend(Mutex<VecDeque<(Instant, Use)>>);

impl Trend {
    /// Adds a sample.
    pub(super) fn add(&self, at: Instant, sample: Use) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = |earlier: Instant| at.duration_since(earlier);
        let is_soon = samples.len() > 1
            && samples
                .iter()
                .nth_back(1)
                .is_some_and(|(before, _)| since(*before) < SAMPLE_INTERVAL);
        if is_soon {
            samples.pop_back();
        }
        samples.push_back((at, sample));
        while samples
            .front()
            .is_some_and(|(first, _)| since(*first) > WINDOW)
        {
            samples.pop_front();
        }
    }

    /// The memory as of the last sample; none before the first.
    pub(super) fn memory(&self) -> Option<Memory> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (&(began, first), &(at, last)) = (samples.front()?, samples.back()?);
        Some(Memory {
            used_bytes: last.used,
            max_bytes: last.max,
            lasts: lasts(first, last, at.duration_since(began)),
        })
    }
}

/// How long what is left lasts; none if it does not become less.
fn lasts(first: Use, last: Use, time: Duration) -> Option<Duration> {
    let gone = first
        .left()
        .checked_sub(last.left())
        .filter(|gone| *gone > 0)?;
    if time < WINDOW_MIN {
        return None;
    }
    let seconds = u128::from(last.left()) * time.as_millis() / u128::from(gone) / 1000;
    Some(Duration::from_secs(
        u64::try_from(seconds).unwrap_or(u64::MAX),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(used: u64) -> Use {
        Use { used, max: 1000 }
    }

    #[test]
    fn memory_lasts_as_long_as_the_rate_says() {
        let (trend, start) = (Trend::default(), Instant::now());
        assert_eq!(trend.memory(), None);
        for second in 0..=100 {
            trend.add(start + Duration::from_secs(second), used(second));
        }
        let memory = trend.memory().unwrap();
        assert_eq!((memory.used_bytes, memory.max_bytes), (100, 1000));
        assert_eq!(memory.lasts, Some(Duration::from_secs(900)));
        assert!(trend.0.lock().unwrap().len() < 15);
        trend.add(start + Duration::from_secs(10_000), used(100));
        assert_eq!(trend.memory().unwrap().lasts, None);
    }

    #[test]
    fn the_master_with_the_least_memory_counts() {
        let scarce = Use { used: 90, max: 100 };
        assert_eq!(used(1).scarcer(Some(scarce)), scarce);
        assert_eq!(scarce.scarcer(Some(used(1))), scarce);
        assert_eq!(scarce.scarcer(None), scarce);
    }
}
