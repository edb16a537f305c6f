//! Calls between their arrival and the moment when they are looked at: how many wait, and which are
//! refused.
//!
//! They wait in the runtime's queue of tasks, which is not in order: a call that came last may be
//! looked at first. So the time of the queue is estimated from its length, not from the shortest
//! wait.
//!
//! A refusal takes time from the calls that are answered. So a call is refused as soon as its
//! headers are read, if it is clear then that it would wait for too long.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::store::{Store, delay::DelayControl};

/// How often the time between two calls is measured.
const MEASURE_TIME: Duration = Duration::from_millis(50);

/// The calls that wait.
#[derive(Default)]
pub(super) struct Door {
    waiting: AtomicUsize,
    /// None if calls are not refused because they wait.
    pace: Option<Mutex<Pace>>,
    /// What they would wait for next.
    store: Option<Arc<dyn Store>>,
}

/// How fast calls are looked at, and whether they are too many.
#[derive(Default)]
struct Pace {
    delay: DelayControl,
    since: Option<Instant>,
    calls: u32,
    /// The time between two calls.
    each: Duration,
}

impl Pace {
    /// How long so many calls take until they are looked at.
    fn queue(&self, waiting: usize) -> Duration {
        self.each
            .saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX))
    }

    /// Whether to work on a call that came `waited` ago, while so many others wait.
    fn admits(&mut self, waiting: usize, waited: Duration, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        self.calls += 1;
        let measured = now.saturating_duration_since(since);
        if measured >= MEASURE_TIME {
            self.each = measured / self.calls;
            (self.since, self.calls) = (Some(now), 0);
        }
        self.delay.admits(self.queue(waiting), now) && !self.delay.is_too_long(waited)
    }
}

impl Door {
    /// Refuses calls while the queue stands at the target, and while all would wait for the store;
    /// none without a target.
    pub(super) fn new(target: Option<Duration>, store: Option<Arc<dyn Store>>) -> Self {
        let pace = target.map(|target| {
            Mutex::new(Pace {
                delay: DelayControl::new(target),
                ..Pace::default()
            })
        });
        Self {
            pace,
            store,
            ..Self::default()
        }
    }

    /// Whether a call that arrives now would wait for too long, here or for the store.
    pub(super) fn is_closed(&self) -> bool {
        self.pace.as_ref().is_some_and(|pace| {
            let pace = lock(pace);
            let queue = pace.queue(self.waiting.load(Ordering::Relaxed));
            pace.delay.is_too_long(queue)
        }) || self.is_congested()
    }

    /// Whether the store is congested, if calls are refused for that.
    fn is_congested(&self) -> bool {
        let store = self.store.as_ref().filter(|_| self.pace.is_some());
        store.is_some_and(|store| store.is_congested())
    }

    /// A call that arrives. It waits until the value is dropped.
    pub(super) fn arrive(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(Arc::clone(self))
    }
}

/// A call that waits.
pub(super) struct Waiting(Arc<Door>);

impl Waiting {
    /// Whether to work on the call, which came at this time, or to refuse it since there is too
    /// much to do.
    pub(super) fn enter(self, arrived: Instant) -> bool {
        let door = Arc::clone(&self.0);
        drop(self);
        let Some(pace) = &door.pace else {
            return true;
        };
        let now = Instant::now();
        let waited = now.saturating_duration_since(arrived);
        let waiting = door.waiting.load(Ordering::Relaxed);
        lock(pace).admits(waiting, waited, now) && !door.is_congested()
    }
}

fn lock(pace: &Mutex<Pace>) -> MutexGuard<'_, Pace> {
    pace.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(5);

    /// Looks at a call each tenth of a millisecond for a second, while so many wait; how many of
    /// the last half were admitted.
    fn admitted(target: Option<Duration>, waiting: impl Fn(u32) -> usize) -> usize {
        let mut pace = Pace {
            delay: target.map(DelayControl::new).unwrap_or_default(),
            ..Pace::default()
        };
        let (begun, each) = (Instant::now(), Duration::from_micros(100));
        let looked = (0..10_000).map(|call| {
            // Some calls are lucky: they came just now.
            let waited = if call % 10 == 0 { 0 } else { waiting(call) };
            let waited = each * u32::try_from(waited).unwrap();
            pace.admits(waiting(call), waited, begun + each * call)
        });
        looked
            .skip(5_000)
            .filter(|is_admitted| *is_admitted)
            .count()
    }

    #[test]
    fn a_queue_that_never_gets_short_is_cut_though_some_calls_overtake_others() {
        assert_eq!(admitted(Some(TARGET), |_| 200), 0);
        assert_eq!(admitted(Some(TARGET), |_| 90), 5_000);
        assert_eq!(admitted(None, |_| 200), 5_000);
        // It is long now and then.
        let bursts = |call: u32| if call % 500 < 300 { 200 } else { 10 };
        assert_eq!(admitted(Some(TARGET), bursts), 5_000);
    }

    #[test]
    fn calls_that_are_dropped_before_they_are_looked_at_do_not_wait_any_more() {
        let door = Arc::new(Door::default());
        let (one, two) = (door.arrive(), door.arrive());
        drop(one);
        assert_eq!(door.waiting.load(Ordering::Relaxed), 1);
        assert!(two.enter(Instant::now()));
        assert_eq!(door.waiting.load(Ordering::Relaxed), 0);
    }
}
