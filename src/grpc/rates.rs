//! How fast the prizes of each campaign are won, and so when they will run out.
//!
//! A service reads the sums of campaigns once a minute (see [`super::alerts`]), and keeps those of
//! the last hour. Nothing of it is stored, so a service knows the rates of a campaign once it has
//! served for some minutes.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    model::{CampaignId, Moment, PrizeNo},
    store::{Stats, view::Lifecycle},
};

/// How much of the past the rate is of.
const PAST: Duration = Duration::from_secs(3600);
/// A rate of a shorter time would say little.
const PAST_MIN: Duration = Duration::from_secs(600);
/// The least time between two readings that are kept.
const PAUSE: Duration = Duration::from_secs(60);

/// The readings of the last hour.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<CampaignId, VecDeque<Reading>>>);

/// The sums of a campaign at a moment of the store's clock.
#[derive(Debug)]
struct Reading {
    at: Moment,
    /// Units that were ever won, by [`PrizeNo`].
    won: Box<[u64]>,
}

impl Rates {
    /// Keeps a reading, unless the last one is younger than a minute.
    pub(super) fn note(&self, stats: &Stats) {
        let mut campaigns = self.lock();
        let readings = campaigns.entry(stats.view.campaign.id.clone()).or_default();
        if readings.back().is_some_and(|last| last.at > stats.now) {
            readings.clear(); // the clock was set back
        }
        let is_due = |last: &Reading| stats.now.since(last.at) >= PAUSE;
        if readings.back().is_none_or(is_due) {
            readings.retain(|reading| stats.now.since(reading.at) <= PAST);
            let won = stats.prizes.iter().map(|prize| prize.won + prize.revoked);
            readings.push_back(Reading {
                at: stats.now,
                won: won.collect(),
            });
        }
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
        let campaigns = self.lock();
        let readings = campaigns.get(&stats.view.campaign.id)?;
        let in_past = |reading: &&Reading| stats.now.since(reading.at) <= PAST;
        let reading = readings.iter().find(in_past)?;
        let past = stats.now.since(reading.at);
        // A prize that was added since had not been won.
        let won = reading.won.get(prize).copied().unwrap_or(0);
        (past >= PAST_MIN).then_some((past, won))
    }

    /// Forgets campaigns that were not read within the last hour.
    pub(super) fn forget(&self, now: Moment) {
        let is_recent = |reading: &Reading| now.since(reading.at) <= PAST;
        self.lock()
            .retain(|_, readings| readings.back().is_some_and(is_recent));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CampaignId, VecDeque<Reading>>> {
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
        let counted = rates.lock().values().map(VecDeque::len).sum::<usize>();
        assert_eq!(counted, 1, "what was read before is forgotten");
    }
}
