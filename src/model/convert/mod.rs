//! The one place where proto messages and model types meet, and so the one validation for files and
//! for the API.
//!
//! It reports every problem of an input at once, each with its path in the JSON mapping, and says
//! what would be right. What passes is a [`Campaign`] that cannot be wrong afterwards. It knows no
//! clock: what may change once a campaign runs is [`super::change`]'s.

mod bounds;
mod budget;
mod campaign;
mod deck;
mod envelope;
mod hour_sums;
mod hours;
mod layers;
mod odds;
mod personal;
mod plan;
mod prizes;
mod report;
mod schedule;
mod segments;
pub(crate) mod sheets;
mod special;
pub(crate) mod times;
mod wire;

use prost::Message as _;

use self::prizes::Prizes;
use super::{
    campaign::{Campaign, PoolKind},
    number::PoolNo,
    problem::Problems,
};
use crate::proto;

pub use bounds::{
    COUNT_MAX, DAILY_LAYERS_MAX, HOUR_UNITS_MAX, PLANNED_UNITS_MAX, SPECIAL_LAYERS_MAX,
};
pub use envelope::envelope_from_proto;
pub use personal::guarantees_to_proto;
pub(in crate::model) use plan::is_short_stock;
pub(in crate::model) use prizes::is_unknown_prize;
pub use segments::{rule_to_proto, segments_from_proto};
pub use wire::{
    campaign_to_proto, cap_to_proto, duration_to_proto, moment_from_proto, moment_to_proto,
    money_to_proto,
};
pub(crate) use wire::{money_nanos, shown_money};

/// Checks a campaign and makes it whole: defaults filled in, odds made cards.
///
/// # Errors
/// All problems at once, each with its path.
///
/// ```
/// use tombola::{model::convert::campaign_from_proto, proto};
/// let empty = proto::Campaign::default();
/// let problems = campaign_from_proto(&empty).unwrap_err();
/// let paths: Vec<&str> = problems.0.iter().map(|problem| problem.path.as_str()).collect();
/// assert_eq!(paths, ["id", "timeZone", "startTime", "endTime", "prizes", "pools"]);
/// ```
pub fn campaign_from_proto(message: &proto::Campaign) -> Result<Campaign, Problems> {
    let mut problems = Problems::default();
    let parts = campaign::read(message, &mut problems);
    plan::check_hours(message, &parts, &mut problems);
    personal::check_states(&parts.kinds, &mut problems);
    plan::check_stock(message, &parts, &mut problems);
    parts.finish(problems)
}

/// As [`campaign_from_proto`], but does not check the plan against the stock: what a campaign that
/// has begun still needs depends on how far it is.
///
/// # Errors
/// All problems at once, each with its path.
pub fn unstocked_from_proto(message: &proto::Campaign) -> Result<Campaign, Problems> {
    let mut problems = Problems::default();
    let parts = campaign::read(message, &mut problems);
    plan::check_hours(message, &parts, &mut problems);
    personal::check_states(&parts.kinds, &mut problems);
    parts.finish(problems)
}

/// The campaign with another schedule in one of its pools. Like [`unstocked_from_proto`], this does
/// not check the plan against the stock.
///
/// # Errors
/// All problems at once, each with its path in the campaign.
///
/// # Panics
/// If the pool is not of this campaign.
pub fn with_schedule(
    campaign: &Campaign,
    pool: PoolNo,
    message: &proto::Schedule,
) -> Result<Campaign, Problems> {
    let mut problems = Problems::default();
    let path = format!("pools[{}].schedule", pool.0);
    let prizes = Prizes::of_campaign(campaign);
    let schedule = schedule::read(&path, message, &prizes, &mut problems);
    let mut changed = campaign.clone();
    changed.pools[usize::from(pool.0)].kind = PoolKind::Schedule(schedule);
    plan::check_new_schedule(&path, message, &changed, &mut problems);
    problems.or(changed)
}

/// A campaign as bytes for a store. Equal campaigns give equal bytes.
pub fn encode(campaign: &Campaign) -> Vec<u8> {
    campaign_to_proto(campaign).encode_to_vec()
}

/// A campaign from the bytes of [`encode`].
///
/// The plan is not checked against the stock and the campaign's hours again: a newer time zone
/// database may count an hour more than the one the campaign was accepted with, and what is
/// accepted must stay readable.
///
/// # Errors
/// The bytes are no such campaign, or hold fields that this version does not know: to drop them in
/// silence would make it another campaign.
pub fn decode(bytes: &[u8]) -> Result<Campaign, Problems> {
    let mut problems = Problems::default();
    let message = match proto::Campaign::decode(bytes) {
        Ok(message) => message,
        Err(error) => {
            problems.add("campaign", format!("is not a campaign's bytes: {error}"));
            return Err(problems);
        }
    };
    if message.encode_to_vec() != bytes {
        problems.add(
            "campaign",
            "holds fields that this version of tombola does not know: a newer version wrote it",
        );
        return Err(problems);
    }
    let parts = campaign::read(&message, &mut problems);
    parts.finish(problems)
}

#[cfg(test)]
pub(crate) mod tests;
