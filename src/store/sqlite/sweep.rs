//! Taking units out of pools, chunk by chunk; forgetting old requests.

use std::{collections::BTreeMap, sync::Arc};

use rusqlite::params;

use super::{
    apply::window_key,
    fill::{give_back, truncate_fills},
    job::Command,
    operate::{RECALL_ALL, save_lifecycle},
    state::{CampaignState, add},
    step::{Step, entry_columns, read_entry, scalar},
    units::{self, Waiting, prize_of_slot},
};
use crate::{
    model::{
        CampaignId, Moment, PoolKind, PoolNo, PrizeNo, campaign::Quantities, schedule::Unclaimed,
    },
    store::{
        Lifecycle, Result, Sweep, Swept,
        entry::{Body, TakenBackCause, Unit},
        fill::CHUNK_UNITS_MAX,
        view::total,
    },
};

/// A sweep of one campaign.
pub(super) struct SweepCommand {
    pub(super) campaign: CampaignId,
    pub(super) sweep: Sweep,
}

impl Command for SweepCommand {
    type Reply = Swept;

    fn run(&self, step: &mut Step<'_>) -> Result<Swept> {
        step.with(&self.campaign, |step, state| {
            if state.view.lifecycle == Lifecycle::Closed {
                return Ok(NOTHING);
            }
            // Whoever sweeps may have read a version that was replaced, pools and all, before anything was touched.
            if let Sweep::Recall { pool, .. } | Sweep::Unclaimed { pool } = self.sweep
                && usize::from(pool.0) >= state.pools.len()
            {
                return Ok(NOTHING);
            }
            state.flush(step.db)?;
            match self.sweep {
                Sweep::Recall { pool, window } => recall(step, state, pool, window),
                Sweep::Unclaimed { pool } => unclaimed(step, state, pool),
                Sweep::Ending => ending(step, state),
            }
        })
    }
}

const NOTHING: Swept = Swept {
    units: Quantities::new(),
    more: false,
};

/// A unit with its place.
struct Placed {
    pool: PoolNo,
    prize: Option<PrizeNo>,
    waiting: Waiting,
}

fn find(step: &Step<'_>, sql: &str, params: impl rusqlite::Params) -> Result<Vec<Placed>> {
    let mut statement = step.db.prepare_cached(sql)?;
    let rows = statement.query_map(params, |row| {
        Ok(Placed {
            pool: PoolNo(row.get(0)?),
            prize: prize_of_slot(row.get(1)?),
            waiting: Waiting {
                score: row.get(2)?,
                unit: Unit {
                    window: row.get(3)?,
                    number: row.get(4)?,
                },
            },
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn recall(
    step: &mut Step<'_>,
    state: &mut CampaignState,
    pool: PoolNo,
    window: Moment,
) -> Result<Swept> {
    let key = window_key(window);
    let place = params![state.no, pool.0, key];
    let filling: bool = scalar(
        step.db,
        "SELECT EXISTS (SELECT 1 FROM fills WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND closed = 0)",
        place,
    )?;
    if filling {
        return Ok(Swept {
            more: true,
            ..NOTHING
        });
    }
    let due: Vec<(u16, i64, bool)> = {
        let mut statement = step.db.prepare_cached(
            "SELECT prize, recall_due, withdraw FROM window_prizes
             WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND recall_due > 0",
        )?;
        let rows = statement.query_map(place, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    let mut taken = Quantities::new();
    let mut more = false;
    for (prize, recall_due, withdraw) in due {
        let room = (CHUNK_UNITS_MAX as u64).saturating_sub(total(&taken));
        let limit = room.min(recall_due.unsigned_abs());
        let found = find(
            step,
            "SELECT pool, prize, score, window, number FROM units
             WHERE campaign = ?1 AND pool = ?2 AND prize = ?3 AND score > ?4 AND window = ?5
             ORDER BY score DESC, number DESC LIMIT ?6",
            params![state.no, pool.0, prize, step.now.as_micros(), key, limit],
        )?;
        let units = found.len() as u64;
        let left = if units < room.min(recall_due.unsigned_abs()) || recall_due == units as i64 {
            0
        } else if recall_due == RECALL_ALL {
            RECALL_ALL
        } else {
            recall_due - units as i64
        };
        more |= left > 0;
        step.db
            .prepare_cached(
                "UPDATE window_prizes SET recalled = recalled + ?5, recall_due = ?6
                 WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND prize = ?4",
            )?
            .execute(params![state.no, pool.0, key, prize, units, left])?;
        remove(step, state, &found, TakenBackCause::Recalled, withdraw)?;
        add(&mut taken, PrizeNo(prize), units);
    }
    Ok(Swept { units: taken, more })
}

/// Takes units out of pools, to stock or for good, with one entry a pool.
fn remove(
    step: &mut Step<'_>,
    state: &mut CampaignState,
    found: &[Placed],
    cause: TakenBackCause,
    withdraw: bool,
) -> Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let mut by_queue = BTreeMap::<(PoolNo, Option<PrizeNo>), u64>::new();
    for placed in found {
        units::remove(step.db, state.no, placed.pool, placed.prize, placed.waiting)?;
        *by_queue.entry((placed.pool, placed.prize)).or_default() += 1;
    }
    let mut by_pool = BTreeMap::<PoolNo, Quantities>::new();
    for ((pool, prize), units) in by_queue {
        give_back(state, pool, prize, units, withdraw)?;
        if let Some(prize) = prize {
            add(by_pool.entry(pool).or_default(), prize, units);
        }
    }
    for pool in &mut state.pools {
        for queue in &mut pool.queues {
            queue.reread();
        }
    }
    for (pool, units) in by_pool {
        let body = Body::TakenBack {
            pool,
            cause,
            units,
            withdrawn: withdraw,
        };
        step.append(state.no, &body)?;
    }
    Ok(())
}

fn unclaimed(step: &mut Step<'_>, state: &mut CampaignState, pool: PoolNo) -> Result<Swept> {
    let PoolKind::Schedule(schedule) = &state.view.campaign.pool(pool).kind else {
        return Ok(NOTHING);
    };
    let Unclaimed::ReturnAfter(after) = schedule.unclaimed else {
        return Ok(NOTHING);
    };
    let oldest = step.now - after;
    let held = Arc::clone(&state.view.paused_prizes);
    let prizes: Vec<PrizeNo> = state
        .pool(pool)
        .queues
        .iter()
        .filter_map(|queue| queue.prize)
        .filter(|prize| !held.contains(prize))
        .collect();
    let mut taken = Quantities::new();
    for prize in prizes {
        let room = CHUNK_UNITS_MAX as u64 - total(&taken);
        let found = find(
            step,
            "SELECT pool, prize, score, window, number FROM units
             WHERE campaign = ?1 AND pool = ?2 AND prize = ?3 AND score <= ?4
             ORDER BY score LIMIT ?5",
            params![state.no, pool.0, prize.0, oldest.as_micros(), room],
        )?;
        book_returns(step, state, &found)?;
        remove(step, state, &found, TakenBackCause::Unclaimed, false)?;
        add(&mut taken, prize, found.len() as u64);
    }
    let more = total(&taken) == CHUNK_UNITS_MAX as u64;
    Ok(Swept { units: taken, more })
}

/// Books units of schedules that go back on their windows: returned where they were released, else recalled.
fn book_returns(step: &Step<'_>, state: &CampaignState, found: &[Placed]) -> Result<()> {
    let mut by_window = BTreeMap::<(PoolNo, i64, PrizeNo), (u64, u64)>::new();
    for placed in found {
        let Some(prize) = placed.prize else { continue };
        let place = (placed.pool, placed.waiting.unit.window, prize);
        let (returned, recalled) = by_window.entry(place).or_default();
        if placed.waiting.score <= step.now.as_micros() {
            *returned += 1;
        } else {
            *recalled += 1;
        }
    }
    for ((pool, window, prize), (returned, recalled)) in by_window {
        step.db
            .prepare_cached(
                "UPDATE window_prizes SET returned = returned + ?5, recalled = recalled + ?6
                 WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND prize = ?4",
            )?
            .execute(params![
                state.no, pool.0, window, prize.0, returned, recalled
            ])?;
    }
    Ok(())
}

fn ending(step: &mut Step<'_>, state: &mut CampaignState) -> Result<Swept> {
    if !state.view.has_ended(step.now) {
        return Ok(NOTHING);
    }
    let campaign = state.view.campaign.clone();
    for (pool_no, pool) in campaign.numbered_pools() {
        if matches!(pool.kind, PoolKind::Schedule(_)) {
            truncate_fills(step, state, pool_no, None)?;
        }
    }
    let found = find(
        step,
        "SELECT pool, prize, score, window, number FROM units WHERE campaign = ?1 LIMIT ?2",
        params![state.no, CHUNK_UNITS_MAX],
    )?;
    let mut taken = Quantities::new();
    for placed in &found {
        if let Some(prize) = placed.prize {
            add(&mut taken, prize, 1);
        }
    }
    // A deck's cards have no windows: of them this books nothing.
    book_returns(step, state, &found)?;
    remove(step, state, &found, TakenBackCause::Ended, false)?;
    if found.is_empty() {
        save_lifecycle(step, state, Lifecycle::Closed)?;
        step.append(state.no, &Body::Closed {})?;
        step.changed(state);
    }
    Ok(Swept {
        units: taken,
        more: !found.is_empty(),
    })
}

/// Forgets requests that are older than the memory.
pub(super) struct ForgetCommand;

impl Command for ForgetCommand {
    type Reply = bool;

    fn run(&self, step: &mut Step<'_>) -> Result<bool> {
        let from: u64 = scalar(
            step.db,
            "SELECT COALESCE((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'forgotten'), 0)",
            [],
        )?;
        let oldest = step.now - step.core.request_memory;
        let entries: Vec<_> = {
            let mut statement = step.db.prepare_cached(
                "SELECT sequence, at, body, (SELECT id FROM campaigns WHERE no = campaign), campaign FROM ledger
                 WHERE sequence > ?1 ORDER BY sequence LIMIT ?2",
            )?;
            let rows = statement.query_map(params![from, CHUNK_UNITS_MAX], |row| {
                Ok((entry_columns(row)?, row.get::<_, i64>(4)?))
            })?;
            // The ledger is in order of time: the first entry that is remembered ends the search.
            rows.take_while(|row| row.as_ref().map_or(true, |((_, at, ..), _)| *at < oldest))
                .collect::<rusqlite::Result<_>>()?
        };
        let more = entries.len() == CHUNK_UNITS_MAX;
        let Some(((last, ..), _)) = entries.last() else {
            return Ok(false);
        };
        step.db
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES ('forgotten', ?1)")?
            .execute([last.to_string()])?;
        for (columns, campaign) in entries {
            let entry = read_entry(columns)?;
            if let Body::Draw(draw) = entry.body {
                step.db
                    .prepare_cached(
                        "DELETE FROM users WHERE campaign = ?1 AND user = ?2 AND request = ?3 AND sequence = ?4",
                    )?
                    .execute(params![
                        campaign,
                        draw.user.as_str(),
                        draw.request.as_str(),
                        entry.id.sequence
                    ])?;
            }
        }
        Ok(more)
    }
}
