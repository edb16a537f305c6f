//! What happens by the stores' clock: the campaigns, and what operators do with them each day.

use std::{
    fmt,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

use super::args::Times;
use crate::campaigns::whole_second;

/// The share of draws for which an hour of the schedule has a coupon.
const COUPONS_PER_DRAW: f64 = 0.1;
/// By how much the plan of each day multiplies the coupons of an hour, in turn.
const DAYS: [f64; 4] = [1.0, 2.0, 0.5, 1.5];
/// How long campaigns have run when they are created: the clock of a service is behind that of the
/// bench by the time that the service took to start.
const BEFORE: SignedDuration = SignedDuration::from_hours(1);

/// The clock of the stores, as the bench knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoryClock {
    began: Instant,
    start: Timestamp,
    speed: u32,
}

impl StoryClock {
    /// A clock that starts at the real time, so that the ledger's months are those that a sink
    /// prepares.
    pub(super) fn start(speed: u32) -> Self {
        Self {
            began: Instant::now(),
            start: Timestamp::now(),
            speed,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        let passed = self.began.elapsed() * self.speed;
        self.start + SignedDuration::try_from(passed).unwrap_or_default()
    }

    /// The real time until a moment of the clock.
    pub(super) fn until(&self, moment: Timestamp) -> Duration {
        let left = moment.duration_since(self.now());
        Duration::try_from(left).unwrap_or_default() / self.speed
    }

    /// Waits until a moment of the clock.
    pub(super) async fn sleep_until(&self, moment: Timestamp) {
        tokio::time::sleep(self.until(moment)).await;
    }
}

/// The campaign of the whole run.
#[derive(Clone, Debug)]
pub(super) struct Main {
    pub(super) id: String,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    /// Draws in an hour of the campaign.
    draws_per_hour: f64,
}

impl Main {
    /// A campaign from now on, for this many draws a second of real time.
    pub(super) fn new(id: String, clock: &StoryClock, times: &Times, rate: u64) -> Self {
        let start = whole_second(clock.now());
        Self {
            id,
            start,
            end: start + SignedDuration::try_from(times.story).unwrap_or_default(),
            draws_per_hour: rate as f64 * 3600.0 / f64::from(times.speed),
        }
    }

    /// Its definition on a day: only the quantities of the schedule differ.
    pub(super) fn on(&self, day: usize) -> String {
        let Self { id, end, .. } = self;
        let start = self.start - BEFORE;
        let hours = end.duration_since(start).as_secs_f64() / 3600.0 + 2.0;
        let coupons = |factor: f64| (self.draws_per_hour * COUPONS_PER_DRAW * factor).ceil();
        let per_hour = coupons(DAYS[day % DAYS.len()]).max(1.0);
        let evening = coupons(2.5).max(2.0);
        let coupon_stock = (evening * hours).ceil();
        let mug_stock = (self.draws_per_hour * hours * 0.2).ceil() + 1000.0;
        format!(
            "{{id: {id}, timeZone: UTC, startTime: '{start}', endTime: '{end}', limits: \
             {{drawsPerDay: 6, drawsPerUser: 1000}}, consolation: {{id: points, name: 5 points}}, \
             prizes: [{{id: car, stock: 3, grand: true}}, {{id: coupon, stock: {coupon_stock}, \
             perUser: {{perDay: 2}}}}, {{id: mug, stock: {mug_stock}}}, {{id: sticker, \
             unlimited: true, countsAsWin: false}}], pools: [{{id: headline, schedule: {{total: \
             {{car: 3}}}}}}, {{id: hours, schedule: {{perHour: {{coupon: {per_hour}}}, daily: \
             [{{from: '20:00', to: '22:00', perHour: {{coupon: {evening}}}}}], unclaimed: RETURN, \
             returnAfter: 7200s}}}}, {{id: everyday, deck: {{size: 1000, cards: {{mug: 100, \
             sticker: 300}}, onExhausted: RESHUFFLE}}}}]}}"
        )
    }
}

/// The definition of a small campaign that has begun and is closed before its end.
pub(super) fn small(id: &str, now: Timestamp, day: Duration) -> String {
    let start = whole_second(now) - BEFORE;
    let end = start + BEFORE + SignedDuration::try_from(day * 3).unwrap_or_default();
    format!(
        "{{id: {id}, timeZone: UTC, startTime: '{start}', endTime: '{end}', limits: \
         {{drawsPerDay: 3}}, consolation: {{id: points}}, prizes: [{{id: pin, stock: 5000}}], \
         pools: [{{id: cards, deck: {{size: 100, cards: {{pin: 10}}, onExhausted: \
         RESHUFFLE}}}}]}}"
    )
}

/// What an operator does on a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Creates the day's small campaign, and changes the plan.
    Plan,
    /// Closes the small campaign of the day before.
    Close,
    PausePrize,
    ResumePrize,
    Pause,
    Resume,
}

impl Act {
    /// All of a day, each at a part of the day, in 96ths (quarters of an hour).
    pub(super) const OF_A_DAY: [(u32, Self); 6] = [
        (0, Self::Plan),
        (2, Self::Close),
        (24, Self::PausePrize),
        (28, Self::ResumePrize),
        (48, Self::Pause),
        (49, Self::Resume),
    ];
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan => "plan",
            Self::Close => "close",
            Self::PausePrize => "pause-prize",
            Self::ResumePrize => "resume-prize",
            Self::Pause => "pause",
            Self::Resume => "resume",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaigns;

    #[test]
    fn definitions_are_valid_and_each_day_has_another_plan() {
        let clock = StoryClock::start(360);
        let times = Times {
            load: Duration::from_secs(7200),
            story: Duration::from_secs(30 * 86_400),
            speed: 360,
            restart_every: Duration::from_secs(300),
        };
        let main = Main::new("soak-main".into(), &clock, &times, 3000);
        for day in 0..4 {
            assert_ne!(main.on(day), main.on(day + 1));
            campaigns::request(&main.on(day), false).unwrap();
        }
        let small = small("soak-day-0", clock.now(), times.day());
        campaigns::request(&small, false).unwrap();
        assert_eq!(clock.until(clock.now()), Duration::ZERO);
        let left = clock.until(main.end);
        assert!(left <= times.load && left > times.load - Duration::from_secs(5));
    }
}
