//! A request for an envelope: every problem of it at once, each with its field.

use std::time::Duration;

use super::{campaign::check_attributes, report::entry, wire::moment_from_proto};
use crate::{
    model::{
        Envelope, EnvelopeId, Problems, Split, UserId,
        envelope::{ALLOWED_USERS_MAX, AMOUNT_MINOR_MAX, PACKETS_MAX, TTL_DEFAULT, TTL_MAX},
        money::currency_flaw,
        text::grouped,
    },
    proto,
};

/// The most invalid user ids that a problem lists.
const BAD_USERS_SHOWN_MAX: usize = 10;

/// Checks a request for an envelope. Gives the envelope, and who may grab it: each once, in the
/// order of their ids.
///
/// # Errors
/// All problems at once, each with its field.
///
/// ```
/// use tombola::{model::convert::envelope_from_proto, proto};
/// let empty = proto::CreateEnvelopeRequest::default();
/// let problems = envelope_from_proto(&empty).unwrap_err();
/// let paths: Vec<&str> = problems.0.iter().map(|problem| problem.path.as_str()).collect();
/// assert_eq!(paths, ["envelope_id", "sender_id", "currency", "total_minor", "packets"]);
/// ```
pub fn envelope_from_proto(
    message: &proto::CreateEnvelopeRequest,
) -> Result<(Envelope, Vec<UserId>), Problems> {
    let mut problems = Problems::default();
    let id = EnvelopeId::parse("envelope_id", &message.envelope_id);
    let id = noted(id.map_err(one), &mut problems);
    let sender = UserId::parse("sender_id", &message.sender_id);
    let sender = noted(sender.map_err(one), &mut problems);
    if let Some(flaw) = currency_flaw(&message.currency) {
        problems.add("currency", flaw);
    }
    let (total_minor, min_minor) = read_amounts(message, &mut problems);
    let split = read_split(message.split, &mut problems);
    let start = message.start_time.as_ref().and_then(|time| {
        let start = moment_from_proto("start_time", time);
        noted(start.map_err(one), &mut problems)
    });
    let (ttl_micros, rain_micros) = read_times(message, &mut problems);
    check_attributes("attributes", &message.attributes, &mut problems);
    // An entry has the keys in its body, and PostgreSQL reads no JSON with a NUL.
    let is_odd = |key: &&String| key.chars().any(char::is_control);
    for key in message.attributes.keys().filter(is_odd) {
        problems.add(
            entry("attributes", key),
            "has a control character in its key",
        );
    }
    let users = read_users(&message.allowed_user_ids, &mut problems);
    let (Some(id), Some(sender), true) = (id, sender, problems.is_empty()) else {
        return Err(problems);
    };
    let envelope = Envelope {
        id,
        sender,
        total_minor,
        currency: message.currency.clone(),
        packets: message.packets,
        split,
        min_minor,
        start,
        ttl_micros,
        rain_micros,
        allowed_users: u32::try_from(users.len()).unwrap_or(u32::MAX),
        attributes: message.attributes.clone(),
    };
    Ok((envelope, users))
}

fn one(problem: crate::model::Problem) -> Problems {
    Problems(vec![problem])
}

fn noted<T>(value: Result<T, Problems>, problems: &mut Problems) -> Option<T> {
    value
        .map_err(|mut found| problems.0.append(&mut found.0))
        .ok()
}

/// The whole amount and the least of a packet.
fn read_amounts(message: &proto::CreateEnvelopeRequest, problems: &mut Problems) -> (u64, u64) {
    let most = grouped(AMOUNT_MINOR_MAX);
    let total = u64::try_from(message.total_minor).unwrap_or(0);
    if !(1..=AMOUNT_MINOR_MAX).contains(&total) {
        let given = message.total_minor;
        problems.add(
            "total_minor",
            format!("is {given}: an amount is 1 to {most} (2^53 - 1) minor units"),
        );
    }
    let min = match u64::try_from(message.min_minor) {
        Ok(0) => Some(1),
        Ok(min) if min <= AMOUNT_MINOR_MAX => Some(min),
        _ => {
            let given = message.min_minor;
            problems.add(
                "min_minor",
                format!("is {given}: the least of a packet is 1 to {most} minor units, 0 means 1"),
            );
            None
        }
    };
    if !(1..=PACKETS_MAX).contains(&message.packets) {
        let (given, most) = (message.packets, grouped(PACKETS_MAX.into()));
        problems.add(
            "packets",
            format!("is {given}: an envelope has 1 to {most} packets"),
        );
    } else if let Some(min) = min
        && (1..=AMOUNT_MINOR_MAX).contains(&total)
    {
        let needed = u128::from(min) * u128::from(message.packets);
        if u128::from(total) < needed {
            problems.add(
                "total_minor",
                format!(
                    "does not suffice: {} packets of at least {} need {needed} minor units, {} \
                     given",
                    grouped(message.packets.into()),
                    grouped(min),
                    grouped(total)
                ),
            );
        }
    }
    (total, min.unwrap_or(1))
}

fn read_split(split: i32, problems: &mut Problems) -> Split {
    match proto::Split::try_from(split) {
        Ok(proto::Split::Unspecified | proto::Split::Random) => Split::Random,
        Ok(proto::Split::Equal) => Split::Equal,
        Err(_) => {
            problems.add(
                "split",
                format!("{split} is not a split: SPLIT_RANDOM or SPLIT_EQUAL"),
            );
            Split::Random
        }
    }
}

/// Lifetime and rain in microseconds.
fn read_times(message: &proto::CreateEnvelopeRequest, problems: &mut Problems) -> (u64, u64) {
    let ttl = match &message.ttl {
        None => Some(TTL_DEFAULT),
        Some(ttl) => match Duration::try_from(*ttl) {
            Ok(ttl) if ttl.as_micros() > 0 && ttl <= TTL_MAX => Some(ttl),
            _ => {
                problems.add(
                    "ttl",
                    "must be more than zero and at most 30 days; leave it out for 24 hours",
                );
                None
            }
        },
    };
    let rain = match message.rain.map(Duration::try_from) {
        None => Duration::ZERO,
        Some(Ok(rain)) => rain,
        Some(Err(_)) => {
            problems.add(
                "rain",
                "must not be negative; leave it out for packets that are there at once",
            );
            Duration::ZERO
        }
    };
    if let Some(ttl) = ttl
        && rain > ttl
    {
        problems.add(
            "rain",
            format!("of {rain:?} is longer than the envelope can be grabbed, {ttl:?}"),
        );
    }
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    (micros(ttl.unwrap_or(TTL_DEFAULT)), micros(rain))
}

/// The users who may grab, each once, by id.
fn read_users(ids: &[String], problems: &mut Problems) -> Vec<UserId> {
    if ids.len() > ALLOWED_USERS_MAX {
        problems.add(
            "allowed_user_ids",
            format!(
                "has {}: at most {} users",
                grouped(ids.len() as u64),
                grouped(ALLOWED_USERS_MAX as u64)
            ),
        );
        return Vec::new();
    }
    let mut users = Vec::with_capacity(ids.len());
    let mut bad = 0;
    for (index, id) in ids.iter().enumerate() {
        match UserId::parse(&format!("allowed_user_ids[{index}]"), id) {
            Ok(user) => users.push(user),
            Err(problem) => {
                bad += 1;
                if bad <= BAD_USERS_SHOWN_MAX {
                    problems.0.push(problem);
                }
            }
        }
    }
    if bad > BAD_USERS_SHOWN_MAX {
        let more = bad - BAD_USERS_SHOWN_MAX;
        problems.add("allowed_user_ids", format!("has {more} more bad ids"));
    }
    users.sort_unstable();
    users.dedup();
    users
}
