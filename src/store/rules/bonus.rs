//! Bonus draws that callers grant. On Redis the script of draws decides the same (`bonus.lua`).

use crate::{
    model::{
        Campaign, Moment, Problems,
        limits::{OPEN_GRANTS_MAX, UserRecord},
    },
    store::{
        CampaignView, Refusal, Result,
        bonus::{BonusCommand, BonusEntry},
    },
};

/// A recorded grant is what this command asks for: the command is a retry of it.
pub(in crate::store) fn is_same_bonus(bonus: &BonusEntry, command: &BonusCommand) -> bool {
    bonus.user == command.user
        && bonus.request == command.request
        && bonus.draws == command.draws
        && bonus.expires == command.expires
}

/// Refuses a grant that comes too late, or after the campaign's end.
pub(in crate::store) fn admit_bonus_time(
    view: &CampaignView,
    command: &BonusCommand,
    now: Moment,
) -> Result<()> {
    if now > command.not_after {
        return Err(Refusal::DeadlineExceeded.into());
    }
    Ok(view.lifecycle.admits_bonus(&view.campaign, now)?)
}

/// The user's record with the bonus draws. `stored` is the record as it was last written; none for
/// a user never seen.
pub(in crate::store) fn grant_bonus(
    campaign: &Campaign,
    command: &BonusCommand,
    stored: Option<UserRecord>,
    now: Moment,
) -> Result<UserRecord> {
    let refuse = |message: String| {
        let mut problems = Problems::default();
        problems.add("expire_time", message);
        Refusal::ChangeRefused(problems)
    };
    let BonusCommand { draws, expires, .. } = *command;
    if expires <= now {
        let message = "has passed: the draws would lapse at once; name a later moment";
        return Err(refuse(format!("{expires} {message}")).into());
    }
    let mut record = stored.unwrap_or_default().on(campaign.zone.day(now), now);
    let admitted = record.admit_bonus(&campaign.limits, draws);
    admitted.map_err(|reached| Refusal::limit(reached, campaign, now))?;
    if !record.grant(draws, expires) {
        let message = format!(
            "the user has {OPEN_GRANTS_MAX} open grants that lapse at other moments: name the \
             moment of one of them"
        );
        return Err(refuse(message).into());
    }
    record.count_bonus(&campaign.limits, draws);
    Ok(record)
}
