//! Bringing an injected window to a new plan: units on top, or units to recall.

use rusqlite::{OptionalExtension, params};

use super::{
    apply::window_key,
    freeze::{insert_window_prize, open_fill, take_off_stock},
    job::Command,
    state::{CampaignState, add},
    step::{Step, scalar},
};
use crate::{
    model::{Moment, campaign::Quantities},
    store::{AdjustCommand, Result, Step as Outcome, entry::Injected},
};

impl Command for AdjustCommand {
    type Reply = Outcome;

    fn run(&self, step: &mut Step<'_>) -> Result<Outcome> {
        step.with(&self.campaign, |step, state| adjust(self, step, state))
    }
}

/// One prize of a window before a new plan.
struct Standing {
    planned: u64,
    carried: u64,
    granted: u64,
    recalled: u64,
}

fn adjust(
    command: &AdjustCommand,
    step: &mut Step<'_>,
    state: &mut CampaignState,
) -> Result<Outcome> {
    let pool = command.pool;
    let key = window_key(command.window);
    let Some(finish) = adjustable(command, step, state)? else {
        return Ok(Outcome::Stale);
    };
    let mut asked = Quantities::new();
    let mut changed = Quantities::new();
    for (prize, planned) in &command.planned {
        insert_window_prize(step, state, pool, command.window, (*prize, 0, 0))?;
        let standing = step
            .db
            .prepare_cached(
                "SELECT planned, carried, granted, recalled FROM window_prizes
                 WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND prize = ?4",
            )?
            .query_row(params![state.no, pool.0, key, prize.0], |row| {
                Ok(Standing {
                    planned: row.get(0)?,
                    carried: row.get(1)?,
                    granted: row.get(2)?,
                    recalled: row.get(3)?,
                })
            })?;
        let target = planned + standing.carried;
        let injected = standing.granted - standing.recalled;
        if *planned != standing.planned {
            changed.insert(*prize, *planned);
        }
        add(&mut asked, *prize, target.saturating_sub(injected));
        step.db
            .prepare_cached(
                "UPDATE window_prizes SET planned = ?5, recall_due = ?6, withdraw = 0
                 WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND prize = ?4",
            )?
            .execute(params![
                state.no,
                pool.0,
                key,
                prize.0,
                planned,
                injected.saturating_sub(target)
            ])?;
    }
    step.db
        .prepare_cached(
            "UPDATE windows SET version = ?4, state = 0 WHERE campaign = ?1 AND pool = ?2 AND start = ?3",
        )?
        .execute(params![
            state.no,
            pool.0,
            command.window.as_micros(),
            state.view.version
        ])?;
    top_up(command, step, state, finish, asked, changed)?;
    Ok(Outcome::Done)
}

/// The end of the window, if it may be adjusted now.
fn adjustable(
    command: &AdjustCommand,
    step: &Step<'_>,
    state: &CampaignState,
) -> Result<Option<Moment>> {
    if command.version != state.view.version || state.view.has_ended(step.now) {
        return Ok(None);
    }
    let found: Option<(i64, u32)> = step
        .db
        .prepare_cached(
            "SELECT finish, version FROM windows WHERE campaign = ?1 AND pool = ?2 AND start = ?3 AND state <> 1",
        )?
        .query_row(
            params![state.no, command.pool.0, command.window.as_micros()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((finish, version)) = found else {
        return Ok(None);
    };
    let recalling: bool = scalar(
        step.db,
        "SELECT EXISTS (SELECT 1 FROM window_prizes WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND recall_due > 0)",
        params![state.no, command.pool.0, window_key(command.window)],
    )?;
    let finish = Moment::from_micros(finish);
    let may = finish > step.now && version < command.version && !recalling;
    Ok(may.then_some(finish))
}

fn top_up(
    command: &AdjustCommand,
    step: &mut Step<'_>,
    state: &mut CampaignState,
    finish: Moment,
    asked: Quantities,
    planned: Quantities,
) -> Result<()> {
    let granted = take_off_stock(state, &asked);
    if granted.is_empty() && planned.is_empty() {
        return Ok(());
    }
    let key = window_key(command.window);
    let place = params![state.no, command.pool.0, key];
    let generation: u32 = scalar(
        step.db,
        "SELECT COALESCE(MAX(generation), 0) + 1 FROM fills WHERE campaign = ?1 AND pool = ?2 AND window = ?3",
        place,
    )?;
    let base: u64 = scalar(
        step.db,
        "SELECT COALESCE(SUM(granted), 0) FROM window_prizes WHERE campaign = ?1 AND pool = ?2 AND window = ?3",
        place,
    )?;
    let injected = Injected {
        pool: command.pool,
        window: command.window,
        generation,
        version: state.view.version,
        from: command.window.max(step.now),
        until: finish,
        planned,
        carried: Quantities::new(),
        granted,
    };
    open_fill(step, state, injected, base)?;
    let no = state.no;
    state
        .schedule(command.pool)?
        .refresh(step.db, no, command.pool)
}
