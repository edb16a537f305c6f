//! Freezing windows: quantities off stock, the moment from which they scatter, the fill that will put them into the pool.

use std::time::Duration;

use rusqlite::params;

use super::{
    apply::window_key,
    job::Command,
    state::{CampaignState, ScheduleState, add},
    step::{Step, to_json},
};
use crate::{
    model::{Moment, PoolKind, PoolNo, PrizeNo, campaign::Quantities, schedule::Missed},
    store::{
        FreezeCommand, Result, Step as Outcome, StoreError,
        entry::{Body, Injected},
        fill::{FREEZE_WINDOWS_MAX, PlannedWindow},
    },
};

/// The moments that the units of a missed window get, where it is released at once: the last second.
const RELEASE_SPAN: Duration = Duration::from_secs(1);

impl Command for FreezeCommand {
    type Reply = Outcome;

    fn run(&self, step: &mut Step<'_>) -> Result<Outcome> {
        step.with(&self.campaign, |step, state| {
            if self.version != state.view.version || state.view.has_ended(step.now) {
                return Ok(Outcome::Stale);
            }
            let windows = &self.windows[..self.windows.len().min(FREEZE_WINDOWS_MAX)];
            let mut horizon = state.schedule(self.pool)?.horizon;
            for window in windows {
                if horizon != window.start {
                    return Ok(Outcome::Stale);
                }
                horizon = window.end;
            }
            for window in windows {
                freeze(step, state, self.pool, window)?;
            }
            let no = state.no;
            let schedule = state.schedule(self.pool)?;
            schedule.save(step.db, no, self.pool)?;
            schedule.refresh(step.db, no, self.pool)?;
            Ok(Outcome::Done)
        })
    }
}

fn missed_rule(state: &CampaignState, pool: PoolNo) -> Missed {
    match &state.view.campaign.pool(pool).kind {
        PoolKind::Schedule(schedule) => schedule.missed,
        PoolKind::Deck(_) => Missed::Skip,
    }
}

fn freeze(
    step: &mut Step<'_>,
    state: &mut CampaignState,
    pool: PoolNo,
    window: &PlannedWindow,
) -> Result<()> {
    let missed = window.end <= step.now;
    let rule = missed_rule(state, pool);
    state.schedule(pool)?.horizon = window.end;
    if missed && rule != Missed::Release {
        return pass_over(step, state, pool, window, rule == Missed::Spread);
    }
    let carried = if missed {
        Quantities::new()
    } else {
        carried_share(state.schedule(pool)?, window.windows_left)
    };
    let mut asked = window.planned.clone();
    for (prize, units) in &carried {
        add(&mut asked, *prize, *units);
    }
    if asked.is_empty() {
        return Ok(());
    }
    // A missed window is released now, in an order of chance, and not when it should have been: nobody could take a unit then,
    // and it would go back to stock as one that nobody took.
    let (from, until) = if missed {
        (window.start.max(step.now - RELEASE_SPAN), step.now)
    } else {
        (window.start.max(step.now), window.end)
    };
    let granted = take_off_stock(state, &asked);
    insert_window(step, state, pool, window, 0)?;
    for prize in asked.keys() {
        let planned = window.planned.get(prize).copied().unwrap_or(0);
        let carry = carried.get(prize).copied().unwrap_or(0);
        insert_window_prize(step, state, pool, window.start, (*prize, planned, carry))?;
    }
    let injected = Injected {
        pool,
        window: window.start,
        generation: 0,
        version: state.view.version,
        from,
        until,
        planned: window.planned.clone(),
        carried,
        granted,
    };
    open_fill(step, state, injected, 0)
}

/// A window that has ended unfilled: its units stay in stock, perhaps to be spread over the next windows.
fn pass_over(
    step: &mut Step<'_>,
    state: &mut CampaignState,
    pool: PoolNo,
    window: &PlannedWindow,
    spread: bool,
) -> Result<()> {
    if window.planned.is_empty() {
        return Ok(());
    }
    insert_window(step, state, pool, window, 1)?;
    for (prize, planned) in &window.planned {
        insert_window_prize(step, state, pool, window.start, (*prize, *planned, 0))?;
    }
    if spread {
        let carry = &mut state.schedule(pool)?.carry;
        carry.windows += 1;
        for (prize, units) in &window.planned {
            add(&mut carry.units, *prize, *units);
        }
    }
    let body = Body::Missed {
        pool,
        window: window.start,
        version: state.view.version,
        planned: window.planned.clone(),
        spread,
    };
    step.append(state.no, &body)?;
    Ok(())
}

/// What a window takes over from missed ones: an equal share, rounded up, for each window that they are spread over.
fn carried_share(schedule: &mut ScheduleState, windows_left: u64) -> Quantities {
    let carry = &mut schedule.carry;
    let windows = carry.windows.min(windows_left).max(1);
    let mut share = Quantities::new();
    for (prize, units) in &mut carry.units {
        let part = units.div_ceil(windows);
        *units -= part;
        add(&mut share, *prize, part);
    }
    carry.units.retain(|_, units| *units > 0);
    carry.windows = if carry.units.is_empty() {
        0
    } else {
        windows - 1
    };
    share
}

/// Takes as much of `asked` off stock as there is.
pub(super) fn take_off_stock(state: &mut CampaignState, asked: &Quantities) -> Quantities {
    let mut granted = Quantities::new();
    for (prize, units) in asked {
        let stock = state.stock_mut(*prize);
        let part = stock.remaining.min(*units);
        stock.remaining -= part;
        add(&mut granted, *prize, part);
    }
    granted
}

fn insert_window(
    step: &Step<'_>,
    state: &CampaignState,
    pool: PoolNo,
    window: &PlannedWindow,
    code: u8,
) -> Result<()> {
    step.db
        .prepare_cached(
            "INSERT INTO windows (campaign, pool, start, finish, version, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            state.no,
            pool.0,
            window.start.as_micros(),
            window.end.as_micros(),
            state.view.version,
            code
        ])?;
    Ok(())
}

pub(super) fn insert_window_prize(
    step: &Step<'_>,
    state: &CampaignState,
    pool: PoolNo,
    window: Moment,
    (prize, planned, carried): (PrizeNo, u64, u64),
) -> Result<()> {
    step.db
        .prepare_cached(
            "INSERT OR IGNORE INTO window_prizes (campaign, pool, window, prize, planned, carried, granted, placed, won,
                                        recalled, returned, recall_due, withdraw)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, 0, 0, 0, 0, 0)",
        )?
        .execute(params![
            state.no,
            pool.0,
            window_key(window),
            prize.0,
            planned,
            carried
        ])?;
    Ok(())
}

/// Books granted units on their queues and opens the fill that will put them into the pool.
pub(super) fn open_fill(
    step: &mut Step<'_>,
    state: &mut CampaignState,
    injected: Injected,
    base: u64,
) -> Result<()> {
    let no = state.no;
    let key = window_key(injected.window);
    for (prize, units) in &injected.granted {
        step.db
            .prepare_cached(
                "UPDATE window_prizes SET granted = granted + ?5 WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND prize = ?4",
            )?
            .execute(params![no, injected.pool.0, key, prize.0, units])?;
        count(state, injected.pool, Some(*prize), *units, 0)?;
    }
    if !injected.granted.is_empty() {
        state.touch();
        step.db
            .prepare_cached(
                "INSERT INTO fills (campaign, pool, window, generation, start, finish, base, granted, filled, until, closed)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?5, 0)",
            )?
            .execute(params![
                no,
                injected.pool.0,
                key,
                injected.generation,
                injected.from.as_micros(),
                injected.until.as_micros(),
                base,
                to_json(&injected.granted)
            ])?;
    }
    step.append(no, &Body::Injected(injected))?;
    Ok(())
}

/// Counts units that come to a pool or leave it otherwise than by a draw.
pub(super) fn count(
    state: &mut CampaignState,
    pool: PoolNo,
    prize: Option<PrizeNo>,
    added: u64,
    removed: u64,
) -> Result<()> {
    state.dirty = true;
    let queue = state
        .pool(pool)
        .queues
        .iter_mut()
        .find(|queue| queue.prize == prize)
        .ok_or_else(|| {
            StoreError::Corrupt(format!("pool {} has no queue for {prize:?}", pool.0))
        })?;
    queue.count(added, removed);
    Ok(())
}
