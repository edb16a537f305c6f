//! What a draw must pass before any pool is looked at; on Redis its script checks the same.

use crate::{
    model::{
        Campaign, Moment,
        limits::{Charge, UserRecord},
    },
    store::{CampaignView, Cause, DrawCommand, Refusal, Result, entry::DrawEntry},
};

/// Why a draw does not touch the pools; none if it does.
pub(in crate::store) fn barred(command: &DrawCommand, is_blocked: bool) -> Option<Cause> {
    if command.consolation_only {
        Some(Cause::ConsolationOnly)
    } else {
        is_blocked.then_some(Cause::Blocked)
    }
}

/// A recorded draw is what this command asks for: the command is a retry of it.
pub(in crate::store) fn is_same_draw(draw: &DrawEntry, command: &DrawCommand) -> bool {
    draw.user == command.user
        && draw.request == command.request
        && draw.results.len() == command.count as usize
        && draw.funding == command.funding
        && draw.payment_ref == command.payment_ref
        && draw.consolation_only == command.consolation_only
}

/// Refuses a draw that comes too late, or at a time at which the campaign takes none.
pub(in crate::store) fn admit_time(
    view: &CampaignView,
    command: &DrawCommand,
    now: Moment,
) -> Result<()> {
    if now > command.not_after {
        return Err(Refusal::DeadlineExceeded.into());
    }
    if let Some(expire) = command.expire.filter(|expire| now > *expire) {
        return Err(Refusal::Expired(expire).into());
    }
    Ok(view.admits_draws(now)?)
}

/// The user's record of today, what the draw costs of it, and the hour that counts it (see
/// [`UserRecord::charge`]), unless a limit forbids the draw.
/// `stored` is the record as it was last written; none for a user never seen.
pub(in crate::store) fn admit_user(
    campaign: &Campaign,
    command: &DrawCommand,
    stored: Option<UserRecord>,
    now: Moment,
) -> Result<(UserRecord, Charge, Option<Moment>)> {
    let record = stored.unwrap_or_default().on(campaign.zone.day(now), now);
    let limits = campaign.limits_of(&command.segments);
    let hour = campaign.limited_hour(limits, now);
    let charge = record.admit(limits, command.funding, command.count, hour);
    let charge = charge.map_err(|reached| Refusal::limit(reached, campaign, now))?;
    Ok((record, charge, hour))
}
