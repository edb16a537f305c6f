//! The whole plan, checked against the stock and against the campaign's hours.

use std::{collections::BTreeMap, time::Duration};

use jiff::civil::DateTime;

use super::{campaign::Parts, hour_sums, hours};
use crate::{
    model::{
        campaign::{Campaign, PoolKind},
        moment::Moment,
        number::PrizeNo,
        problem::{Problem, Problems},
        text::grouped_digits,
        zone::Zone,
    },
    proto,
};

/// Notes special hours that never come, and an hour with too many units.
pub(super) fn check_hours(message: &proto::Campaign, parts: &Parts, problems: &mut Problems) {
    if let Some((start, end)) = times(parts, problems)
        && let Some(zone) = &parts.zone
    {
        for (i, pool) in message.pools.iter().enumerate() {
            if let Some(proto::pool::Kind::Schedule(schedule)) = &pool.kind {
                let path = format!("pools[{i}].schedule");
                check_special_hours(&path, schedule, zone, (start, end), problems);
            }
        }
        let kinds = parts.kinds.iter().map(Option::as_ref);
        hour_sums::check(kinds, zone, (start, end), problems);
    }
}

/// Notes the same of a campaign in which one pool gets another schedule, which is at `path`.
pub(super) fn check_new_schedule(
    path: &str,
    schedule: &proto::Schedule,
    changed: &Campaign,
    problems: &mut Problems,
) {
    let (zone, bounds) = (&changed.zone, (changed.start, changed.end));
    check_special_hours(path, schedule, zone, bounds, problems);
    // Of a schedule that is right so far: one with problems has no sums.
    if problems.is_empty() {
        let kinds = changed.pools.iter().map(|pool| Some(&pool.kind));
        hour_sums::check(kinds, zone, bounds, problems);
    }
}

/// Notes prizes with less stock than their whole plan needs. Unlimited prizes and prizes with codes
/// have none that could be compared. Where the zone is wrong, hours are counted in UTC.
pub(super) fn check_stock(message: &proto::Campaign, parts: &Parts, problems: &mut Problems) {
    if let Some((start, end)) = times(parts, problems) {
        let zone = parts.zone.clone().unwrap_or_else(Zone::utc);
        compare(message, parts, needed(parts, &zone, start, end), problems);
    }
}

/// Whether a problem is one of [`check_stock`], which a campaign that has begun may not have.
pub(in crate::model) fn is_short_stock(problem: &Problem) -> bool {
    problem.path.ends_with(".stock") && problem.message.starts_with("stock ")
}

/// Start and end; none if the end is wrong, since nothing can be checked against it.
fn times(parts: &Parts, problems: &Problems) -> Option<(Moment, Moment)> {
    let is_wrong = problems.0.iter().any(|problem| problem.path == "endTime");
    parts.start.zip(parts.end).filter(|_| !is_wrong)
}

/// Units that schedules, decks that stop and one round of the other decks take, by prize.
fn needed(parts: &Parts, zone: &Zone, start: Moment, end: Moment) -> BTreeMap<PrizeNo, u128> {
    let mut needed = BTreeMap::new();
    for kind in parts.kinds.iter().flatten() {
        let units = match kind {
            PoolKind::Schedule(schedule) => schedule.sum(zone, start, end),
            PoolKind::Deck(deck) => deck.cards.clone(),
            // What users will draw is not planned.
            PoolKind::Personal(_) => continue,
        };
        for (no, units) in units {
            *needed.entry(no).or_insert(0) += u128::from(units);
        }
    }
    needed
}

fn compare(
    message: &proto::Campaign,
    parts: &Parts,
    needed: BTreeMap<PrizeNo, u128>,
    problems: &mut Problems,
) {
    // A pool with problems is not counted, so the others' sum is a lower bound.
    let at_least = if parts.kinds.iter().any(Option::is_none) {
        "at least "
    } else {
        ""
    };
    let in_utc = if parts.zone.is_none() {
        " (hours counted in UTC)"
    } else {
        ""
    };
    for (i, prize) in message.prizes.iter().enumerate() {
        if prize.unlimited || prize.codes {
            continue;
        }
        let no = u16::try_from(i).map(PrizeNo);
        let needed = no.ok().and_then(|no| needed.get(&no)).copied();
        if let Some(needed) = needed.filter(|needed| *needed > u128::from(prize.stock)) {
            let group = |units: u128| grouped_digits(&units.to_string());
            let more = group(needed - u128::from(prize.stock));
            let (needed, given) = (group(needed), group(prize.stock.into()));
            let id = &prize.id;
            problems.add(
                format!("prizes[{i}].stock"),
                format!(
                    "stock {at_least}{needed} needed, {given} given{in_utc}: give {more} more of \
                     {id}, or plan less"
                ),
            );
        }
    }
}

fn check_special_hours(
    path: &str,
    schedule: &proto::Schedule,
    zone: &Zone,
    (start, end): (Moment, Moment),
    problems: &mut Problems,
) {
    let hour_of = |at: Moment| Some(zone.window_at(at, start, end)?.local_hour);
    let last = end - Duration::from_micros(1);
    let (Some(first), Some(last)) = (hour_of(start), hour_of(last)) else {
        return;
    };
    for (i, special) in schedule.special.iter().enumerate() {
        let comes = |from: DateTime, to: DateTime| from <= last && to > first;
        if let (Ok(from), Ok(to)) = (hours::of_date(&special.from), hours::of_date(&special.to))
            && from < to
            && !comes(from, to)
        {
            problems.add(
                format!("{path}.special[{i}]"),
                format!(
                    "never comes: the campaign's hours are {} to {} local time",
                    hours::show(first),
                    hours::show(last)
                ),
            );
        }
    }
}
