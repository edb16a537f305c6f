//! How fast campaigns draw: kept from the sums that their viewers read, for an hour, in memory.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::proto::GetStatsResponse;

/// Minutes of a curve.
const MINUTES: usize = 60;
/// The most campaigns that are kept; those that nobody looked at for the longest time go first.
const CAMPAIGNS_MAX: usize = 1_000;
/// The time over which a rate is taken, and the shortest one that says anything, in seconds.
const RATE_S: i64 = 60;
const RATE_S_MIN: i64 = 5;

/// The sums of a campaign at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    at_s: i64,
    draws: u64,
    wins: u64,
    consolations: u64,
}

/// What came in a minute, or in a longer step of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Point {
    /// Its beginning, in steps since 1970.
    pub(super) at: i64,
    pub(super) draws: u64,
    pub(super) wins: u64,
    pub(super) consolations: u64,
}

/// What is kept of a campaign.
#[derive(Debug, Default)]
struct Samples {
    /// The last minute, about each second.
    latest: VecDeque<Sums>,
    /// The first sums of each minute of the last hour.
    minutes: VecDeque<Sums>,
}

/// The sums of campaigns.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<String, Samples>>);

impl Rates {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Samples>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what somebody has read.
    pub(super) fn note(&self, campaign: &str, stats: &GetStatsResponse) {
        let sums = Sums {
            at_s: stats.read_time.as_ref().map_or(0, |at| at.seconds),
            draws: stats.draws,
            wins: stats.wins,
            consolations: stats.consolations,
        };
        let mut known = self.lock();
        if !known.contains_key(campaign) && known.len() >= CAMPAIGNS_MAX {
            let age = |samples: &Samples| samples.latest.back().map_or(0, |sums| sums.at_s);
            let oldest = known.iter().min_by_key(|(_, samples)| age(samples));
            if let Some(id) = oldest.map(|(id, _)| id.clone()) {
                known.remove(&id);
            }
        }
        known.entry(campaign.into()).or_default().add(sums);
    }

    /// Draws and wins a minute of late; none if too little is known.
    pub(super) fn a_minute(&self, campaign: &str) -> Option<(u64, u64)> {
        let known = self.lock();
        let latest = &known.get(campaign)?.latest;
        let (first, last) = (latest.front()?, latest.back()?);
        let seconds = last.at_s - first.at_s;
        let rate = |before, after| scaled(before, after, seconds);
        (seconds >= RATE_S_MIN)
            .then(|| (rate(first.draws, last.draws), rate(first.wins, last.wins)))
    }

    /// The whole minutes of the last hour that are known.
    pub(super) fn curve(&self, campaign: &str) -> Vec<Point> {
        let known = self.lock();
        let Some(samples) = known.get(campaign) else {
            return Vec::new();
        };
        let minutes = samples.minutes.iter().zip(samples.minutes.iter().skip(1));
        let next_to = |(a, b): &(&Sums, &Sums)| b.at_s / 60 == a.at_s / 60 + 1;
        minutes
            .filter(next_to)
            .map(|(a, b)| {
                let rate = |before, after| scaled(before, after, b.at_s - a.at_s);
                Point {
                    at: a.at_s / 60,
                    draws: rate(a.draws, b.draws),
                    wins: rate(a.wins, b.wins),
                    consolations: rate(a.consolations, b.consolations),
                }
            })
            .collect()
    }
}

/// A difference as that of a minute, rounded.
fn scaled(before: u64, after: u64, seconds: i64) -> u64 {
    let seconds = u64::try_from(seconds).unwrap_or_default().max(1);
    let difference = after.saturating_sub(before);
    (difference.saturating_mul(60) + seconds / 2) / seconds
}

impl Samples {
    fn add(&mut self, sums: Sums) {
        let is_older = |known: Option<&Sums>| known.is_some_and(|it| sums.at_s <= it.at_s);
        if is_older(self.latest.back()) {
            return;
        }
        self.latest.push_back(sums);
        while self
            .latest
            .front()
            .is_some_and(|it| it.at_s < sums.at_s - RATE_S)
        {
            self.latest.pop_front();
        }
        let minute = sums.at_s / 60;
        if self.minutes.back().is_none_or(|it| it.at_s / 60 < minute) {
            self.minutes.push_back(sums);
        }
        while self
            .minutes
            .front()
            .is_some_and(|it| it.at_s / 60 < minute - MINUTES as i64)
        {
            self.minutes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(rates: &Rates, at_s: i64, draws: u64) {
        let stats = GetStatsResponse {
            draws,
            wins: draws / 2,
            read_time: Some(prost_types::Timestamp {
                seconds: at_s,
                nanos: 0,
            }),
            ..GetStatsResponse::default()
        };
        rates.note("wheel", &stats);
    }

    #[test]
    fn a_rate_is_that_of_the_last_minute() {
        let rates = Rates::default();
        assert_eq!(rates.a_minute("wheel"), None);
        note(&rates, 1_000, 0);
        note(&rates, 1_004, 100);
        assert_eq!(rates.a_minute("wheel"), None);
        note(&rates, 1_030, 100);
        assert_eq!(rates.a_minute("wheel"), Some((200, 100)));
        // What is older does not count, and what was read late changes nothing.
        for second in 0..120 {
            note(&rates, 2_000 + second, 1_000 + 2 * second as u64);
        }
        note(&rates, 2_010, 5);
        assert_eq!(rates.a_minute("wheel"), Some((120, 60)));
    }

    #[test]
    fn a_curve_has_whole_minutes_of_the_last_hour_and_is_bounded() {
        let rates = Rates::default();
        for second in 0..2 * 3_600 {
            note(&rates, 60_000 + second, second as u64);
        }
        let curve = rates.curve("wheel");
        assert_eq!(curve.len(), MINUTES);
        assert!(curve.iter().all(|minute| minute.draws == 60));
        assert_eq!(curve.last().unwrap().at, 1_000 + 118);
        let known = rates.lock();
        assert!(known["wheel"].latest.len() <= 61 && known["wheel"].minutes.len() <= 61);
    }

    #[test]
    fn a_time_that_nobody_looked_at_is_a_gap() {
        let rates = Rates::default();
        for (at_s, draws) in [(600, 0), (660, 30), (900, 1_000), (960, 1_010)] {
            note(&rates, at_s, draws);
        }
        let curve = rates.curve("wheel");
        let points: Vec<_> = curve.iter().map(|it| (it.at, it.draws)).collect();
        assert_eq!(points, [(10, 30), (15, 10)]);
    }

    #[test]
    fn campaigns_are_bounded() {
        let rates = Rates::default();
        for index in 0..CAMPAIGNS_MAX as i64 + 5 {
            let stats = GetStatsResponse {
                read_time: Some(prost_types::Timestamp {
                    seconds: index,
                    nanos: 0,
                }),
                ..GetStatsResponse::default()
            };
            rates.note(&format!("c{index}"), &stats);
        }
        let known = rates.lock();
        assert_eq!(known.len(), CAMPAIGNS_MAX);
        assert!(!known.contains_key("c0") && known.contains_key("c5"));
    }
}
