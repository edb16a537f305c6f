//! A schedule: how many units of which prize in which window.

use std::{collections::BTreeMap, time::Duration};

use jiff::civil::DateTime;

use super::{
    factor::Factor,
    moment::Moment,
    number::{PrizeNo, Quantities},
    zone::{Window, Zone},
};

/// The plan of a scheduled pool. A later layer overrides an earlier one, prize by prize.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Units in the whole campaign, each in an hour that only the seed knows. These prizes are in
    /// no other layer.
    pub total: Quantities,
    /// Units in every hour; a zero stands for a plan that is still to come.
    pub per_hour: Quantities,
    /// Hours of every day.
    pub daily: Vec<Daily>,
    /// Hours of certain days, without overlap, by start.
    pub special: Vec<Special>,
    /// What becomes of an hour that passed unfilled.
    pub missed: Missed,
    /// What becomes of released units that nobody took.
    pub unclaimed: Unclaimed,
}

/// Hours of every day.
#[derive(Clone, Debug, PartialEq)]
pub struct Daily {
    /// First hour, 0 to 23.
    pub from_hour: i8,
    /// End of the last hour, 1 to 24; at or before `from_hour` it is on the next day.
    pub to_hour: i8,
    /// Units in each of these hours; a zero says none (so it may hold zeros, unlike the campaign's
    /// sums).
    pub per_hour: Quantities,
}

/// Hours of certain days.
#[derive(Clone, Debug, PartialEq)]
pub struct Special {
    /// Local start of the first hour.
    pub from: DateTime,
    /// Local end of the last hour.
    pub to: DateTime,
    /// Units in each of these hours; may hold zeros.
    pub per_hour: Quantities,
    /// Multiplies what earlier layers say of prizes that `per_hour` does not name, prize by prize,
    /// rounded half up.
    pub factor: Factor,
}

/// What becomes of an hour that passed unfilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// Its units go to as many of the next hours as were missed.
    Spread,
    /// Its units stay in stock.
    Skip,
    /// Its units are released at once.
    Release,
}

/// What becomes of released units that nobody took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclaimed {
    /// They wait.
    Keep,
    /// They go back to stock this long after their release.
    ReturnAfter(Duration),
}

/// What decides the plan of an hour: the hour of the day, and the index of the special hours that
/// it lies in.
pub(super) type HourKind = (i8, Option<usize>);

impl Schedule {
    /// The plan's quantities of a window, prizes planned by `total` aside; no zeros.
    pub fn hourly(&self, window: &Window) -> Quantities {
        self.of_kind(self.kind_of(window))
    }

    /// The prize is in one of the layers at least, be it with a zero.
    pub fn plans(&self, prize: PrizeNo) -> bool {
        let daily = self.daily.iter().map(|daily| &daily.per_hour);
        let special = self.special.iter().map(|special| &special.per_hour);
        [&self.total, &self.per_hour]
            .into_iter()
            .chain(daily)
            .chain(special)
            .any(|quantities| quantities.contains_key(&prize))
    }

    /// Plans every hour as `other` does.
    pub fn has_same_hours(&self, other: &Self) -> bool {
        self.per_hour == other.per_hour
            && self.daily == other.daily
            && self.special == other.special
    }

    /// Everything that is planned for the windows of `start..end`, prizes planned by `total`
    /// included; no zeros.
    pub fn sum(&self, zone: &Zone, start: Moment, end: Moment) -> Quantities {
        let mut hours_by_kind: BTreeMap<HourKind, u64> = BTreeMap::new();
        for window in zone.windows(start, start, end) {
            *hours_by_kind.entry(self.kind_of(&window)).or_default() += 1;
        }
        let mut sum = self.total.clone();
        for (kind, hours) in hours_by_kind {
            for (prize, units) in self.of_kind(kind) {
                let planned = sum.entry(prize).or_default();
                *planned = planned.saturating_add(units.saturating_mul(hours));
            }
        }
        sum.retain(|_, units| *units > 0);
        sum
    }

    /// The plan's quantities of a local full hour, as [`Self::hourly`].
    pub fn of_hour(&self, hour: DateTime) -> Quantities {
        self.of_kind((hour.hour(), self.special_index(hour)))
    }

    /// The special hours that a local hour lies in.
    pub(super) fn special_at(&self, hour: DateTime) -> Option<&Special> {
        self.special.get(self.special_index(hour)?)
    }

    fn special_index(&self, hour: DateTime) -> Option<usize> {
        let begun = self.special.partition_point(|special| special.from <= hour);
        begun
            .checked_sub(1)
            .filter(|index| hour < self.special[*index].to)
    }

    /// Windows of one kind have the same plan, and there are few kinds: five years of hours need
    /// not be computed one by one.
    pub(super) fn kind_of(&self, window: &Window) -> HourKind {
        let hour = window.local_hour;
        (hour.hour(), self.special_index(hour))
    }

    /// What the layers before special hours plan in an hour of the day; may hold zeros.
    pub(super) fn base(&self, hour: i8) -> Quantities {
        let mut plan = self.per_hour.clone();
        for daily in self.daily.iter().filter(|daily| daily.covers(hour)) {
            plan.extend(&daily.per_hour);
        }
        plan
    }

    /// The plan of the hours of a kind.
    pub(super) fn of_kind(&self, (hour, special): HourKind) -> Quantities {
        let mut plan = self.base(hour);
        if let Some(special) = special.and_then(|index| self.special.get(index)) {
            for units in plan.values_mut() {
                *units = special.factor.times(*units);
            }
            plan.extend(&special.per_hour);
        }
        plan.retain(|_, units| *units > 0);
        plan
    }
}

impl Daily {
    /// Whether the hour of the day, 0 to 23, is one of these.
    fn covers(&self, hour: i8) -> bool {
        if self.from_hour < self.to_hour {
            (self.from_hour..self.to_hour).contains(&hour)
        } else {
            hour >= self.from_hour || hour < self.to_hour
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::number::PrizeNo;
    use super::*;

    fn q(quantities: &[(u16, u64)]) -> Quantities {
        quantities
            .iter()
            .map(|(no, n)| (PrizeNo(*no), *n))
            .collect()
    }

    fn at(text: &str) -> Moment {
        Moment::from_timestamp(text.parse().unwrap())
    }

    fn hour(text: &str) -> Window {
        let zone = Zone::parse("Asia/Shanghai").unwrap();
        zone.window_at(at(text), Moment::EPOCH, Moment::FAR_FUTURE)
            .unwrap()
    }

    fn daily(from_hour: i8, to_hour: i8, per_hour: &[(u16, u64)]) -> Daily {
        Daily {
            from_hour,
            to_hour,
            per_hour: q(per_hour),
        }
    }

    fn schedule() -> Schedule {
        Schedule {
            total: q(&[(0, 1)]),
            per_hour: q(&[(1, 200), (2, 3)]),
            daily: vec![
                daily(20, 22, &[(1, 1000)]),
                daily(21, 2, &[(1, 700), (2, 0), (3, 5)]),
            ],
            special: vec![Special {
                from: "2026-11-29T00:00".parse().unwrap(),
                to: "2026-11-30T00:00".parse().unwrap(),
                per_hour: q(&[(3, 9)]),
                factor: Factor::whole(2),
            }],
            missed: Missed::Spread,
            unclaimed: Unclaimed::Keep,
        }
    }

    #[test]
    fn later_layers_override_earlier_ones_prize_by_prize() {
        let plan = schedule();
        for (hour_text, expected) in [
            ("2026-11-28T19:00+08:00", q(&[(1, 200), (2, 3)])),
            ("2026-11-28T20:59+08:00", q(&[(1, 1000), (2, 3)])),
            ("2026-11-28T21:00+08:00", q(&[(1, 700), (3, 5)])),
            ("2026-11-28T01:00+08:00", q(&[(1, 700), (3, 5)])),
            ("2026-11-28T02:00+08:00", q(&[(1, 200), (2, 3)])),
            ("2026-11-29T00:00+08:00", q(&[(1, 1400), (3, 9)])),
            ("2026-11-29T20:00+08:00", q(&[(1, 2000), (2, 6), (3, 9)])),
            ("2026-11-30T00:00+08:00", q(&[(1, 700), (3, 5)])),
        ] {
            assert_eq!(plan.hourly(&hour(hour_text)), expected, "{hour_text}");
        }
    }

    #[test]
    fn a_factor_is_applied_to_each_prize_and_hour_by_itself() {
        let mut plan = schedule();
        plan.special[0].factor = Factor::parse("1.5").unwrap();
        for (hour_text, expected) in [
            ("2026-11-29T12:00+08:00", q(&[(1, 300), (2, 5), (3, 9)])),
            ("2026-11-29T20:00+08:00", q(&[(1, 1500), (2, 5), (3, 9)])),
            ("2026-11-30T12:00+08:00", q(&[(1, 200), (2, 3)])),
        ] {
            assert_eq!(plan.hourly(&hour(hour_text)), expected, "{hour_text}");
        }
        plan.special[0].factor = Factor::parse("0.1").unwrap();
        let less = plan.hourly(&hour("2026-11-29T12:00+08:00"));
        assert_eq!(less, q(&[(1, 20), (3, 9)]));
        let day = (at("2026-11-29T00:00+08:00"), at("2026-11-30T00:00+08:00"));
        let zone = Zone::parse("Asia/Shanghai").unwrap();
        plan.special[0].factor = Factor::parse("1.5").unwrap();
        let sum = plan.sum(&zone, day.0, day.1);
        // 2 hours of 700, 18 of 200, an hour of 1,000, 3 of 700; 3 of the other prize but in 5
        // hours.
        assert_eq!(
            sum[&PrizeNo(1)],
            (2 * 700 + 18 * 200 + 1000 + 3 * 700) * 3 / 2
        );
        assert_eq!(sum[&PrizeNo(2)], 19 * 5);
    }

    #[test]
    fn a_day_from_an_hour_to_the_same_hour_is_all_of_it() {
        assert!((0..24).all(|hour| daily(5, 5, &[]).covers(hour)));
        assert!((0..24).all(|hour| daily(0, 24, &[]).covers(hour)));
        assert!(daily(22, 24, &[]).covers(23) && !daily(22, 24, &[]).covers(0));
    }

    #[test]
    fn the_sum_is_that_of_all_windows_and_the_totals() {
        let (plan, zone) = (schedule(), Zone::parse("Europe/Berlin").unwrap());
        let (start, end) = (at("2026-10-20T00:10Z"), at("2026-12-05T07:40Z"));
        let mut expected = plan.total.clone();
        for window in zone.windows(start, start, end) {
            for (prize, units) in plan.hourly(&window) {
                *expected.entry(prize).or_default() += units;
            }
        }
        assert_eq!(plan.sum(&zone, start, end), expected);
        assert!(plan.sum(&zone, start, start) == plan.total);
    }

    #[test]
    fn absurd_quantities_saturate() {
        let mut plan = schedule();
        plan.per_hour = q(&[(1, u64::MAX / 2)]);
        plan.special[0].factor = Factor::whole(u32::MAX);
        let sum = plan.sum(
            &Zone::utc(),
            at("2026-11-20T00:00Z"),
            at("2026-12-20T00:00Z"),
        );
        assert_eq!(sum[&PrizeNo(1)], u64::MAX);
    }
}
