//! Schedules: layers of quantities, and what becomes of units that come late or stay.

use std::time::Duration;

use super::{
    bounds::{DAILY_LAYERS_MAX, SPECIAL_LAYERS_MAX},
    hours,
    layers::{Layers, read_quantities},
    prizes::Prizes,
    report::{at, unknown_enum},
    special,
};
use crate::{
    model::{
        problem::Problems,
        schedule::{Daily, Missed, Schedule, Unclaimed},
    },
    proto,
};

const RETURN_AFTER_MIN: Duration = Duration::from_secs(60);
const RETURN_AFTER_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const RETURN_AFTER_DEFAULT: Duration = Duration::from_secs(60 * 60);

/// Reads a schedule. If it notes problems, its result only serves to find further problems.
pub(super) fn read(
    path: &str,
    message: &proto::Schedule,
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> Schedule {
    let flaws = problems.0.len();
    let mut total = read_quantities(&at(path, "total"), &message.total, prizes, problems);
    let layers = Layers {
        prizes,
        total: &total,
    };
    let per_hour = layers.read(path, &message.per_hour, problems);
    let daily = read_daily(path, &message.daily, &layers, problems);
    let special = read_special(path, &message.special, &layers, problems);
    special::check_overlaps(path, &special, problems);
    total.retain(|_, units| *units > 0);
    // A zero in `per_hour` stays: it says that the pool waits for its plan, and not that the plan
    // was forgotten.
    if problems.0.len() == flaws {
        // Only of a schedule that is right so far, for what could not be read would be missed here.
        let base = special::by_hour(&per_hour, &daily);
        special::check_products(path, &message.special, &special, &base, prizes, problems);
        if total.is_empty() && per_hour.is_empty() && daily.is_empty() && special.is_empty() {
            problems.add(
                path,
                "plans nothing: add total, perHour, daily or special; to plan nothing for now, \
                 write a prize with 0 in perHour",
            );
        }
    }
    let mut special: Vec<_> = special.into_iter().map(|(_, special)| special).collect();
    special.sort_by_key(|special| special.from);
    Schedule {
        total,
        per_hour,
        daily,
        special,
        missed: read_missed(path, message.missed, problems),
        unclaimed: read_unclaimed(path, message, problems),
    }
}

fn read_daily(
    path: &str,
    messages: &[proto::DailyHours],
    layers: &Layers<'_>,
    problems: &mut Problems,
) -> Vec<Daily> {
    let path = at(path, "daily");
    if !has_room(&path, messages.len(), DAILY_LAYERS_MAX, problems) {
        return Vec::new();
    }
    let mut daily = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        let path = format!("{path}[{i}]");
        let mut hour = |field: &str, text: &str| {
            hours::of_day(text)
                .map_err(|message| problems.add(at(&path, field), message))
                .ok()
        };
        let (from, to) = (hour("from", &message.from), hour("to", &message.to));
        if from == Some(24) {
            problems.add(
                at(&path, "from"),
                "24:00 is the end of a day: write 00:00 for its first hour",
            );
        }
        if message.per_hour.is_empty() {
            problems.add(at(&path, "perHour"), "is empty: name a prize");
        }
        let per_hour = layers.read(&path, &message.per_hour, problems);
        daily.push(Daily {
            from_hour: from.unwrap_or(0) % 24,
            to_hour: to.filter(|to| *to > 0).unwrap_or(24), // 00:00 is the end of the day too
            per_hour,
        });
    }
    daily
}

fn read_special(
    path: &str,
    messages: &[proto::SpecialHours],
    layers: &Layers<'_>,
    problems: &mut Problems,
) -> Vec<special::Indexed> {
    let path = at(path, "special");
    if !has_room(&path, messages.len(), SPECIAL_LAYERS_MAX, problems) {
        return Vec::new();
    }
    let messages = messages.iter().enumerate();
    messages
        .filter_map(|(i, message)| {
            let path = format!("{path}[{i}]");
            special::read(&path, message, layers, problems).map(|special| (i, special))
        })
        .collect()
}

fn has_room(path: &str, count: usize, most: usize, problems: &mut Problems) -> bool {
    if count > most {
        problems.add(path, format!("has {count} entries: at most {most}"));
    }
    count <= most
}

fn read_missed(path: &str, number: i32, problems: &mut Problems) -> Missed {
    match proto::Missed::try_from(number) {
        Ok(proto::Missed::Unspecified | proto::Missed::Spread) => Missed::Spread,
        Ok(proto::Missed::Skip) => Missed::Skip,
        Ok(proto::Missed::Release) => Missed::Release,
        Err(_) => {
            let known = "MISSED_SPREAD, MISSED_SKIP or MISSED_RELEASE";
            unknown_enum(at(path, "missed"), number, known, problems);
            Missed::Spread
        }
    }
}

fn read_unclaimed(path: &str, message: &proto::Schedule, problems: &mut Problems) -> Unclaimed {
    let return_path = at(path, "returnAfter");
    match proto::Unclaimed::try_from(message.unclaimed) {
        Ok(proto::Unclaimed::Return) => {
            Unclaimed::ReturnAfter(message.return_after.map_or(RETURN_AFTER_DEFAULT, |after| {
                read_return_after(return_path, after, problems)
            }))
        }
        Ok(proto::Unclaimed::Unspecified | proto::Unclaimed::Keep) => {
            if message.return_after.is_some() {
                problems.add(
                    return_path,
                    "goes with unclaimed: UNCLAIMED_RETURN only: write that, or leave it out",
                );
            }
            Unclaimed::Keep
        }
        Err(_) => {
            let known = "UNCLAIMED_KEEP or UNCLAIMED_RETURN";
            unknown_enum(at(path, "unclaimed"), message.unclaimed, known, problems);
            Unclaimed::Keep
        }
    }
}

fn read_return_after(
    path: String,
    after: prost_types::Duration,
    problems: &mut Problems,
) -> Duration {
    Duration::try_from(after)
        .ok()
        .filter(|after| (RETURN_AFTER_MIN..=RETURN_AFTER_MAX).contains(after))
        .unwrap_or_else(|| {
            problems.add(
                path,
                "must be 1 minute to 30 days, in seconds: 60s to 2592000s",
            );
            RETURN_AFTER_DEFAULT
        })
}
