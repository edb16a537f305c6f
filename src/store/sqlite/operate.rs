//! What operators do to a campaign.

use rusqlite::{Connection, OptionalExtension, params};

use super::{
    apply::{save_paused, window_key},
    fill::truncate_fills,
    job::Command,
    state::{CampaignState, lifecycle_code},
    step::{Step, entry, moment},
    users::{load_user, save_user},
};
use crate::{
    model::{Campaign, Moment, PoolKind, PoolNo, PrizeNo, Problems, RequestId, UserId},
    store::{
        LedgerId, Lifecycle, OperateCommand, Operated, Operation, Refusal, Result, StoreError,
        entry::Body,
    },
};

/// A count of units to recall that no window reaches: all of them.
pub(super) const RECALL_ALL: i64 = i64::MAX;

impl Command for OperateCommand {
    type Reply = Operated;

    fn run(&self, step: &mut Step<'_>) -> Result<Operated> {
        step.with(&self.campaign, |step, state| operate(self, step, state))
    }
}

fn operate(
    command: &OperateCommand,
    step: &mut Step<'_>,
    state: &mut CampaignState,
) -> Result<Operated> {
    let replayed = replay_of(
        step.db,
        state,
        &command.author.request,
        |body| matches!(body, Body::Operated { operation, .. } if *operation == command.operation),
    )?;
    if let Some(operated) = replayed {
        return Ok(operated);
    }
    refuse_unknown(&state.view.campaign, &command.operation)?;
    let users = match &command.operation {
        Operation::Pause => set_lifecycle(step, state, Lifecycle::Paused)?,
        Operation::Resume => set_lifecycle(step, state, Lifecycle::Open)?,
        Operation::Close => set_lifecycle(step, state, Lifecycle::Closing)?,
        Operation::PausePrize { prize } => set_paused(step, state, *prize, true)?,
        Operation::ResumePrize { prize } => set_paused(step, state, *prize, false)?,
        Operation::Recall {
            pool,
            window,
            prize,
            withdraw,
        } => fence(step, state, *pool, *window, *prize, *withdraw)?,
        Operation::Grant {
            users,
            draws,
            expires,
        } => grant(step, state, users, *draws, *expires)?,
        Operation::Block { users } => block(step, state, users, true)?,
        Operation::Unblock { users } => block(step, state, users, false)?,
    };
    step.changed(state);
    let body = Body::Operated {
        operation: command.operation.clone(),
        author: command.author.clone(),
        users,
    };
    let ledger = step.append(state.no, &body)?;
    remember(step.db, state.no, &command.author.request, ledger)?;
    Ok(Operated {
        replayed: false,
        ledger,
        users,
        version: state.view.version,
    })
}

/// The reply of the operation that had this request id; an error where it was another one.
pub(super) fn replay_of(
    db: &Connection,
    state: &CampaignState,
    request: &RequestId,
    is_same: impl FnOnce(&Body) -> bool,
) -> Result<Option<Operated>> {
    let sequence: Option<u64> = db
        .prepare_cached("SELECT sequence FROM operations WHERE campaign = ?1 AND request = ?2")?
        .query_row(params![state.no, request.as_str()], |row| row.get(0))
        .optional()?;
    let Some(sequence) = sequence else {
        return Ok(None);
    };
    let found = entry(db, sequence)?
        .ok_or_else(|| StoreError::Corrupt(format!("ledger entry {sequence} is missing")))?;
    if !is_same(&found.body) {
        return Err(Refusal::RequestIdReused.into());
    }
    let (users, version) = match found.body {
        Body::Applied { version, .. } => (0, version),
        Body::Operated { users, .. } => (users, state.view.version),
        _ => (0, state.view.version),
    };
    Ok(Some(Operated {
        replayed: true,
        ledger: found.id,
        users,
        version,
    }))
}

/// Remembers an operation under its request id.
pub(super) fn remember(
    db: &Connection,
    campaign: i64,
    request: &RequestId,
    ledger: LedgerId,
) -> Result<()> {
    db.prepare_cached("INSERT INTO operations (campaign, request, sequence) VALUES (?1, ?2, ?3)")?
        .execute(params![campaign, request.as_str(), ledger.sequence])?;
    Ok(())
}

fn refuse_closed(state: &CampaignState) -> Result<()> {
    match state.view.lifecycle {
        Lifecycle::Open | Lifecycle::Paused => Ok(()),
        Lifecycle::Closing | Lifecycle::Closed => Err(Refusal::Closed.into()),
    }
}

fn refuse_ended(step: &Step<'_>, state: &CampaignState) -> Result<()> {
    let end = state.view.campaign.end;
    if step.now >= end {
        return Err(Refusal::Ended(end).into());
    }
    Ok(())
}

/// Writes a campaign's lifecycle.
pub(super) fn save_lifecycle(
    step: &Step<'_>,
    state: &mut CampaignState,
    lifecycle: Lifecycle,
) -> Result<()> {
    state.view.lifecycle = lifecycle;
    step.db
        .prepare_cached("UPDATE campaigns SET lifecycle = ?2 WHERE no = ?1")?
        .execute(params![state.no, lifecycle_code(lifecycle)])?;
    Ok(())
}

fn set_lifecycle(step: &Step<'_>, state: &mut CampaignState, lifecycle: Lifecycle) -> Result<u32> {
    refuse_closed(state)?;
    if lifecycle != Lifecycle::Closing {
        refuse_ended(step, state)?;
    }
    save_lifecycle(step, state, lifecycle)?;
    Ok(0)
}

fn set_paused(
    step: &Step<'_>,
    state: &mut CampaignState,
    prize: PrizeNo,
    paused: bool,
) -> Result<u32> {
    refuse_closed(state)?;
    refuse_ended(step, state)?;
    let mut prizes: Vec<PrizeNo> = state.view.paused_prizes.to_vec();
    prizes.retain(|held| *held != prize);
    if paused {
        prizes.push(prize);
        prizes.sort_unstable();
    }
    state.view.paused_prizes = prizes.into();
    save_paused(step, state)?;
    Ok(0)
}

/// A caller may have read the numbers from a version that was replaced since.
fn refuse_unknown(campaign: &Campaign, operation: &Operation) -> Result<()> {
    let (pool, prize) = match operation {
        Operation::PausePrize { prize } | Operation::ResumePrize { prize } => (None, Some(*prize)),
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

/// Marks what Recall must take back, and gives back at once what is not in the pool yet.
fn fence(
    step: &mut Step<'_>,
    state: &mut CampaignState,
    pool: PoolNo,
    window: Option<Moment>,
    prize: Option<PrizeNo>,
    withdraw: bool,
) -> Result<u32> {
    refuse_closed(state)?;
    let id = state.view.campaign.pool(pool).id.to_string();
    let PoolKind::Schedule(schedule) = &state.view.campaign.pool(pool).kind else {
        return Err(Refusal::NotASchedule(id).into());
    };
    if let Some(prize) = prize.filter(|prize| !schedule.plans(*prize))
        && !was_planned(step, state, pool, prize)?
    {
        let mut problems = Problems::default();
        problems.add(
            "prize_id",
            format!("is planned in no hour of the pool `{id}`, so it has no units to recall there"),
        );
        return Err(Refusal::ChangeRefused(problems).into());
    }
    let windows = live_windows(step, state, pool, window)?;
    if let (Some(start), true) = (window, windows.is_empty()) {
        return Err(Refusal::WindowNotFound(start).into());
    }
    for start in windows {
        let key = window_key(start);
        step.db
            .prepare_cached(
                "UPDATE window_prizes SET recall_due = ?5, withdraw = ?6
                 WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND (?4 IS NULL OR prize = ?4)",
            )?
            .execute(params![
                state.no,
                pool.0,
                key,
                prize.map(|prize| prize.0),
                RECALL_ALL,
                withdraw
            ])?;
        if prize.is_none() {
            step.db
                .prepare_cached(
                    // A plan that was there before the recall does not fill the window again.
                    "UPDATE windows SET state = 2, version = ?4 WHERE campaign = ?1 AND pool = ?2 AND start = ?3",
                )?
                .execute(params![
                    state.no,
                    pool.0,
                    start.as_micros(),
                    state.view.version
                ])?;
            truncate_fills(step, state, pool, Some(key))?;
        }
    }
    Ok(0)
}

/// Whether an earlier version of the schedule planned the prize in an hour that was injected.
fn was_planned(
    step: &Step<'_>,
    state: &CampaignState,
    pool: PoolNo,
    prize: PrizeNo,
) -> Result<bool> {
    let found = step
        .db
        .prepare_cached(
            "SELECT 1 FROM window_prizes WHERE campaign = ?1 AND pool = ?2 AND prize = ?3 LIMIT 1",
        )?
        .exists(params![state.no, pool.0, prize.0])?;
    Ok(found)
}

/// Injected windows in the scope of a recall, by start.
fn live_windows(
    step: &Step<'_>,
    state: &CampaignState,
    pool: PoolNo,
    window: Option<Moment>,
) -> Result<Vec<Moment>> {
    let mut statement = step.db.prepare_cached(
        "SELECT start FROM windows WHERE campaign = ?1 AND pool = ?2 AND state <> 1
         AND CASE WHEN ?3 IS NULL THEN finish > ?4 ELSE start = ?3 END",
    )?;
    let rows = statement.query_map(
        params![
            state.no,
            pool.0,
            window.map(Moment::as_micros),
            step.now.as_micros()
        ],
        |row| moment(row, 0),
    )?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn grant(
    step: &Step<'_>,
    state: &mut CampaignState,
    users: &[UserId],
    draws: u32,
    expires: Moment,
) -> Result<u32> {
    refuse_closed(state)?;
    let today = state.view.campaign.zone.day(step.now);
    let mut problems = Problems::default();
    if expires <= step.now {
        problems.add(
            "expire_time",
            format!("{expires} has passed: the draws would lapse at once; name a later moment"),
        );
    }
    let mut records = Vec::with_capacity(users.len());
    for user in users {
        let stored = load_user(step.db, state.no, user)?;
        let is_new = stored.is_none();
        let mut record = stored.unwrap_or_default().on(today, step.now);
        if !record.grant(draws, expires) {
            problems.add(
                "user_ids",
                format!(
                    "{user} has too many open grants: give this one the expiry of an earlier one"
                ),
            );
        }
        records.push((user, record, is_new));
    }
    if !problems.is_empty() {
        return Err(Refusal::ChangeRefused(problems).into());
    }
    for (user, record, is_new) in &records {
        save_user(step.db, state.no, user, record)?;
        state.users += u64::from(*is_new);
    }
    state.touch();
    Ok(u32::try_from(records.len()).unwrap_or(u32::MAX))
}

fn block(
    step: &Step<'_>,
    state: &mut CampaignState,
    users: &[UserId],
    blocked: bool,
) -> Result<u32> {
    refuse_closed(state)?;
    let sql = if blocked {
        "INSERT OR IGNORE INTO blocked (campaign, user) VALUES (?1, ?2)"
    } else {
        "DELETE FROM blocked WHERE campaign = ?1 AND user = ?2"
    };
    let mut changed = 0;
    for user in users {
        let rows = step
            .db
            .prepare_cached(sql)?
            .execute(params![state.no, user.as_str()])?;
        changed += u32::try_from(rows).unwrap_or(0);
    }
    if blocked {
        state.view.blocked_users += u64::from(changed);
    } else {
        state.view.blocked_users -= u64::from(changed);
    }
    step.db
        .prepare_cached("UPDATE campaigns SET blocked_users = ?2 WHERE no = ?1")?
        .execute(params![state.no, state.view.blocked_users])?;
    Ok(changed)
}
