use proptest::prelude::*;

use super::*;
use crate::model::{
    Campaign, PoolKind,
    convert::{campaign_to_proto, unstocked_from_proto},
    file,
    schedule::{Daily, Missed, Unclaimed},
};

/// The hours that tests look at: four days.
const HOURS: i64 = 96;

fn hour(index: i64) -> DateTime {
    let first: DateTime = "2026-11-28T00:00".parse().unwrap();
    first.checked_add(index.hours()).unwrap()
}

/// The hours of the campaign.
fn all() -> RangeInclusive<DateTime> {
    hour(0)..=hour(HOURS - 1)
}

fn q(quantities: &[(u16, u64)]) -> Quantities {
    let quantities = quantities.iter();
    quantities.map(|(no, n)| (PrizeNo(*no), *n)).collect()
}

fn special(from: i64, to: i64, per_hour: &[(u16, u64)], factor: &str) -> Special {
    Special {
        from: hour(from),
        to: hour(to),
        per_hour: q(per_hour),
        factor: Factor::parse(factor).unwrap(),
    }
}

/// 2 of prize 0 in every hour, 7 from 20:00 to 22:00; prize 2 has no hours.
fn plain(special: Vec<Special>) -> Schedule {
    Schedule {
        total: q(&[(2, 1)]),
        per_hour: q(&[(0, 2)]),
        daily: vec![Daily {
            from_hour: 20,
            to_hour: 22,
            per_hour: q(&[(0, 7)]),
        }],
        special,
        missed: Missed::Spread,
        unclaimed: Unclaimed::Keep,
    }
}

fn cells(cells: &[(i64, u16, u64)]) -> Painted {
    let mut painted = Painted::new();
    for (at, prize, units) in cells {
        let hour = painted.entry(hour(*at)).or_default();
        hour.insert(PrizeNo(*prize), *units);
    }
    painted
}

/// Asserts that a campaign may have the schedule.
#[track_caller]
fn assert_valid(schedule: &Schedule) {
    let text = "{id: w, timeZone: Asia/Shanghai, startTime: '2026-11-28T00:00:00+08:00', \
                endTime: '2026-12-02T00:00:00+08:00', prizes: [{id: a}, {id: b}, {id: c}], \
                pools: [{id: p, schedule: {perHour: {a: 0}}}]}";
    let mut campaign: Campaign = unstocked_from_proto(&file::parse(text).unwrap()[0]).unwrap();
    campaign.pools[0].kind = PoolKind::Schedule(schedule.clone());
    assert_eq!(
        unstocked_from_proto(&campaign_to_proto(&campaign)),
        Ok(campaign)
    );
}

#[test]
fn equal_hours_are_merged_and_special_hours_are_split() {
    let day = special(24, 48, &[(1, 5)], "1");
    let next_day = special(48, 72, &[(1, 5)], "1"); // written as two, stays two
    let plan = plain(vec![day, next_day.clone()]);
    let painted = repaint(
        &plan,
        &all(),
        &cells(&[(30, 1, 9), (31, 1, 9), (0, 0, 3), (1, 0, 3)]),
    );
    let expected = [
        special(0, 2, &[(0, 3)], "1"),
        special(24, 30, &[(1, 5)], "1"),
        special(30, 32, &[(1, 9)], "1"),
        special(32, 48, &[(1, 5)], "1"),
        next_day,
    ];
    assert_eq!(painted.special, expected);
    // Painted back, it is as it was.
    let back = cells(&[(30, 1, 5), (31, 1, 5), (0, 0, 2), (1, 0, 2)]);
    assert_eq!(repaint(&painted, &all(), &back).special, plan.special);
}

#[test]
fn a_factor_stays_only_where_it_multiplies_something() {
    let mut plan = plain(vec![special(0, 24, &[], "2")]);
    plan.per_hour.clear();
    // Prize 0 is planned from 20:00 to 22:00 only.
    let painted = repaint(&plan, &all(), &cells(&[(20, 0, 9), (3, 1, 4)]));
    let expected = [
        special(3, 4, &[(1, 4)], "1"),
        special(20, 21, &[(0, 9)], "1"),
        special(21, 24, &[], "2"),
    ];
    assert_eq!(painted.special, expected);
    assert_valid(&painted);
    // What the factor gives needs no quantity.
    assert_eq!(
        repaint(&plan, &all(), &cells(&[(20, 0, 14), (2, 0, 0)])),
        plan
    );
}

#[test]
fn special_hours_end_with_the_campaign_if_they_are_split() {
    let plan = plain(vec![special(90, 200, &[(1, 5)], "1")]);
    let painted = repaint(&plan, &all(), &cells(&[(95, 1, 6), (96, 1, 6)]));
    let expected = [
        special(90, 95, &[(1, 5)], "1"),
        special(95, 96, &[(1, 6)], "1"),
    ];
    assert_eq!(painted.special, expected);
    assert_valid(&painted);
}

#[test]
fn a_schedule_without_any_unit_keeps_its_prizes() {
    let mut plan = plain(vec![special(0, 2, &[(1, 5)], "1")]);
    (plan.total, plan.per_hour, plan.daily) = (q(&[]), q(&[]), Vec::new());
    let painted = repaint(&plan, &all(), &cells(&[(0, 1, 0), (1, 1, 0)]));
    assert_eq!(
        (painted.special.len(), &painted.per_hour),
        (0, &q(&[(1, 0)]))
    );
    assert_valid(&painted);
}

fn quantities() -> impl Strategy<Value = Quantities> {
    prop::collection::btree_map((0..2_u16).prop_map(PrizeNo), 0..4_u64, 0..=2)
}

fn daily() -> impl Strategy<Value = Daily> {
    let per_hour = prop::collection::btree_map((0..2_u16).prop_map(PrizeNo), 0..4_u64, 1..=2);
    (0..24_i8, 1..=24_i8, per_hour).prop_map(|(from_hour, to_hour, per_hour)| Daily {
        from_hour,
        to_hour,
        per_hour,
    })
}

/// Schedules that campaigns may have.
fn schedules() -> impl Strategy<Value = Schedule> {
    let factor = prop::sample::select(vec!["1", "1", "2", "0.5", "1.5"]);
    let piece = (0..20_i64, 1..40_i64, quantities(), factor);
    let pieces = prop::collection::vec(piece, 0..6);
    let per_hour = quantities().prop_map(|mut quantities| {
        quantities.entry(PrizeNo(0)).or_default();
        quantities
    });
    let all = (per_hour, prop::collection::vec(daily(), 0..3), pieces);
    all.prop_map(|(per_hour, daily, pieces)| {
        let mut schedule = plain(Vec::new());
        (schedule.per_hour, schedule.daily) = (per_hour, daily);
        let mut from = 0;
        for (gap, length, per_hour, factor) in pieces {
            let start = from + gap;
            from = start + length;
            let special = Special {
                from: hour(start),
                to: hour(from),
                per_hour,
                factor: Factor::parse(factor).unwrap(),
            };
            if start >= HOURS {
                break;
            }
            schedule.special.extend(tidy(&schedule, special));
        }
        schedule
    })
}

fn strokes() -> impl Strategy<Value = Painted> {
    let stroke = (-5..HOURS, 1..30_i64, 0..3_u16, 0..4_u64);
    prop::collection::vec(stroke, 0..8).prop_map(|strokes| {
        let mut all = Vec::new();
        for (from, length, prize, units) in strokes {
            all.extend((from..from + length).map(|at| (at, prize, units)));
        }
        cells(&all)
    })
}

proptest! {
    #[test]
    fn hours_have_what_was_painted_and_others_what_they_had(
        schedule in schedules(),
        painted in strokes(),
    ) {
        let result = repaint(&schedule, &all(), &painted);
        for at in (0..HOURS).map(hour) {
            let mut expected = schedule.of_hour(at);
            let cells = painted.get(&at).into_iter().flatten();
            expected.extend(cells.filter(|(prize, _)| **prize != PrizeNo(2)));
            expected.retain(|_, units| *units > 0);
            prop_assert_eq!(result.of_hour(at), expected, "{}", at);
        }
    }

    #[test]
    fn a_painted_schedule_is_valid(schedule in schedules(), painted in strokes()) {
        assert_valid(&schedule);
        assert_valid(&repaint(&schedule, &all(), &painted));
    }

    #[test]
    fn layers_that_nothing_touches_stay_as_they_are(
        schedule in schedules(),
        painted in strokes(),
    ) {
        let result = repaint(&schedule, &all(), &painted);
        let layers = |of: &Schedule| (of.total.clone(), of.per_hour.clone(), of.daily.clone());
        prop_assert_eq!(layers(&result), layers(&schedule));
        let cells = changed(&schedule, &all(), &painted);
        for special in &schedule.special {
            // An hour beside it may have become alike.
            let (from, to) = (special.from.saturating_sub(1.hour()), next(special.to));
            if cells.range(from..to).next().is_none() {
                prop_assert!(result.special.contains(special), "{:?}", special);
            }
        }
        // Nothing is left to do, or to merge.
        prop_assert_eq!(&repaint(&result, &all(), &painted), &result);
        for pair in result.special.windows(2) {
            let [one, two] = pair else { unreachable!() };
            prop_assert!(one.to <= two.from);
            let is_alike = one.to == two.from
                && (&one.per_hour, one.factor) == (&two.per_hour, two.factor);
            let was = |at| schedule.special.iter().any(|special| special.from == at);
            prop_assert!(!is_alike || was(two.from), "{:?}", pair);
        }
    }
}
