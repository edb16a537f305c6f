//! Caps: how many units of a prize each user may win, and what was counted of that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{limits::Quota, moment::Moment, number::PrizeNo};

/// The most units of a prize that each user may win; at least one of both is set, and at least 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrizeCap {
    /// In the campaign.
    pub total: Option<u32>,
    /// On a day of the campaign's zone.
    pub per_day: Option<u32>,
}

/// What a user won of a prize while it had a cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrizeCount {
    /// On the day of the user's record.
    pub today: u32,
    /// In all.
    pub total: u64,
}

impl PrizeCap {
    /// A user with this count may win no further unit now.
    ///
    /// ```
    /// use tombola::model::caps::{PrizeCap, PrizeCount};
    /// let cap = PrizeCap { total: Some(3), per_day: Some(1) };
    /// assert!(cap.is_reached(PrizeCount { today: 1, total: 1 }));
    /// assert!(!cap.is_reached(PrizeCount { today: 0, total: 2 }));
    /// ```
    pub fn is_reached(&self, count: PrizeCount) -> bool {
        self.per_day.is_some_and(|most| count.today >= most)
            || self
                .total
                .is_some_and(|most| count.total >= u64::from(most))
    }
}

/// What a user won of prizes while they had caps; only prizes that were won. In JSON a list of
/// `[prize, today, total]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<CountCode>", into = "Vec<CountCode>")]
pub struct PrizeCounts(BTreeMap<PrizeNo, PrizeCount>);

type CountCode = (PrizeNo, u32, u64);

impl From<Vec<CountCode>> for PrizeCounts {
    fn from(codes: Vec<CountCode>) -> Self {
        codes.into_iter().collect()
    }
}

impl From<PrizeCounts> for Vec<CountCode> {
    fn from(counts: PrizeCounts) -> Self {
        counts.iter().collect()
    }
}

impl FromIterator<CountCode> for PrizeCounts {
    fn from_iter<T: IntoIterator<Item = CountCode>>(codes: T) -> Self {
        let codes = codes.into_iter();
        Self(
            codes
                .map(|(prize, today, total)| (prize, PrizeCount { today, total }))
                .collect(),
        )
    }
}

impl PrizeCounts {
    /// Nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was counted of a prize.
    pub fn of(&self, prize: PrizeNo) -> PrizeCount {
        self.0.get(&prize).copied().unwrap_or_default()
    }

    /// Counts a win.
    pub fn add(&mut self, prize: PrizeNo) {
        let count = self.0.entry(prize).or_default();
        count.today += 1;
        count.total += 1;
    }

    /// A later day starts at zero.
    pub fn begin_day(&mut self) {
        for count in self.0.values_mut() {
            count.today = 0;
        }
    }

    /// Prize, wins of the day, wins in all, by prize.
    pub fn iter(&self) -> impl Iterator<Item = (PrizeNo, u32, u64)> {
        let counts = self.0.iter();
        counts.map(|(prize, count)| (*prize, count.today, count.total))
    }
}

/// The caps of a prize as they stand for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrizeQuota {
    /// Which prize.
    pub prize: PrizeNo,
    /// Of the day.
    pub today: Quota,
    /// In all.
    pub total: Quota,
}

impl PrizeQuota {
    /// A cap beside what was counted; the day ends at `reset`.
    pub fn new(prize: PrizeNo, cap: &PrizeCap, count: PrizeCount, reset: Moment) -> Self {
        let quota = |limit, used, reset| Quota {
            limit,
            used,
            bonus: 0,
            reset,
        };
        Self {
            prize,
            today: quota(cap.per_day, count.today.into(), Some(reset)),
            total: quota(cap.total, count.total, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_counts_the_day_and_the_campaign_by_themselves() {
        let (mug, car) = (PrizeNo(3), PrizeNo(0));
        let mut counts = PrizeCounts::default();
        assert!(counts.is_empty());
        counts.add(mug);
        counts.add(mug);
        counts.begin_day();
        counts.add(mug);
        counts.add(car);
        assert_eq!(counts.of(mug), PrizeCount { today: 1, total: 3 });
        let json = serde_json::to_string(&counts).unwrap();
        assert_eq!(json, "[[0,1,1],[3,1,3]]");
        assert_eq!(serde_json::from_str::<PrizeCounts>(&json).unwrap(), counts);

        let cap = |total, per_day| PrizeCap { total, per_day };
        let is_reached = |cap: PrizeCap| cap.is_reached(counts.of(mug));
        assert!(is_reached(cap(Some(3), None)) && is_reached(cap(None, Some(1))));
        assert!(!is_reached(cap(Some(4), Some(2))));
        let quota = PrizeQuota::new(mug, &cap(Some(4), None), counts.of(mug), Moment::EPOCH);
        assert_eq!((quota.total.remaining(), quota.today.used), (Some(1), 1));
        assert_eq!(
            (quota.today.limit, quota.today.reset),
            (None, Some(Moment::EPOCH))
        );
    }
}
