//! Special hours: read, checked against each other, and multiplied.

use std::collections::BTreeMap;

use jiff::{ToSpan as _, civil::DateTime};

use super::{bounds::PLANNED_UNITS_MAX, hours, layers::Layers, prizes::Prizes, report::at};
use crate::{
    model::{
        factor::Factor,
        number::Quantities,
        problem::Problems,
        schedule::{Daily, Special},
        text::grouped,
    },
    proto,
};

/// Special hours with their index in the message, which their problems name.
pub(super) type Indexed = (usize, Special);

/// Reads special hours; none if their times are wrong.
pub(super) fn read(
    path: &str,
    message: &proto::SpecialHours,
    layers: &Layers<'_>,
    problems: &mut Problems,
) -> Option<Special> {
    let mut hour = |field: &str, text: &str| {
        hours::of_date(text)
            .map_err(|message| problems.add(at(path, field), message))
            .ok()
    };
    let (from, to) = (hour("from", &message.from), hour("to", &message.to));
    let per_hour = layers.read(path, &message.per_hour, problems);
    let factor = read_factor(path, message, problems);
    if message.per_hour.is_empty() && factor == Some(Factor::ONE) {
        problems.add(
            path,
            "changes nothing: add perHour, multiply with 2 or more, or a factor other than 1",
        );
    }
    let (from, to) = (from?, to?);
    if from >= to {
        let (from, to) = (hours::show(from), hours::show(to));
        problems.add(at(path, "to"), format!("{to} is not after from {from}"));
        return None;
    }
    Some(Special {
        from,
        to,
        per_hour,
        factor: factor.unwrap_or(Factor::ONE),
    })
}

/// The factor that `multiply` or `factor` says; none if that is wrong.
fn read_factor(
    path: &str,
    message: &proto::SpecialHours,
    problems: &mut Problems,
) -> Option<Factor> {
    if message.factor.is_empty() {
        return Some(Factor::whole(message.multiply));
    }
    let path = at(path, "factor");
    if message.multiply > 0 {
        problems.add(path, "stands beside `multiply`: keep one of the two");
        return None;
    }
    let factor = Factor::parse(&message.factor);
    factor.map_err(|text| problems.add(path, text)).ok()
}

/// The field that says the factor of special hours.
fn factor_field(message: &proto::SpecialHours) -> &'static str {
    if message.factor.is_empty() {
        "multiply"
    } else {
        "factor"
    }
}

/// Notes special hours that begin before earlier ones have ended.
pub(super) fn check_overlaps(path: &str, special: &[Indexed], problems: &mut Problems) {
    let mut by_start: Vec<&Indexed> = special.iter().collect();
    by_start.sort_by_key(|(index, special)| (special.from, *index));
    let mut longest: Option<&Indexed> = None;
    for indexed in by_start {
        let (index, special) = indexed;
        if let Some((other, earlier)) = longest
            && special.from < earlier.to
        {
            let (from, to) = (hours::show(earlier.from), hours::show(earlier.to));
            problems.add(
                format!("{path}.special[{index}].from"),
                format!("overlaps special[{other}] ({from} to {to}): special hours may not"),
            );
        }
        if longest.is_none_or(|(_, earlier)| special.to > earlier.to) {
            longest = Some(indexed);
        }
    }
}

/// Notes a factor that multiplies nothing, or makes more units than an hour may have; `base` is
/// what [`by_hour`] gives.
pub(super) fn check_products(
    path: &str,
    messages: &[proto::SpecialHours],
    special: &[Indexed],
    base: &[Quantities],
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) {
    let multiplied = special
        .iter()
        .filter(|(_, special)| special.factor != Factor::ONE);
    for (index, special) in multiplied {
        let field = messages.get(*index).map_or("multiply", factor_field);
        let path = format!("{path}.special[{index}].{field}");
        let multiplied = hours_of_day(special).flat_map(|hour| &base[hour]);
        let most: Quantities = multiplied
            .filter(|(no, units)| **units > 0 && !special.per_hour.contains_key(no))
            .fold(BTreeMap::new(), |mut most, (no, units)| {
                let entry = most.entry(*no).or_insert(0);
                *entry = (*entry).max(*units);
                most
            });
        if most.is_empty() {
            problems.add(
                path,
                "multiplies nothing: perHour and daily plan no other prize in these hours",
            );
            continue;
        }
        for (no, units) in most {
            let product = special.factor.times(units);
            if product > PLANNED_UNITS_MAX {
                let (units, product) = (grouped(units), grouped(product));
                let (id, most) = (prizes.id(no), grouped(PLANNED_UNITS_MAX));
                problems.add(
                    path.clone(),
                    format!("makes {units} of {id} an hour {product}: at most {most}"),
                );
            }
        }
    }
}

/// What the layers before `special` plan in each hour of a day.
pub(super) fn by_hour(per_hour: &Quantities, daily: &[Daily]) -> Vec<Quantities> {
    (0..24)
        .map(|hour| {
            let mut units = per_hour.clone();
            for daily in daily.iter().filter(|daily| covers(daily, hour)) {
                units.extend(&daily.per_hour);
            }
            units
        })
        .collect()
}

fn covers(daily: &Daily, hour: i8) -> bool {
    if daily.from_hour < daily.to_hour {
        (daily.from_hour..daily.to_hour).contains(&hour)
    } else {
        hour >= daily.from_hour || hour < daily.to_hour
    }
}

/// The hours of the day that special hours touch, each once.
fn hours_of_day(special: &Special) -> impl Iterator<Item = usize> {
    let to = special.to;
    let next = |hour: &DateTime| hour.checked_add(1.hour()).ok();
    std::iter::successors(Some(special.from), next)
        .take(24)
        .take_while(move |hour| *hour < to)
        .filter_map(|hour| usize::try_from(hour.hour()).ok())
}
