//! The users of a simulation, and when they draw.
//!
//! Draws arrive independently of each other (a Poisson process), each by a user picked at random.
//! So the number of draws that one user tries on one day varies around its mean, and some users
//! reach a daily limit while others do not draw at all.

use std::{collections::BTreeMap, num::NonZeroU64};

use jiff::civil::DateTime;

use super::share::Share;
use crate::{
    chance::Stream,
    model::{Campaign, Moment, SegmentId, limits::Funding, zone::Window},
};

/// The most users of a simulation.
pub const USERS_MAX: u32 = 10_000_000;
/// The most draws that a user tries on a day, on average.
pub const DRAWS_PER_DAY_MAX: f64 = 10_000.0;
/// How the draws of a day are spread over its hours: few at night, most in the evening.
const PEAK: [f64; 24] = [
    20.0, 12.0, 8.0, 6.0, 6.0, 8.0, 15.0, 25.0, 35.0, 42.0, 46.0, 54.0, 62.0, 54.0, 46.0, 44.0,
    48.0, 56.0, 72.0, 96.0, 120.0, 112.0, 78.0, 40.0,
];
const SECONDS_PER_DAY: f64 = 86_400.0;

/// The users, and what they do.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// How many there are.
    pub users: NonZeroU64,
    /// The free draws that a user tries on a day, on average; bonus draws count as free.
    pub free_per_day: f64,
    /// The paid draws, likewise.
    pub paid_per_day: f64,
    /// When they are tried.
    pub arrivals: Arrivals,
    /// The segments that users are in, each with the share of users, from 0 to 1. Who is in one
    /// may be in any other too.
    pub segments: Vec<(SegmentId, f64)>,
}

/// How draws are spread over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Evenly.
    Flat,
    /// By the local hour of the day, as weights.
    Daily([f64; 24]),
    /// By the local hour of the campaign, as weights; none in hours that are not named.
    Dated(BTreeMap<DateTime, f64>),
}

/// A draw that a user tries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrival {
    pub(super) at: Moment,
    pub(super) user: u64,
    pub(super) funding: Funding,
}

impl Arrivals {
    /// A usual day: few draws at night, most in the evening.
    pub fn peak() -> Self {
        Self::Daily(PEAK)
    }
}

impl Crowd {
    /// The mean number of draws that are tried in each window of a campaign.
    pub(super) fn draws_by_window(&self, campaign: &Campaign, windows: &[Window]) -> Vec<f64> {
        let a_day = self.users.get() as f64 * (self.free_per_day + self.paid_per_day);
        let days = campaign.end.since(campaign.start).as_secs_f64() / SECONDS_PER_DAY;
        let length = |window: &Window| window.end.since(window.start).as_secs_f64();
        let weights: Vec<f64> = match &self.arrivals {
            Arrivals::Flat => windows.iter().map(length).collect(),
            Arrivals::Daily(hours) => {
                // A campaign of half a day has the draws of these hours, not those of a whole day.
                let share = |window: &Window| {
                    let hour = usize::from(window.local_hour.hour().unsigned_abs());
                    hours[hour] / hours.iter().sum::<f64>() * length(window) / 3600.0
                };
                return windows.iter().map(|window| share(window) * a_day).collect();
            }
            Arrivals::Dated(hours) => {
                let weight =
                    |window: &Window| hours.get(&window.local_hour).copied().unwrap_or(0.0);
                windows.iter().map(weight).collect()
            }
        };
        let all: f64 = weights.iter().sum();
        let mean = |weight: &f64| Share::of(*weight, all).0 * a_day * days;
        weights.iter().map(mean).collect()
    }

    /// The segments of each user, picked at random; empty if there are none.
    pub(super) fn memberships(&self, chance: &mut Stream) -> Vec<Vec<SegmentId>> {
        if self.segments.is_empty() {
            return Vec::new();
        }
        let mut of_one = || {
            let mut segments = Vec::new();
            for (segment, share) in &self.segments {
                if Share::random(chance).0 < *share {
                    segments.push(segment.clone());
                }
            }
            segments
        };
        (0..self.users.get()).map(|_| of_one()).collect()
    }

    /// The draws of a window, of which there are `mean` on average, in their order.
    pub(super) fn arrivals<'a>(
        &'a self,
        window: &Window,
        mean: f64,
        chance: &'a mut Stream,
    ) -> impl Iterator<Item = Arrival> + 'a {
        let (start, end) = (window.start, window.end);
        let length = end.since(start).as_secs_f64();
        let paid = Share::of(self.paid_per_day, self.free_per_day + self.paid_per_day);
        let mut passed = 0.0;
        std::iter::from_fn(move || {
            if mean <= 0.0 {
                return None;
            }
            // The time to the next arrival of a Poisson process is exponentially distributed.
            passed -= (1.0 - Share::random(chance).0).ln() * length / mean;
            let at = Moment::from_micros(start.as_micros() + (passed * 1e6) as i64);
            (at < end).then(|| Arrival {
                at,
                user: chance.below(self.users),
                funding: match Share::random(chance).0 < paid.0 {
                    true => Funding::Paid,
                    false => Funding::Free,
                },
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chance::Seed, model::convert::campaign_from_proto, model::file};

    fn campaign(start: &str, end: &str) -> Campaign {
        let text = format!(
            "{{id: w, timeZone: Asia/Shanghai, startTime: '{start}', endTime: '{end}', \
             prizes: [{{id: a, stock: 10}}], \
             pools: [{{id: p, deck: {{size: 10, cards: {{a: 1}}}}}}]}}"
        );
        campaign_from_proto(&file::parse(&text).unwrap()[0]).unwrap()
    }

    fn crowd(arrivals: Arrivals) -> Crowd {
        Crowd {
            users: NonZeroU64::new(1000).unwrap(),
            free_per_day: 3.0,
            paid_per_day: 1.0,
            arrivals,
            segments: Vec::new(),
        }
    }

    fn windows(campaign: &Campaign) -> Vec<Window> {
        let (start, end) = (campaign.start, campaign.end);
        campaign.zone.windows(start, start, end).collect()
    }

    #[test]
    fn a_day_has_the_draws_that_its_users_try() {
        let two_days = campaign("2026-12-01T00:00:00+08:00", "2026-12-03T00:00:00+08:00");
        let dated = BTreeMap::from([
            ("2026-12-01T20:00:00".parse().unwrap(), 1.0),
            ("2026-12-02T21:00:00".parse().unwrap(), 3.0),
        ]);
        for arrivals in [Arrivals::Flat, Arrivals::peak(), Arrivals::Dated(dated)] {
            let windows = windows(&two_days);
            let means = crowd(arrivals.clone()).draws_by_window(&two_days, &windows);
            assert!(
                (means.iter().sum::<f64>() - 8000.0).abs() < 1e-6,
                "{arrivals:?}"
            );
            if let Arrivals::Dated(_) = arrivals {
                assert_eq!((means[20], means[45], means[0]), (2000.0, 6000.0, 0.0));
            }
        }
    }

    #[test]
    fn a_campaign_of_an_evening_has_the_draws_of_the_evening() {
        let evening = campaign("2026-12-01T19:30:00+08:00", "2026-12-01T22:00:00+08:00");
        let windows = windows(&evening);
        let means = crowd(Arrivals::peak()).draws_by_window(&evening, &windows);
        let all: f64 = PEAK.iter().sum();
        assert_eq!(means.len(), 3);
        assert!((means[0] - 4000.0 * PEAK[19] / all / 2.0).abs() < 1e-6);
        assert!((means[2] - 4000.0 * PEAK[21] / all).abs() < 1e-6);
    }

    #[test]
    fn arrivals_are_in_order_and_as_many_as_their_mean_says() {
        let day = campaign("2026-12-01T00:00:00+08:00", "2026-12-02T00:00:00+08:00");
        let window = windows(&day)[5];
        let crowd = crowd(Arrivals::Flat);
        let mut chance = Seed::from_bytes([9; 32]).stream(&[b"arrivals"]);
        let (mut draws, mut paid) = (0, 0);
        for _ in 0..100 {
            let all: Vec<Arrival> = crowd.arrivals(&window, 250.0, &mut chance).collect();
            assert!(all.is_sorted_by_key(|arrival| arrival.at));
            assert!(
                all.iter()
                    .all(|it| window.start <= it.at && it.at < window.end)
            );
            assert!(all.iter().all(|it| it.user < 1000));
            draws += all.len();
            paid += all.iter().filter(|it| it.funding == Funding::Paid).count();
        }
        // 25,000 on average with a standard deviation of 158, a quarter of them paid.
        assert!((24_400..25_600).contains(&draws), "{draws}");
        assert!((5_950..6_550).contains(&paid), "{paid}");
    }
}
