//! The units of one hour, of all prizes and all pools together: what is injected and held in memory
//! at once is bounded.

use std::collections::{BTreeMap, btree_map::Entry};

use super::{bounds::HOUR_UNITS_MAX, hours};
use crate::model::{
    campaign::PoolKind,
    moment::Moment,
    number::Quantities,
    problem::Problems,
    schedule::{HourKind, Schedule},
    text::grouped_digits,
    zone::{Window, Zone},
};

/// Notes the hour with the most units if they are more than one hour may have. `kinds` is in the
/// order of the pools, without those of pools that could not be read.
///
/// Units of `total` count with an even share for each hour: which hour a unit is in is left to
/// chance, and with many units about the same number is in each.
pub(super) fn check<'a>(
    kinds: impl Iterator<Item = Option<&'a PoolKind>>,
    zone: &Zone,
    (start, end): (Moment, Moment),
    problems: &mut Problems,
) {
    let schedules: Vec<(usize, &Schedule)> = (0..)
        .zip(kinds)
        .filter_map(|(i, kind)| match kind {
            Some(PoolKind::Schedule(schedule)) => Some((i, schedule)),
            _ => None,
        })
        .collect();
    let totals = schedules.iter().map(|(_, schedule)| sum(&schedule.total));
    let totals: u128 = totals.sum();
    let share = |window: &Window| {
        let length = |start, end: Moment| end.since(start).as_micros().max(1);
        (totals * length(window.start, window.end)).div_ceil(length(start, end))
    };
    let mut hourly = HourlySums::default();
    let mut most: Option<(u128, Window)> = None;
    for window in zone.windows(start, start, end) {
        let units = hourly.of(&schedules, &window) + share(&window);
        if most.is_none_or(|(before, _)| units > before) {
            most = Some((units, window));
        }
    }
    let Some((units, window)) = most.filter(|(units, _)| *units > HOUR_UNITS_MAX.into()) else {
        return;
    };
    let path = match schedules[..] {
        [(i, _)] => format!("pools[{i}].schedule"),
        _ => "pools".into(),
    };
    let with_totals = if totals > 0 {
        ", with its even share of total"
    } else {
        ""
    };
    let hour = hours::show(window.local_hour);
    let grouped = |units: u128| grouped_digits(&units.to_string());
    let (units, bound) = (grouped(units), grouped(HOUR_UNITS_MAX.into()));
    problems.add(
        path,
        format!(
            "plan {units} units in the hour {hour}{with_totals}: an hour has at most {bound}, \
             of all prizes and pools together"
        ),
    );
}

/// Sums of hours, computed once for all hours that are of one kind in every schedule.
#[derive(Default)]
struct HourlySums(BTreeMap<Vec<HourKind>, u128>);

impl HourlySums {
    fn of(&mut self, schedules: &[(usize, &Schedule)], window: &Window) -> u128 {
        let kinds = schedules.iter().map(|(_, it)| it.kind_of(window)).collect();
        match self.0.entry(kinds) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(entry) => {
                let planned = schedules.iter().zip(entry.key());
                let units = planned.map(|((_, it), kind)| sum(&it.of_kind(*kind)));
                let units = units.sum();
                *entry.insert(units)
            }
        }
    }
}

fn sum(quantities: &Quantities) -> u128 {
    quantities.values().map(|units| u128::from(*units)).sum()
}
