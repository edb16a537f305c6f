//! The time of Redis as the service knows it, from the replies of each partition.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use tracing::warn;

use crate::{
    model::Moment,
    store::{
        StandingStill,
        clock::{Clock, SystemClock},
    },
};

/// A reply that took longer than this only bounds how far off the store's clock is.
const PROMPT: Duration = Duration::from_millis(250);
/// An estimate of a partition's time is hardly ever ahead of that time by more than this.
const ESTIMATE_ERROR: Duration = Duration::from_millis(5);
/// A difference of two clocks is logged if it is larger than this.
const SKEW_LOG_MIN: Duration = Duration::from_secs(1);
/// ... and at most this often: the nodes of a cluster may differ, and each reply shows the clock of
/// one node.
const SKEW_LOG_INTERVAL: Duration = Duration::from_secs(60);
/// A partition whose time has not moved for this long stands still: each is asked every second.
const STILL_MIN: Duration = Duration::from_secs(3);

/// The time of Redis as the service knows it.
pub(super) struct StoreClock {
    test: Option<Arc<dyn Clock>>,
    /// Microseconds that the store's clock is ahead of the service's.
    ahead: AtomicI64,
    partitions: Vec<PartitionTime>,
    last: AtomicI64,
    began: Instant,
    skew: Mutex<LoggedSkew>,
}

/// The time of a partition.
struct PartitionTime {
    /// Microseconds that its clock is ahead of the service's: nodes of a cluster may differ.
    ahead: AtomicI64,
    /// The last moment that one of its replies contained, in microseconds; 0 before the first.
    last_seen: AtomicI64,
    /// Since when its replies have contained the same moment, in microseconds from the service's
    /// start; 0 while its time goes on.
    still_since: AtomicI64,
}

impl StoreClock {
    /// The real time of Redis, or a test clock instead. `lasts` is when each partition was last
    /// written.
    pub(super) fn new(test: Option<Arc<dyn Clock>>, lasts: &[Moment]) -> Self {
        let last = lasts.iter().map(|last| last.as_micros()).max();
        let partitions = lasts.iter().map(|last| PartitionTime {
            ahead: AtomicI64::new(0),
            last_seen: AtomicI64::new(last.as_micros()),
            still_since: AtomicI64::new(0),
        });
        Self {
            test,
            ahead: AtomicI64::new(0),
            partitions: partitions.collect(),
            last: AtomicI64::new(last.unwrap_or(0)),
            began: Instant::now(),
            skew: Mutex::default(),
        }
    }

    /// It is a test clock.
    pub(super) fn is_test(&self) -> bool {
        self.test.is_some()
    }

    /// How much of it passes in this much real time.
    pub(super) fn span(&self, time: Duration) -> Duration {
        time * self.test.as_ref().map_or(1, |clock| clock.speed())
    }

    /// The clock argument of a script: the moment that no step of the partition may come before, or
    /// the time of a test clock.
    pub(super) fn argument(&self, partition: u32) -> Vec<u8> {
        let last_seen = self.partitions[partition as usize]
            .last_seen
            .load(Ordering::Relaxed);
        match &self.test {
            Some(clock) => format!("={}", clock.now().as_micros().max(last_seen)).into(),
            None => last_seen.to_string().into(),
        }
    }

    /// An estimate of the store's time, never before the last moment that a reply contained. It may
    /// go back: if the service's clock jumps ahead and is corrected, this follows it both ways.
    pub(super) fn hint(&self) -> Moment {
        let now = match &self.test {
            Some(clock) => clock.now().as_micros(),
            None => SystemClock.now().as_micros() + self.ahead.load(Ordering::Relaxed),
        };
        Moment::from_micros(now.max(self.last.load(Ordering::Relaxed)))
    }

    /// A moment shortly before now, which the partition's clock has almost certainly passed. Where
    /// replies wait until replicas have confirmed what was written, it is earlier by that wait.
    pub(super) fn passed(&self, partition: u32) -> Moment {
        let time = &self.partitions[partition as usize];
        let passed = match &self.test {
            Some(clock) => clock.now().as_micros(),
            None => {
                let estimate = SystemClock.now().as_micros() + time.ahead.load(Ordering::Relaxed);
                estimate - ESTIMATE_ERROR.as_micros().cast_signed() as i64
            }
        };
        Moment::from_micros(passed.max(time.last_seen.load(Ordering::Relaxed)))
    }

    /// The last moment that a reply of the partition contained; an estimate before its first reply.
    pub(super) fn last_seen(&self, partition: u32) -> Moment {
        match self.partitions[partition as usize]
            .last_seen
            .load(Ordering::Relaxed)
        {
            0 => self.hint(),
            micros => Moment::from_micros(micros),
        }
    }

    /// Takes in the time from a partition's reply, which took this long.
    pub(super) fn learn(&self, partition: u32, now: Moment, took: Duration) {
        let time = &self.partitions[partition as usize];
        let last_seen = time.last_seen.fetch_max(now.as_micros(), Ordering::Relaxed);
        self.last.fetch_max(now.as_micros(), Ordering::Relaxed);
        if self.test.is_some() {
            return;
        }
        let is_still = now.as_micros() == last_seen;
        if is_still {
            let since = self.began.elapsed().as_micros().max(1).cast_signed() as i64;
            let order = Ordering::Relaxed;
            // An error means that it stood still before.
            let _ = time.still_since.compare_exchange(0, since, order, order);
        } else if now.as_micros() > last_seen {
            time.still_since.store(0, Ordering::Relaxed);
        }
        let ahead = now.as_micros() - SystemClock.now().as_micros();
        let before = self.ahead.load(Ordering::Relaxed);
        if took > PROMPT && i128::from(ahead.abs_diff(before)) <= took.as_micros().cast_signed() {
            return;
        }
        self.ahead.store(ahead, Ordering::Relaxed);
        time.ahead.store(ahead, Ordering::Relaxed);
        // A time that stands still is that of the partition's last entry, not that of Redis.
        if !is_still {
            self.log_skew(ahead);
        }
    }

    /// Partitions whose time stands still, each with the moment from which it goes on. The clock of
    /// Redis was ahead of that moment before, and was set back.
    pub(super) fn standing_still(&self) -> Vec<StandingStill> {
        let now = self.began.elapsed().as_micros().cast_signed();
        let still = (0..).zip(&self.partitions).filter(|(_, time)| {
            let since = time.still_since.load(Ordering::Relaxed);
            since > 0 && now - i128::from(since) >= STILL_MIN.as_micros().cast_signed()
        });
        still
            .map(|(partition, time)| StandingStill {
                partition,
                until: Moment::from_micros(time.last_seen.load(Ordering::Relaxed)),
            })
            .collect()
    }

    fn log_skew(&self, ahead: i64) {
        let mut skew = self.skew.lock().unwrap_or_else(PoisonError::into_inner);
        if skew.is_news(ahead, self.began.elapsed()) {
            let skew_ms = ahead / 1000;
            warn!(
                skew_ms,
                "the clock of Redis is now {skew_ms} ms ahead of the service's: it, or the \
                 service's, has been set; draws go by that of Redis"
            );
        }
    }
}

/// The difference between the clocks that was logged last.
#[derive(Default)]
struct LoggedSkew {
    ahead: i64,
    at: Option<Duration>,
}

impl LoggedSkew {
    /// Whether to log a difference at `now`, which counts from the start: it is another difference,
    /// and the last line was a while ago.
    fn is_news(&mut self, ahead: i64, now: Duration) -> bool {
        let is_other = ahead.abs_diff(self.ahead) > SKEW_LOG_MIN.as_micros() as u64;
        let is_early = self
            .at
            .is_some_and(|at| now.saturating_sub(at) < SKEW_LOG_INTERVAL);
        if !is_other || is_early {
            return false;
        }
        *self = Self {
            ahead,
            at: Some(now),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::clock::{ManualClock, ShiftedClock};

    const DAY: i64 = 86_400_000_000;

    /// How far the hint is ahead of this machine's clock, in whole days.
    fn days_ahead(clock: &StoreClock) -> i64 {
        let ahead = clock.hint().as_micros() - SystemClock.now().as_micros();
        (ahead + DAY / 2).div_euclid(DAY)
    }

    #[test]
    fn a_wrong_estimate_lasts_until_the_store_replies() {
        let clock = StoreClock::new(None, &[Moment::EPOCH; 2]);
        // As if this machine's clock had jumped three days ahead since the last reply.
        clock.ahead.store(3 * DAY, Ordering::Relaxed);
        assert_eq!(days_ahead(&clock), 3);
        clock.learn(0, SystemClock.now(), Duration::ZERO);
        assert_eq!(days_ahead(&clock), 0);
    }

    #[test]
    fn a_slow_reply_still_shows_a_clock_that_is_days_off() {
        let clock = StoreClock::new(None, &[Moment::EPOCH]);
        clock.learn(
            0,
            SystemClock.now() + Duration::from_secs(2 * 86_400),
            PROMPT * 4,
        );
        assert_eq!(days_ahead(&clock), 2);
    }

    #[test]
    fn a_span_of_real_time_is_as_many_times_longer_on_a_fast_clock() {
        let second = Duration::from_secs(1);
        let real = StoreClock::new(None, &[Moment::EPOCH]);
        assert_eq!(real.span(second), second);
        let fast = ShiftedClock::starting_at(Moment::EPOCH).at_speed(360);
        let fast = StoreClock::new(Some(Arc::new(fast)), &[Moment::EPOCH]);
        assert_eq!(fast.span(second), 360 * second);
    }

    #[test]
    fn each_partition_goes_by_its_own_replies() {
        let clock = StoreClock::new(None, &[Moment::EPOCH; 2]);
        let (behind, ahead) = (Moment::from_micros(DAY), Moment::from_micros(9 * DAY));
        clock.learn(0, behind, Duration::ZERO);
        clock.learn(1, ahead, Duration::ZERO);
        assert_eq!((clock.last_seen(0), clock.last_seen(1)), (behind, ahead));
    }

    #[test]
    fn what_a_partition_has_passed_is_not_taken_from_one_that_is_ahead() {
        let clock = StoreClock::new(None, &[Moment::EPOCH; 2]);
        let now = SystemClock.now();
        clock.learn(1, now + Duration::from_secs(60), Duration::ZERO);
        clock.learn(0, now, Duration::ZERO);
        assert!(clock.passed(0) <= SystemClock.now());
        assert!(clock.passed(0).since(now) < Duration::from_secs(30));
        assert!(clock.passed(1).since(now) > Duration::from_secs(30));
        // Never before what its replies have shown.
        let ahead = now + Duration::from_secs(90);
        clock.partitions[0].ahead.store(-DAY, Ordering::Relaxed);
        clock.partitions[0]
            .last_seen
            .store(ahead.as_micros(), Ordering::Relaxed);
        assert_eq!(clock.passed(0), ahead);
        // A test clock is the time that scripts are given.
        let start = Moment::from_micros(DAY);
        let lasts = [Moment::EPOCH, Moment::from_micros(2 * DAY)];
        let test = StoreClock::new(Some(Arc::new(ManualClock::at(start))), &lasts);
        assert_eq!(test.passed(0), start);
        assert_eq!(test.passed(1), Moment::from_micros(2 * DAY));
    }

    #[test]
    fn a_difference_that_comes_and_goes_is_logged_once_a_while() {
        let mut logged = LoggedSkew::default();
        let hour = 3_600_000_000;
        let second = Duration::from_secs;
        assert!(!logged.is_news(900_000, second(0)));
        let mut lines = 0;
        for reply in 0..10_000 {
            let ahead = if reply % 2 == 0 { hour } else { 0 };
            lines += usize::from(logged.is_news(ahead, Duration::from_millis(reply)));
        }
        assert_eq!(lines, 1);
        assert!(!logged.is_news(hour + 1, second(100)));
        // A difference that lasts is logged later.
        assert!(logged.is_news(0, second(100)));
        assert!(!logged.is_news(0, second(1000)));
    }

    #[test]
    fn a_partition_whose_replies_repeat_one_moment_stands_still_until_it_goes_on() {
        let now = SystemClock.now();
        let ahead = now + Duration::from_secs(3600);
        let clock = StoreClock::new(None, &[now, ahead]);
        let stand = |partition: usize| {
            let since = &clock.partitions[partition].still_since;
            since.load(Ordering::Relaxed) > 0
        };
        clock.learn(1, ahead, Duration::ZERO);
        clock.learn(0, now + Duration::from_millis(500), Duration::ZERO);
        assert!(!stand(0) && stand(1));
        // No difference is logged for a time that stands still.
        assert_eq!(clock.skew.lock().unwrap().at, None);
        // It is known only after a while.
        assert!(clock.standing_still().is_empty());
        clock.learn(1, ahead + Duration::from_micros(1), Duration::ZERO);
        assert!(!stand(1));
    }
}
