//! What operators do to a campaign.

use crate::{
    model::{Campaign, Moment, PoolKind, PoolNo, PrizeNo, Problems, UserId, limits::UserRecord},
    store::{
        HoldNote, Lifecycle, OperateCommand, Operation, Refusal, Result, StoreError, entry::Body,
    },
};

use super::book::less;
use super::codes::{self, Import};
use super::propose::refuse_unapproved;
use super::state::{PoolState, RecallDue, State, UserChange, WindowMark};

/// What a store reads of the users of an operation.
#[derive(Clone, Debug)]
pub(in crate::store) enum Subjects {
    /// It names none.
    None,
    /// Whom a grant names, in its order; no record for a user never seen.
    Records(Vec<(UserId, Option<UserRecord>)>),
    /// Those whom a block or its end changes.
    Users(Vec<UserId>),
}

/// Windows that an operation names, which may have ended.
pub(in crate::store) fn windows_needed(operation: &Operation) -> Vec<(PoolNo, Moment)> {
    match operation {
        Operation::Recall { pool, window, .. } => {
            window.iter().map(|window| (*pool, *window)).collect()
        }
        _ => Vec::new(),
    }
}

/// Does what an operator asks; returns how many users it concerned.
pub(in crate::store) fn operate(
    state: &mut State,
    command: &OperateCommand,
    subjects: &Subjects,
) -> Result<u32> {
    refuse_unknown(&state.view.campaign, &command.operation)?;
    refuse_closed(state)?;
    let is_required = state.view.campaign.approval_required;
    let needs_approval = matches!(
        command.operation,
        Operation::Close | Operation::Recall { .. }
    );
    refuse_unapproved(is_required && needs_approval, &command.author)?;
    let note = HoldNote {
        at: state.now,
        operator: command.author.operator.clone(),
        reason: command.author.reason.clone(),
    };
    let users = match (&command.operation, subjects) {
        (Operation::Pause, _) => set_lifecycle(state, Lifecycle::Paused)?,
        (Operation::Resume, _) => set_lifecycle(state, Lifecycle::Open)?,
        (Operation::Close, _) => set_lifecycle(state, Lifecycle::Closing)?,
        (Operation::PausePrize { prize }, _) => hold(state, *prize, true)?,
        (Operation::ResumePrize { prize }, _) => hold(state, *prize, false)?,
        (
            Operation::Recall {
                pool,
                window,
                prize,
                withdraw,
            },
            _,
        ) => fence(state, *pool, *window, *prize, *withdraw)?,
        (Operation::Grant { draws, expires, .. }, Subjects::Records(records)) => {
            grant(state, records, *draws, *expires)?
        }
        (Operation::Block { .. }, Subjects::Users(users)) => {
            state.view.blocked_users += users.len() as u64;
            let users_with_notes = users.iter().map(|user| (user.clone(), note.clone()));
            state.changes.blocked = users_with_notes.collect();
            count(users)
        }
        (Operation::Unblock { .. }, Subjects::Users(users)) => {
            let blocked = &mut state.view.blocked_users;
            *blocked = less(*blocked, users.len() as u64)?;
            state.changes.unblocked.clone_from(users);
            count(users)
        }
        (
            Operation::ImportCodes {
                prize,
                first,
                codes,
                ..
            },
            _,
        ) => {
            refuse_ended(state)?;
            let import = Import {
                prize: *prize,
                first: *first,
                codes: *codes,
                blocks: &command.blocks,
            };
            codes::import(state, import)?;
            0
        }
        (Operation::Grant { .. } | Operation::Block { .. } | Operation::Unblock { .. }, _) => {
            return Err(StoreError::corrupt("the users were not read"));
        }
    };
    state.update_holds(Some(&note));
    state.changes.request = Some(command.author.request.clone());
    state.changes.entries.push(Body::Operated {
        operation: command.operation.clone(),
        author: command.author.clone(),
        users,
    });
    Ok(users)
}

fn count<T>(users: &[T]) -> u32 {
    u32::try_from(users.len()).unwrap_or(u32::MAX)
}

/// A caller may have read the numbers from a version that was replaced since.
fn refuse_unknown(campaign: &Campaign, operation: &Operation) -> Result<()> {
    let (pool, prize) = match operation {
        Operation::PausePrize { prize }
        | Operation::ResumePrize { prize }
        | Operation::ImportCodes { prize, .. } => (None, Some(*prize)),
        Operation::Recall { pool, prize, .. } => (Some(*pool), *prize),
        Operation::Pause
        | Operation::Resume
        | Operation::Close
        | Operation::Grant { .. }
        | Operation::Block { .. }
        | Operation::Unblock { .. } => (None, None),
    };
    if let Some(no) = pool.filter(|no| usize::from(no.0) >= campaign.pools.len()) {
        return Err(Refusal::PoolNotFound(format!("number {}", no.0)).into());
    }
    if let Some(no) = prize.filter(|no| usize::from(no.0) >= campaign.prizes.len()) {
        return Err(Refusal::PrizeNotFound(format!("number {}", no.0)).into());
    }
    Ok(())
}

fn refuse_closed(state: &State) -> Result<()> {
    match state.view.lifecycle {
        Lifecycle::Open | Lifecycle::Paused => Ok(()),
        Lifecycle::Closing | Lifecycle::Closed => Err(Refusal::Closed.into()),
    }
}

fn refuse_ended(state: &State) -> Result<()> {
    let end = state.view.campaign.end;
    if state.now >= end {
        return Err(Refusal::Ended(end).into());
    }
    Ok(())
}

fn set_lifecycle(state: &mut State, lifecycle: Lifecycle) -> Result<u32> {
    if lifecycle != Lifecycle::Closing {
        refuse_ended(state)?;
    }
    state.view.lifecycle = lifecycle;
    Ok(0)
}

fn hold(state: &mut State, prize: PrizeNo, held: bool) -> Result<u32> {
    refuse_ended(state)?;
    let mut prizes: Vec<PrizeNo> = state.view.paused_prizes.to_vec();
    prizes.retain(|known| *known != prize);
    if held {
        prizes.push(prize);
        prizes.sort_unstable();
    } else {
        forget_oldest(state);
    }
    state.view.paused_prizes = prizes.into();
    Ok(0)
}

/// Units of a prize that was held may be older than all others that wait.
fn forget_oldest(state: &mut State) {
    for pool in &mut state.pools {
        if let PoolState::Schedule(schedule) = pool {
            schedule.oldest = Some(Moment::EPOCH);
        }
    }
}

/// Marks what a recall must take back, and gives back at once what is not in the pool yet.
fn fence(
    state: &mut State,
    pool: PoolNo,
    window: Option<Moment>,
    prize: Option<PrizeNo>,
    withdraw: bool,
) -> Result<u32> {
    refuse_never_planned(state, pool, prize)?;
    let (now, version) = (state.now, state.view.version);
    let windows = state.schedule(pool)?.windows.iter_mut();
    let in_scope = windows.filter(|(start, known)| {
        known.mark != WindowMark::Missed && window.map_or(known.end > now, |named| named == **start)
    });
    let mut fenced = Vec::new();
    for (start, known) in in_scope {
        known.is_changed = true;
        for (no, units) in &mut known.prizes {
            if prize.is_none_or(|prize| prize == *no) {
                units.recall_due = RecallDue::All;
                units.withdraw = withdraw;
            }
        }
        // A plan that was there before the recall does not fill the window again, even if it is the
        // first one that has the prize.
        match prize {
            Some(no) => known.prizes.entry(no).or_default().fenced = version,
            None => {
                known.mark = WindowMark::Recalled;
                known.version = version;
            }
        }
        fenced.push(*start);
    }
    if let (Some(start), true) = (window, fenced.is_empty()) {
        return Err(Refusal::WindowNotFound(start).into());
    }
    if prize.is_none() {
        for start in fenced {
            state.truncate_fills(pool, start)?;
        }
    }
    Ok(0)
}

/// Only what the plan, or an earlier one, brought to an hour can be recalled.
fn refuse_never_planned(state: &mut State, pool: PoolNo, prize: Option<PrizeNo>) -> Result<()> {
    let campaign = std::sync::Arc::clone(&state.view.campaign);
    let id = &campaign.pool(pool).id;
    let PoolKind::Schedule(plan) = &campaign.pool(pool).kind else {
        return Err(Refusal::NotASchedule(id.to_string()).into());
    };
    let schedule = state.schedule(pool)?;
    if prize.is_some_and(|prize| !plan.plans(prize) && !schedule.planned.contains(&prize)) {
        let mut problems = Problems::default();
        problems.add(
            "prize_id",
            format!("is planned in no hour of the pool `{id}`, so it has no units to recall there"),
        );
        return Err(Refusal::ChangeRefused(problems).into());
    }
    Ok(())
}

fn grant(
    state: &mut State,
    records: &[(UserId, Option<UserRecord>)],
    draws: u32,
    expires: Moment,
) -> Result<u32> {
    let today = state.view.campaign.zone.day(state.now);
    let mut problems = Problems::default();
    if expires <= state.now {
        problems.add(
            "expire_time",
            format!("{expires} has passed: the draws would lapse at once; name a later moment"),
        );
    }
    for (user, before) in records {
        let known = before.clone().unwrap_or_default();
        let mut after = known.on(today, state.now);
        if !after.grant(draws, expires) {
            problems.add(
                "user_ids",
                format!(
                    "{user} has too many open grants: give this one the expiry of an earlier one"
                ),
            );
        }
        state.changes.users.push(UserChange {
            user: user.clone(),
            before: before.clone(),
            after,
        });
    }
    if !problems.is_empty() {
        return Err(Refusal::ChangeRefused(problems).into());
    }
    state.view.touched = true;
    Ok(count(records))
}
