//! Controlled delay: which calls of a queue are dropped before they begin, by how long they waited.
//!
//! A queue is good while it absorbs bursts, and bad while it stands: then it adds delay and nothing
//! else. A queue stands if even the shortest wait of a whole interval was above a target (CoDel,
//! RFC 8289, section 4). Callers do not slow down when single calls are dropped, as TCP does. So
//! while the queue stands, every call is dropped that has waited for twice the target, as folly's
//! `Codel` does: what is left of the queue is short, and it is served in order.

use std::time::{Duration, Instant};

/// For how long even the shortest wait must be above the target.
const INTERVAL: Duration = Duration::from_millis(100);

/// How many targets a call may wait while the queue stands, and how many the work of a batch may
/// take.
const TARGETS_MAX: u32 = 2;

/// The delay of one queue. Time is passed in.
#[derive(Debug, Default)]
pub(crate) struct DelayControl {
    /// The wait that is good; calls are never dropped if absent.
    target: Option<Duration>,
    interval_end: Option<Instant>,
    /// The shortest wait of the interval so far.
    shortest: Duration,
    stands: bool,
}

impl DelayControl {
    /// The control of a queue with this target. The default one drops nothing.
    pub(crate) fn new(target: Duration) -> Self {
        Self {
            target: Some(target),
            ..Self::default()
        }
    }

    /// The most units of a batch if each takes `unit` to work on: others wait for the whole batch.
    pub(crate) fn units_max(&self, unit: Duration) -> usize {
        let time = self.target.map(|target| target * TARGETS_MAX);
        let units = time.and_then(|time| time.as_nanos().checked_div(unit.as_nanos()));
        units.map_or(usize::MAX, |units| {
            usize::try_from(units).unwrap_or(usize::MAX)
        })
    }

    /// Whether calls wait for too long if a queue that stands takes this time.
    pub(crate) fn is_too_long(&self, queue: Duration) -> bool {
        let most = self.target.map(|target| target * TARGETS_MAX);
        self.stands && most.is_some_and(|most| queue > most)
    }

    /// Whether to begin a call that has waited for `waited` and could begin `now`.
    pub(crate) fn admits(&mut self, waited: Duration, now: Instant) -> bool {
        let Some(target) = self.target else {
            return true;
        };
        match self.interval_end {
            Some(end) if now < end => self.shortest = self.shortest.min(waited),
            ended => {
                // If a whole interval had no call, nothing has waited, unless this one has.
                let follows = ended.is_some_and(|end| now < end + INTERVAL || now < end + waited);
                self.stands = follows && self.shortest > target;
                self.interval_end = Some(now + INTERVAL);
                self.shortest = waited;
            }
        }
        !self.stands || waited <= target * TARGETS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(5);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Offers a call each millisecond of `times`; those that were admitted.
    fn admitted(
        control: &mut DelayControl,
        begun: Instant,
        times: std::ops::Range<u64>,
        waited: impl Fn(u64) -> Duration,
    ) -> u64 {
        times
            .filter(|&at| control.admits(waited(at), begun + ms(at)))
            .count() as u64
    }

    #[test]
    fn a_burst_is_absorbed_and_a_standing_queue_is_cut() {
        let (mut control, begun) = (DelayControl::new(TARGET), Instant::now());
        // A burst: all wait for long, but for less than an interval.
        assert_eq!(admitted(&mut control, begun, 0..90, |_| ms(80)), 90);
        // The queue becomes empty once within each interval.
        let drained = |at: u64| ms(if at.is_multiple_of(45) { 0 } else { 80 });
        assert_eq!(admitted(&mut control, begun, 90..400, drained), 310);
        // It stands for a whole interval: from then on only short waits are admitted.
        let standing = admitted(&mut control, begun, 400..600, |_| ms(11));
        assert!((100..200).contains(&standing), "{standing}");
        assert_eq!(admitted(&mut control, begun, 600..700, |_| ms(11)), 0);
        assert_eq!(admitted(&mut control, begun, 700..750, |_| ms(10)), 50);
    }

    #[test]
    fn a_queue_that_no_longer_stands_is_not_cut() {
        let (mut control, begun) = (DelayControl::new(TARGET), Instant::now());
        admitted(&mut control, begun, 0..300, |_| ms(50));
        assert!(!control.admits(ms(50), begun + ms(300)));
        // The load goes away: a call a millisecond, none waits.
        admitted(&mut control, begun, 300..500, |_| ms(1));
        assert!(control.admits(ms(50), begun + ms(500)));
    }

    #[test]
    fn a_silence_is_no_standing_queue() {
        let (mut control, begun) = (DelayControl::new(TARGET), Instant::now());
        admitted(&mut control, begun, 0..300, |_| ms(50));
        assert!(!control.admits(ms(50), begun + ms(300)));
        assert!(control.admits(ms(50), begun + ms(600)));
        // Single calls that are far apart, each slow, are no queue either.
        for seconds in 1..10 {
            assert!(control.admits(ms(300), begun + ms(seconds * 1000)));
        }
        // But what has waited through a silence is one.
        assert!(!control.admits(ms(950), begun + ms(10_000)));
    }

    #[test]
    fn without_a_target_nothing_is_dropped() {
        let (mut control, begun) = (DelayControl::default(), Instant::now());
        assert_eq!(admitted(&mut control, begun, 0..900, |_| ms(5000)), 900);
    }

    #[test]
    fn a_batch_takes_two_targets_at_most() {
        let control = DelayControl::new(TARGET);
        assert_eq!(control.units_max(ms(1)), 10);
        assert_eq!(control.units_max(Duration::from_micros(20)), 500);
        assert_eq!(control.units_max(ms(11)), 0);
        assert_eq!(control.units_max(Duration::ZERO), usize::MAX);
        assert_eq!(DelayControl::default().units_max(ms(1)), usize::MAX);
    }

    /// A server that works on one call a millisecond gets three, and each refusal is free: it goes
    /// on answering one call a millisecond, and no admitted call waits for long.
    #[test]
    fn at_three_times_the_load_work_goes_on_and_waits_stay_short() {
        let (mut control, begun) = (DelayControl::new(TARGET), Instant::now());
        let mut queue = std::collections::VecDeque::new();
        let (mut done, mut longest) = (0, Duration::ZERO);
        for at in 0..3000 {
            queue.extend([at; 3]);
            while let Some(arrived) = queue.pop_front() {
                let waited = ms(at - arrived);
                if control.admits(waited, begun + ms(at)) {
                    done += 1;
                    if at > 1000 {
                        longest = longest.max(waited);
                    }
                    break;
                }
            }
        }
        assert_eq!(done, 3000);
        assert!(longest <= TARGET * TARGETS_MAX, "{longest:?}");
    }
}
