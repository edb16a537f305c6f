//! Calls between their arrival and the moment when they are looked at: how many wait, and which are
//! refused.
//!
//! Before their arrival they wait in sockets, until the task of their connection has its turn. So a
//! task of the door waits for turns all the time while calls come, and what it waits is taken for
//! what they waited.
//!
//! They wait in the runtime's queue of tasks, which is not in order: a call that came last may be
//! looked at first. So the time of the queue is estimated from its length, not from the shortest
//! wait.
//!
//! A refusal takes time from the calls that are answered. So a call is refused as soon as its
//! headers are read, if it is clear then that it would wait for too long.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use crate::{
    metrics::SHED,
    store::{Store, delay::DelayControl},
};

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

/// How long a task waits until it has its turn.
#[derive(Default)]
struct Turns {
    delay: DelayControl,
    last: Duration,
    /// Since when the door's task waits for the next one.
    since: Option<Instant>,
}

impl Turns {
    /// Whether a call that arrives now has waited in its socket for too long.
    fn are_late(&mut self, now: Instant) -> bool {
        let since = self.since.map(|since| now.saturating_duration_since(since));
        let waited = since.unwrap_or_default().max(self.last);
        !self.delay.admits(waited, now)
    }
}

/// How fast calls are looked at, and whether they are too many.
#[derive(Default)]
struct Pace {
    delay: DelayControl,
    turns: Turns,
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
                turns: Turns {
                    delay: DelayControl::new(target),
                    ..Turns::default()
                },
                ..Pace::default()
            })
        });
        Self {
            pace,
            store,
            ..Self::default()
        }
    }

    /// Whether a call that arrives now has waited for too long, or would, here or for the store.
    pub(super) fn is_closed(self: &Arc<Self>, now: Instant) -> bool {
        let Some(pace) = &self.pace else {
            return false;
        };
        let mut pace = lock(pace);
        if pace.turns.since.is_none() {
            pace.turns.since = Some(now);
            tokio::spawn(Arc::clone(self).wait_for_turn(now));
        }
        let is_late = pace.turns.are_late(now);
        let queue = pace.queue(self.waiting.load(Ordering::Relaxed));
        is_late || pace.delay.is_too_long(queue) || self.is_congested()
    }

    /// Goes to the end of the runtime's queue, and notes how long that took.
    async fn wait_for_turn(self: Arc<Self>, since: Instant) {
        let mut has_waited = false;
        poll_fn(|context| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            // A task that wakes itself goes to the end. `yield_now` may let it go before others.
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        if let Some(pace) = &self.pace {
            let turns = &mut lock(pace).turns;
            (turns.last, turns.since) = (since.elapsed(), None);
        }
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
        let now = Instant::now();
        let waited = now.saturating_duration_since(arrived);
        let Some(pace) = &door.pace else {
            SHED.arrival_s.observe(waited.as_secs_f64());
            return true;
        };
        let waiting = door.waiting.load(Ordering::Relaxed);
        let mut pace = lock(pace);
        let (in_socket, is_admitted) = (pace.turns.last, pace.admits(waiting, waited, now));
        drop(pace);
        SHED.arrival_s.observe((in_socket + waited).as_secs_f64());
        is_admitted && !door.is_congested()
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

    /// Calls come while each turn of a task takes 30 ms, and later while a turn takes no time.
    #[tokio::test]
    async fn calls_are_refused_while_they_wait_in_sockets_and_not_when_that_is_over() {
        let door = Arc::new(Door::new(Some(TARGET), None));
        let is_busy = Arc::new(AtomicUsize::new(1));
        let busy = Arc::clone(&is_busy);
        let work = tokio::spawn(async move {
            while busy.load(Ordering::Relaxed) == 1 {
                std::thread::sleep(TARGET * 6);
                tokio::task::yield_now().await;
            }
        });
        let mut refused = 0;
        for _ in 0..20 {
            refused += usize::from(door.is_closed(Instant::now()));
            tokio::task::yield_now().await;
        }
        assert!((5..20).contains(&refused), "{refused}");
        is_busy.store(0, Ordering::Relaxed);
        work.await.unwrap();
        // After a silence there is nothing to wait for.
        tokio::time::sleep(TARGET * 50).await;
        for _ in 0..100 {
            assert!(!door.is_closed(Instant::now()));
            tokio::task::yield_now().await;
        }
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

    /// The sum and the number of waits so far.
    fn measured() -> (f64, u64) {
        (
            SHED.arrival_s.get_sample_sum(),
            SHED.arrival_s.get_sample_count(),
        )
    }

    #[test]
    fn what_calls_wait_is_measured_with_and_without_a_bound_and_in_their_sockets_too() {
        for target in [None, Some(TARGET)] {
            let door = Arc::new(Door::new(target, None));
            let in_socket = Duration::from_secs(1_000);
            if let Some(pace) = &door.pace {
                lock(pace).turns.last = in_socket;
            }
            let (sum, count) = measured();
            let arrived = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
            door.arrive().enter(arrived);
            let wanted = if target.is_some() { 1_001.0 } else { 1.0 };
            let (sum_after, count_after) = measured();
            assert!(sum_after - sum >= wanted, "{sum} {sum_after}");
            assert!(count_after > count);
        }
    }
}
