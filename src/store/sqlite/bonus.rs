//! A caller's grant of bonus draws as one step: replay, state, limit, record, memory, ledger.

use std::sync::Arc;

use super::{
    job::Command,
    state::CampaignState,
    step::{Step, definition},
    users::record_of,
};
use crate::store::{
    Entry, Refusal, Result, StoreError,
    bonus::{BonusAnswer, BonusCommand, BonusEntry},
    entry::Body,
    rules,
};

impl Command for BonusCommand {
    type Reply = BonusAnswer;

    fn run(&self, step: &mut Step<'_>) -> Result<BonusAnswer> {
        let granted = step.with(&self.campaign, |step, state| grant(self, step, state));
        granted.map_err(|error| error.of_draw(step.now))
    }

    fn draws(&self) -> Option<usize> {
        Some(1) // the work of one draw
    }

    fn may_be_refused(&self) -> bool {
        true
    }
}

fn grant(
    command: &BonusCommand,
    step: &mut Step<'_>,
    state: &mut CampaignState,
) -> Result<BonusAnswer> {
    let name = (&command.user, &command.request);
    let known = step.user_row(state.no, &command.user)?;
    if let Some(entry) = step.remembered(state.no, name, known.as_deref())? {
        // Whatever hides the answer, the grant was made.
        return replay(command, step, state, entry).map_err(StoreError::after_write);
    }
    rules::admit_bonus_time(&state.view, command, step.now)?;
    step.admit_backlog()?;
    let campaign = Arc::clone(&state.view.campaign);
    let stored = known.as_deref().map(record_of).transpose()?;
    let is_new = stored.is_none();
    let user = rules::grant_bonus(&campaign, command, stored, step.now)?;
    state.users += u64::from(is_new);
    state.touch();
    let entry = BonusEntry {
        version: state.view.version,
        user: command.user.clone(),
        request: command.request.clone(),
        draws: command.draws,
        expires: command.expires,
        counts: user.counts(),
    };
    let ledger = step.append(state, &Body::Bonus(entry.clone()))?;
    let before = known.and_then(|columns| columns.latest);
    step.save_draw(state.no, name, &user, before, ledger)?;
    Ok(BonusAnswer {
        entry: Arc::new(entry),
        ledger,
        at: step.now,
        replayed: false,
        campaign,
    })
}

/// The answer of a remembered grant, if this is a retry of it.
fn replay(
    command: &BonusCommand,
    step: &Step<'_>,
    state: &CampaignState,
    entry: Entry,
) -> Result<BonusAnswer> {
    let Body::Bonus(bonus) = entry.body else {
        return Err(Refusal::RequestIdReused.into());
    };
    if !rules::is_same_bonus(&bonus, command) {
        return Err(Refusal::RequestIdReused.into());
    }
    let campaign = if bonus.version == state.view.version {
        Arc::clone(&state.view.campaign)
    } else {
        definition(step.db, state.no, bonus.version).map_err(StoreError::of_recorded_version)?
    };
    Ok(BonusAnswer {
        entry: Arc::new(bonus),
        ledger: entry.id,
        at: entry.at,
        replayed: true,
        campaign,
    })
}
