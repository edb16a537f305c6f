//! A schedule with other quantities in certain hours: what an operator paints on a calendar, as
//! layers.
//!
//! Painted hours become special hours. Special hours that were there are split where something in
//! them is painted; hours that come out alike are merged; everything else stays as it was written.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    time::Duration,
};

use jiff::{ToSpan as _, civil::DateTime};

use super::{
    campaign::Campaign,
    factor::Factor,
    number::{PrizeNo, Quantities},
    schedule::{Schedule, Special},
};

/// Units by local full hour and prize; zeros are meant.
pub type Painted = BTreeMap<DateTime, Quantities>;

/// The first and the last local hour of a campaign.
pub fn hours(campaign: &Campaign) -> RangeInclusive<DateTime> {
    let (start, end) = (campaign.start, campaign.end);
    let hour = |at| campaign.zone.window_at(at, start, end);
    let (first, last) = (hour(start), hour(end - Duration::from_micros(1)));
    let first = first.map_or(DateTime::MAX, |window| window.local_hour);
    first..=last.map_or(DateTime::MIN, |window| window.local_hour)
}

/// The schedule with these quantities in these hours, and the same as before in all others.
///
/// `hours` are those of the campaign: what is painted outside of them is left out.
/// Prizes that the schedule plans by `total` have no hours: what is painted of them is left out.
/// Cells that are painted as they are change nothing. If nothing else would be left of the
/// schedule, the painted prizes stay in it with zeros.
///
/// ```
/// use tombola::model::{Campaign, PoolKind, PrizeNo, convert::campaign_from_proto, file, paint};
/// let text = "{id: w, timeZone: Asia/Shanghai, startTime: '2026-11-29T00:00:00+08:00', \
///     endTime: '2026-12-01T00:00:00+08:00', prizes: [{id: a, stock: 1000}], \
///     pools: [{id: p, schedule: {perHour: {a: 5}}}]}";
/// let campaign = campaign_from_proto(&file::parse(text).unwrap()[0]).unwrap();
/// let PoolKind::Schedule(schedule) = &campaign.pools[0].kind else { panic!() };
/// let hour = |hour| (format!("2026-11-29T{hour}:00").parse().unwrap(), [(PrizeNo(0), 9)].into());
/// let cells = [hour(20), hour(21)].into();
/// let painted = paint::repaint(schedule, &paint::hours(&campaign), &cells);
/// assert_eq!(painted.special.len(), 1);
/// assert_eq!(painted.special[0].to.to_string(), "2026-11-29T22:00:00");
/// ```
pub fn repaint(
    schedule: &Schedule,
    hours: &RangeInclusive<DateTime>,
    painted: &Painted,
) -> Schedule {
    let cells = changed(schedule, hours, painted);
    if cells.is_empty() {
        return schedule.clone();
    }
    let mut parts: Vec<Part> = Vec::new();
    for (origin, special) in schedule.special.iter().enumerate() {
        let pieces = around(schedule, special, origin, &cells).into_iter();
        // A campaign has no special hours that never come.
        parts.extend(pieces.filter(|piece| {
            piece.special.from <= *hours.end() && piece.special.to > *hours.start()
        }));
    }
    parts.extend(cells.iter().filter_map(|(hour, cells)| {
        let special = repainted(schedule, *hour, cells)?;
        let origin = None;
        Some(Part { special, origin })
    }));
    parts.sort_by_key(|part| part.special.from);
    let mut result = schedule.clone();
    result.special = merged(parts);
    let is_empty = result.total.is_empty()
        && result.per_hour.is_empty()
        && result.daily.is_empty()
        && result.special.is_empty();
    if is_empty {
        let prizes: BTreeSet<PrizeNo> = cells.values().flat_map(BTreeMap::keys).copied().collect();
        result.per_hour = prizes.into_iter().map(|prize| (prize, 0)).collect();
    }
    result
}

/// Special hours of the result.
struct Part {
    special: Special,
    /// The index of the special hours that it is a part of; none if it is painted.
    origin: Option<usize>,
}

/// What is painted otherwise than it is planned.
fn changed(schedule: &Schedule, hours: &RangeInclusive<DateTime>, painted: &Painted) -> Painted {
    let differs = |(hour, cells): (&DateTime, &Quantities)| {
        let planned = schedule.of_hour(*hour);
        let mut cells = cells.clone();
        cells.retain(|prize, units| {
            !schedule.total.contains_key(prize)
                && planned.get(prize).copied().unwrap_or(0) != *units
        });
        (!cells.is_empty()).then_some((*hour, cells))
    };
    let painted = painted.iter().filter(|(hour, _)| hours.contains(hour));
    painted.filter_map(differs).collect()
}

/// What is left of special hours without those that are painted.
fn around(schedule: &Schedule, special: &Special, origin: usize, cells: &Painted) -> Vec<Part> {
    let whole = |special| Part {
        special,
        origin: Some(origin),
    };
    let mut holes = cells.range(special.from..special.to).peekable();
    if holes.peek().is_none() {
        return vec![whole(special.clone())];
    }
    let mut parts = Vec::new();
    let mut from = special.from;
    let ends = holes.map(|(hour, _)| (*hour, next(*hour)));
    for (to, resumed) in ends.chain([(special.to, special.to)]) {
        if from < to {
            let part = Special {
                from,
                to,
                ..special.clone()
            };
            parts.extend(tidy(schedule, part).map(whole));
        }
        from = resumed;
    }
    parts
}

/// An hour with other quantities; none if it needs no special hours any more.
fn repainted(schedule: &Schedule, hour: DateTime, cells: &Quantities) -> Option<Special> {
    let base = schedule.base(hour.hour());
    let mut special = match schedule.special_at(hour) {
        Some(special) => special.clone(),
        None => Special {
            from: hour,
            to: hour,
            per_hour: Quantities::new(),
            factor: Factor::ONE,
        },
    };
    (special.from, special.to) = (hour, next(hour));
    let planned = |prize: &PrizeNo| base.get(prize).copied().unwrap_or(0);
    special.per_hour.extend(cells);
    let factor = special.factor;
    // A painted prize needs no quantity of its own where the layers below give it anyway.
    let is_needed = |factor: Factor, prize: &PrizeNo, units: u64| {
        !cells.contains_key(prize) || factor.times(planned(prize)) != units
    };
    special
        .per_hour
        .retain(|prize, units| is_needed(factor, prize, *units));
    if !multiplies(schedule, &special) {
        special.factor = Factor::ONE;
        special
            .per_hour
            .retain(|prize, units| is_needed(Factor::ONE, prize, *units));
    }
    tidy(schedule, special)
}

/// Special hours as a campaign may have them: without a factor that multiplies nothing, and not at
/// all if they change nothing.
fn tidy(schedule: &Schedule, mut special: Special) -> Option<Special> {
    if !multiplies(schedule, &special) {
        special.factor = Factor::ONE;
    }
    let is_idle = special.per_hour.is_empty() && special.factor == Factor::ONE;
    (!is_idle).then_some(special)
}

/// Whether the factor of special hours changes what earlier layers plan.
fn multiplies(schedule: &Schedule, special: &Special) -> bool {
    let hours = std::iter::successors(Some(special.from), |hour| Some(next(*hour)));
    let mut hours = hours.take(24).take_while(|hour| *hour < special.to);
    special.factor != Factor::ONE
        && hours.any(|hour| {
            let base = schedule.base(hour.hour());
            let mut base = base.iter();
            base.any(|(prize, units)| *units > 0 && !special.per_hour.contains_key(prize))
        })
}

/// Neighbours that are alike become one, unless both were written as two.
fn merged(parts: Vec<Part>) -> Vec<Special> {
    let mut merged: Vec<Part> = Vec::new();
    for part in parts {
        let Some(last) = merged.last_mut() else {
            merged.push(part);
            continue;
        };
        let is_alike = last.special.to == part.special.from
            && last.special.per_hour == part.special.per_hour
            && last.special.factor == part.special.factor;
        let is_painted = last.origin.is_none() || part.origin.is_none();
        if is_alike && (is_painted || last.origin == part.origin) {
            last.special.to = part.special.to;
            last.origin = part.origin;
        } else {
            merged.push(part);
        }
    }
    merged.into_iter().map(|part| part.special).collect()
}

/// The hour after it.
fn next(hour: DateTime) -> DateTime {
    hour.saturating_add(1.hour())
}

#[cfg(test)]
#[path = "paint_tests.rs"]
mod tests;
