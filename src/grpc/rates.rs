//! How fast campaigns draw: what came in each minute of the last hour, and when prizes will run
//! out.
//!
//! A service reads the sums of campaigns once a minute (see [`super::alerts`]), whether anybody
//! asks or not, and keeps those of the last hour. Nothing of it is stored, so a service knows the
//! rates of a campaign once it has served for some minutes.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    model::{CampaignId, Moment, PrizeNo},
    proto::{ActivityMinute, ActivityRate},
    store::{
        Stats,
        view::{DrawCounts, Lifecycle},
    },
};

/// How much of the past the rate is of.
const PAST: Duration = Duration::from_secs(3600);
/// A rate of a shorter time would say little.
const PAST_MIN: Duration = Duration::from_secs(600);
/// What a curve shows as one point, in seconds.
const MINUTE_S: i64 = 60;
/// The most minutes between two readings that share what came between them; after more of them
/// nobody knows when it came.
const MINUTES_SHARED: i64 = 3;
/// The time over which draws a minute are counted, and the shortest one that says anything.
const LATELY: Duration = Duration::from_secs(60);
const LATELY_MIN: Duration = Duration::from_secs(5);
/// The most numbers that are kept of all campaigns: 16 MiB. A campaign has at most 61 readings of
/// four numbers, and one more for each prize. At the bound, further campaigns have no rates, and
/// those that have some keep no more readings than they have.
const NUMBERS_MAX: usize = 2 << 20;

/// The readings of the last hour.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    campaigns: HashMap<CampaignId, VecDeque<Reading>>,
    numbers: usize,
}

/// The sums of a campaign at a moment of the store's clock.
#[derive(Debug)]
struct Reading {
    at: Moment,
    counts: DrawCounts,
    /// Units that were ever won, by [`PrizeNo`].
    won: Box<[u64]>,
}

impl Reading {
    fn of(stats: &Stats) -> Self {
        let won = stats.prizes.iter().map(|prize| prize.won + prize.revoked);
        Self {
            at: stats.now,
            counts: stats.draws,
            won: won.collect(),
        }
    }

    fn minute(&self) -> i64 {
        self.at.as_seconds().div_euclid(MINUTE_S)
    }

    fn draws(&self) -> u64 {
        self.counts.wins + self.counts.consolations + self.counts.nothings
    }

    fn numbers(&self) -> usize {
        4 + self.won.len()
    }

    /// The draws, wins and consolations a minute from this reading to a later one, rounded.
    fn a_minute(&self, later: &Self) -> [u64; 3] {
        let ms = u64::try_from(later.at.since(self.at).as_millis()).unwrap_or(u64::MAX);
        let scaled = |before: u64, after: u64| {
            let difference = after.saturating_sub(before);
            (difference.saturating_mul(60_000) + ms / 2) / ms.max(1)
        };
        [
            scaled(self.draws(), later.draws()),
            scaled(self.counts.wins, later.counts.wins),
            scaled(self.counts.consolations, later.counts.consolations),
        ]
    }
}

impl Kept {
    fn is_full(&self) -> bool {
        self.numbers >= NUMBERS_MAX
    }

    /// Drops readings, and campaigns without any.
    fn retain(&mut self, keeps: impl Fn(&Reading) -> bool) {
        self.campaigns.retain(|_, readings| {
            readings.retain(&keeps);
            !readings.is_empty()
        });
        let readings = self.campaigns.values().flatten();
        self.numbers = readings.map(Reading::numbers).sum();
    }
}

impl Rates {
    /// Keeps the first reading of each minute.
    pub(super) fn note(&self, stats: &Stats) {
        let reading = Reading::of(stats);
        let mut kept = self.lock();
        let is_full = kept.is_full();
        let Kept { campaigns, numbers } = &mut *kept;
        let id = &stats.view.campaign.id;
        if is_full && !campaigns.contains_key(id) {
            return;
        }
        let readings = campaigns.entry(id.clone()).or_default();
        let mut dropped = 0;
        if let Some(last) = readings.back()
            && last.at > reading.at
        {
            if last.at.since(reading.at) < LATELY {
                // It was read before the last one, and comes later.
                return;
            }
            // The clock was set back.
            dropped += readings.drain(..).map(|old| old.numbers()).sum::<usize>();
        }
        if (readings.back()).is_none_or(|last| last.minute() < reading.minute()) {
            let is_old = |old: &Reading| reading.minute() - old.minute() > 60;
            while readings.front().is_some_and(is_old) {
                dropped += readings.pop_front().map_or(0, |old| old.numbers());
            }
            if is_full {
                dropped += readings.pop_front().map_or(0, |old| old.numbers());
            }
            *numbers += reading.numbers();
            readings.push_back(reading);
        }
        *numbers -= dropped;
    }

    /// What came in each minute of the last hour. Readings that are a few minutes apart share what
    /// came between them; a longer time is a gap.
    pub(super) fn minutes(&self, stats: &Stats) -> Vec<ActivityMinute> {
        let kept = self.lock();
        let Some(readings) = kept.campaigns.get(&stats.view.campaign.id) else {
            return Vec::new();
        };
        let pairs = readings.iter().zip(readings.iter().skip(1));
        let shared = pairs.filter(|(a, b)| b.minute() - a.minute() <= MINUTES_SHARED);
        let minutes = shared.flat_map(|(a, b)| {
            let [draws, wins, consolations] = a.a_minute(b);
            (a.minute()..b.minute()).map(move |minute| ActivityMinute {
                start_time: Some(prost_types::Timestamp {
                    seconds: minute * MINUTE_S,
                    nanos: 0,
                }),
                draws,
                wins,
                consolations,
            })
        });
        minutes.collect()
    }

    /// Draws and wins a minute: from the youngest reading of a minute ago or before, else from the
    /// first one.
    pub(super) fn lately(&self, stats: &Stats) -> Option<ActivityRate> {
        let kept = self.lock();
        let readings = kept.campaigns.get(&stats.view.campaign.id)?;
        let age = |reading: &Reading| stats.now.since(reading.at);
        let mut old = readings.iter().rev();
        let from = old.find(|reading| age(reading) >= LATELY);
        let from = from.or(readings.front())?;
        (age(from) >= LATELY_MIN).then(|| {
            let [draws, wins, _] = from.a_minute(&Reading::of(stats));
            ActivityRate { draws, wins }
        })
    }

    /// When nothing will be left of a prize, if users go on winning it as they did in the last
    /// hour, or since the first reading. None for a prize of which nothing is left or always
    /// enough, which nobody has won, or which outlasts the campaign; none in a closed campaign, and
    /// none within the first ten minutes.
    pub(super) fn runs_out(&self, stats: &Stats, no: PrizeNo) -> Option<Moment> {
        if stats.view.lifecycle == Lifecycle::Closed {
            return None;
        }
        let campaign = &stats.view.campaign;
        let index = usize::from(no.0);
        let (definition, prize) = (campaign.prize(no), &stats.prizes[index]);
        let left = match definition.codes {
            true => prize.codes_left(),
            false => prize.left + prize.waiting,
        };
        let (past, before) = self.earliest(stats, index)?;
        let won = (prize.won + prize.revoked).checked_sub(before)?;
        if definition.unlimited || left == 0 || won == 0 {
            return None;
        }
        let lasts_us = u128::from(left) * past.as_micros() / u128::from(won);
        let lasts = Duration::from_micros(u64::try_from(lasts_us).ok()?);
        Some(stats.now + lasts).filter(|out| *out < campaign.end)
    }

    /// How long ago the earliest reading was, if that is long enough, and what had been won of a
    /// prize then.
    fn earliest(&self, stats: &Stats, prize: usize) -> Option<(Duration, u64)> {
        let kept = self.lock();
        let readings = kept.campaigns.get(&stats.view.campaign.id)?;
        let in_past = |reading: &&Reading| stats.now.since(reading.at) <= PAST;
        let reading = readings.iter().find(in_past)?;
        let past = stats.now.since(reading.at);
        // A prize that was added since had not been won.
        let won = reading.won.get(prize).copied().unwrap_or(0);
        (past >= PAST_MIN).then_some((past, won))
    }

    /// Forgets what is older than an hour, and campaigns of which nothing is younger.
    pub(super) fn forget(&self, now: Moment) {
        let minute = now.as_seconds().div_euclid(MINUTE_S);
        self.lock().retain(|old| minute - old.minute() <= 60);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        chance::MasterKey,
        injector::Injector,
        model::{OperatorId, RequestId, convert::campaign_from_proto, file},
        store::{Author, clock::SystemClock, memory::MemoryStore},
    };

    const CAMPAIGN: &str = "
id: wheel
timeZone: UTC
startTime: 2998-01-01T00:00:00Z
endTime: 2998-01-03T00:00:00Z
prizes: [{id: coupon, stock: 1000}, {id: sticker, unlimited: true}]
pools: [{id: hours, schedule: {perHour: {coupon: 10, sticker: 10}}}]
";
    const COUPON: PrizeNo = PrizeNo(0);
    const STICKER: PrizeNo = PrizeNo(1);

    /// The sums at the start of the campaign.
    async fn begun() -> Stats {
        let store = MemoryStore::new(Arc::new(SystemClock), Duration::from_secs(60));
        let key = MasterKey::from_bytes([7; 32]);
        let injector = Arc::new(Injector::new(Arc::new(store), key, Duration::ZERO));
        let campaign = campaign_from_proto(&file::parse(CAMPAIGN).unwrap()[0]).unwrap();
        let author = Author {
            request: RequestId::parse("request", "r").unwrap(),
            operator: OperatorId::parse("operator", "o").unwrap(),
            reason: String::new(),
            on_behalf_of: None,
            authenticated: false,
            approved: None,
        };
        let id = campaign.id.clone();
        injector.apply(Arc::new(campaign), 0, author).await.unwrap();
        let mut stats = injector.store().stats(&id).await.unwrap();
        stats.now = stats.view.campaign.start;
        stats
    }

    /// The sums so many minutes after the start, when so many units of each prize were won.
    fn after(begun: &Stats, minutes: u64, won: u64) -> Stats {
        let mut stats = begun.clone();
        stats.now = stats.now + Duration::from_secs(minutes * 60);
        for prize in &mut stats.prizes {
            (prize.won, prize.left, prize.waiting) = (won, 1_000 - won, 0);
        }
        stats
    }

    /// When it runs out, in minutes after the start.
    fn out(rates: &Rates, stats: &Stats) -> Option<u64> {
        let out = rates.runs_out(stats, COUPON)?;
        Some(out.since(stats.view.campaign.start).as_secs() / 60)
    }

    #[tokio::test]
    async fn the_rate_of_the_last_hour_says_when_a_prize_runs_out() {
        let (rates, begun) = (Rates::default(), begun().await);
        let at = |minutes, won| {
            let stats = after(&begun, minutes, won);
            rates.note(&stats);
            (out(&rates, &stats), rates.runs_out(&stats, STICKER))
        };
        assert_eq!(at(0, 0), (None, None));
        assert_eq!(at(9, 90), (None, None), "too short to tell");
        assert_eq!(at(10, 100), (Some(10 + 90), None), "ten a minute");
        assert_eq!(at(60, 100), (Some(60 + 540), None), "a hundred an hour");
        // What was won more than an hour ago does not count: the first reading is of minute 9.
        assert_eq!(at(65, 154), (Some(65 + 846 * 56 / 64), None));
        assert_eq!(at(124, 154), (None, None), "nobody has won since");
        assert_eq!(at(130, 1_000), (None, None), "nothing is left");
    }

    #[tokio::test]
    async fn a_prize_that_outlasts_the_campaign_does_not_run_out() {
        let (rates, begun) = (Rates::default(), begun().await);
        rates.note(&begun);
        let of = |won| out(&rates, &after(&begun, 20, won));
        // 48 hours: 20 minutes a unit are 144 units.
        assert_eq!((of(6), of(8)), (None, Some(20 + 992 * 20 / 8)));
        let mut closed = after(&begun, 20, 8);
        closed.view.lifecycle = Lifecycle::Closed;
        assert_eq!(out(&rates, &closed), None);
    }

    #[tokio::test]
    async fn revoked_wins_were_won_and_a_clock_that_was_set_back_begins_anew() {
        let (rates, begun) = (Rates::default(), begun().await);
        rates.note(&begun);
        let mut stats = after(&begun, 20, 80);
        (stats.prizes[0].won, stats.prizes[0].revoked) = (0, 80);
        assert_eq!(out(&rates, &stats), Some(20 + 920 / 4));
        rates.note(&stats);
        rates.note(&begun);
        assert_eq!(out(&rates, &after(&begun, 5, 80)), None);
        assert_eq!(out(&rates, &after(&begun, 20, 80)), Some(20 + 920 / 4));
        let kept = rates.lock();
        let counted = kept.campaigns.values().map(VecDeque::len).sum::<usize>();
        assert_eq!(counted, 1, "what was read before is forgotten");
        assert_eq!(kept.numbers, 4 + 2);
    }

    /// The same sums so many seconds after the start, after so many draws, of which half won.
    fn drawn(begun: &Stats, seconds: u64, draws: u64) -> Stats {
        let mut stats = begun.clone();
        stats.now = stats.now + Duration::from_secs(seconds);
        stats.draws.wins = draws / 2;
        stats.draws.consolations = draws / 4;
        stats.draws.nothings = draws - draws / 2 - draws / 4;
        stats
    }

    #[tokio::test]
    async fn the_curve_has_the_minutes_of_the_last_hour_and_is_bounded() {
        let (rates, begun) = (Rates::default(), begun().await);
        for second in (0..2 * 3_600).step_by(7) {
            rates.note(&drawn(&begun, second, 4 * second));
        }
        let last = drawn(&begun, 2 * 3_600, 8 * 3_600);
        rates.note(&last);
        let minutes = rates.minutes(&last);
        assert_eq!(minutes.len(), 60);
        let first_s = minutes[0].start_time.as_ref().unwrap().seconds;
        assert_eq!(first_s, last.now.as_seconds() - 3_600);
        for minute in &minutes {
            let counts = (minute.draws, minute.wins, minute.consolations);
            assert_eq!(counts, (240, 120, 60));
        }
        assert_eq!(rates.lock().numbers, 61 * 6);
        rates.forget(last.now + Duration::from_secs(7_200));
        assert_eq!(rates.minutes(&last), []);
        assert_eq!(rates.lock().numbers, 0);
    }

    #[tokio::test]
    async fn readings_a_few_minutes_apart_share_what_came_and_longer_times_are_gaps() {
        let (rates, begun) = (Rates::default(), begun().await);
        for (seconds, draws) in [(0, 0), (60, 30), (180, 90), (900, 1_000), (960, 1_010)] {
            rates.note(&drawn(&begun, seconds, draws));
        }
        let minutes = rates.minutes(&drawn(&begun, 960, 1_010));
        let start = begun.now.as_seconds();
        let minutes: Vec<_> = minutes
            .iter()
            .map(|it| {
                (
                    (it.start_time.as_ref().unwrap().seconds - start) / 60,
                    it.draws,
                )
            })
            .collect();
        assert_eq!(minutes, [(0, 30), (1, 30), (2, 30), (15, 10)]);
    }

    #[tokio::test]
    async fn draws_a_minute_are_those_of_late() {
        let (rates, begun) = (Rates::default(), begun().await);
        let lately = |seconds, draws| {
            let stats = drawn(&begun, seconds, draws);
            rates.note(&stats);
            rates.lately(&stats).map(|rate| (rate.draws, rate.wins))
        };
        assert_eq!(lately(0, 0), None);
        assert_eq!(lately(4, 100), None, "too short to tell");
        assert_eq!(lately(30, 100), Some((200, 100)));
        assert_eq!(lately(60, 100), Some((100, 50)));
        assert_eq!(
            lately(120, 340),
            Some((240, 120)),
            "the first minute is over"
        );
        assert_eq!(lately(150, 340), Some((160, 80)));
    }

    #[tokio::test]
    async fn a_reading_that_comes_after_a_later_one_is_left_out() {
        let (rates, begun) = (Rates::default(), begun().await);
        rates.note(&after(&begun, 0, 0));
        rates.note(&after(&begun, 20, 80));
        // It was read at the end of the minute before.
        let mut late = after(&begun, 20, 79);
        late.now = late.view.campaign.start + Duration::from_secs(20 * 60 - 1);
        rates.note(&late);
        assert_eq!(out(&rates, &after(&begun, 20, 80)), Some(20 + 920 / 4));
    }

    #[tokio::test]
    async fn at_the_bound_a_campaign_keeps_no_more_readings_than_it_has() {
        let (rates, begun) = (Rates::default(), begun().await);
        rates.note(&begun);
        rates.note(&after(&begun, 1, 10));
        rates.lock().numbers = NUMBERS_MAX;
        rates.note(&after(&begun, 2, 20));
        let kept = rates.lock();
        assert_eq!(kept.numbers, NUMBERS_MAX);
        let readings = kept.campaigns.values().next().unwrap();
        let minutes: Vec<_> = readings.iter().map(|it| it.won[0]).collect();
        assert_eq!(minutes, [10, 20], "the youngest ones");
    }

    #[tokio::test]
    async fn campaigns_beyond_the_bound_have_no_rates() {
        let (rates, begun) = (Rates::default(), begun().await);
        rates.note(&begun);
        rates.lock().numbers = NUMBERS_MAX;
        let mut other = begun.clone();
        let mut campaign = (*other.view.campaign).clone();
        campaign.id = CampaignId::parse("id", "other").unwrap();
        other.view.campaign = Arc::new(campaign);
        rates.note(&other);
        assert_eq!(rates.lock().campaigns.len(), 1);
        rates.forget(begun.now);
        rates.note(&other);
        assert_eq!(
            rates.lock().campaigns.len(),
            2,
            "what is kept is counted anew"
        );
    }
}
