//! Putting the units of a frozen window into its pool, chunk by chunk; closing a fill before its end.

use rusqlite::{OptionalExtension, params};

use super::{
    apply::window_key,
    freeze::count,
    job::Command,
    state::{CampaignState, add},
    step::{Step, from_json},
    units::{self, Waiting},
};
use crate::{
    model::{PoolNo, PrizeNo, campaign::Quantities},
    store::{
        FillCommand, Filled, Result, StoreError,
        entry::{Body, TakenBackCause, Unit},
        fill::CHUNK_UNITS_MAX,
        view::total,
    },
};

impl Command for FillCommand {
    type Reply = Filled;

    fn run(&self, step: &mut Step<'_>) -> Result<Filled> {
        step.with(&self.campaign, |step, state| fill(self, step, state))
    }
}

fn fill(command: &FillCommand, step: &mut Step<'_>, state: &mut CampaignState) -> Result<Filled> {
    let key = window_key(command.window);
    let place = params![state.no, command.pool.0, key, command.generation];
    let found: Option<(u64, u64, String, bool)> = step
        .db
        .prepare_cached(
            "SELECT filled, base, granted, closed FROM fills WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND generation = ?4",
        )?
        .query_row(place, |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let Some((filled, base, granted, closed)) = found else {
        return Ok(Filled::Closed);
    };
    if closed || state.view.has_ended(step.now) {
        return Ok(Filled::Closed);
    }
    if filled != command.filled {
        return Ok(Filled::Reached(filled));
    }
    let all = total(&from_json::<Quantities>(&granted)?);
    let reached = filled + command.units.len() as u64;
    if command.units.len() > CHUNK_UNITS_MAX || reached > all {
        return Err(StoreError::Corrupt("a chunk does not fit its fill".into()));
    }
    let no = state.no;
    let mut placed = Quantities::new();
    for queue in &mut state.pool(command.pool).queues {
        queue.delete_taken(step.db, no, command.pool)?;
        queue.reread();
    }
    for (number, release) in (base + filled..).zip(&command.units) {
        let waiting = Waiting {
            score: units::score(release.at),
            unit: Unit {
                window: key,
                number,
            },
        };
        units::insert(step.db, no, command.pool, Some(release.prize), waiting)?;
        add(&mut placed, release.prize, 1);
    }
    for (prize, units) in placed {
        step.db
            .prepare_cached(
                "UPDATE window_prizes SET placed = placed + ?5 WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND prize = ?4",
            )?
            .execute(params![no, command.pool.0, key, prize.0, units])?;
    }
    step.db
        .prepare_cached(
            "UPDATE fills SET filled = ?5, until = ?6, closed = ?7
             WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND generation = ?4",
        )?
        .execute(params![
            no,
            command.pool.0,
            key,
            command.generation,
            reached,
            command.until.as_micros(),
            reached == all
        ])?;
    state
        .schedule(command.pool)?
        .refresh(step.db, no, command.pool)?;
    Ok(Filled::Reached(reached))
}

/// Closes the open fills of a window (of all windows where none is named); what they have not put into the pool goes back.
pub(super) fn truncate_fills(
    step: &mut Step<'_>,
    state: &mut CampaignState,
    pool: PoolNo,
    window: Option<i64>,
) -> Result<()> {
    let no = state.no;
    let rows: Vec<(i64, u16, u64, bool)> = {
        let mut statement = step.db.prepare_cached(
            "SELECT window, prize, granted - placed, withdraw FROM window_prizes
             WHERE campaign = ?1 AND pool = ?2 AND granted > placed AND (?3 IS NULL OR window = ?3)
             AND window IN (SELECT window FROM fills WHERE campaign = ?1 AND pool = ?2 AND closed = 0)",
        )?;
        let rows = statement.query_map(params![no, pool.0, window], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    for (window, prize, units, withdraw) in rows {
        step.db
            .prepare_cached(
                "UPDATE window_prizes SET placed = granted, recalled = recalled + ?5
                 WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND prize = ?4",
            )?
            .execute(params![no, pool.0, window, prize, units])?;
        let prize = PrizeNo(prize);
        give_back(state, pool, Some(prize), units, withdraw)?;
        let body = Body::TakenBack {
            pool,
            cause: TakenBackCause::Recalled,
            units: Quantities::from([(prize, units)]),
            withdrawn: withdraw,
        };
        step.append(no, &body)?;
    }
    step.db
        .prepare_cached(
            "UPDATE fills SET closed = 1
             WHERE campaign = ?1 AND pool = ?2 AND (?3 IS NULL OR window = ?3) AND closed = 0",
        )?
        .execute(params![no, pool.0, window])?;
    state.schedule(pool)?.refresh(step.db, no, pool)
}

/// Units leave a pool for stock, or for good.
pub(super) fn give_back(
    state: &mut CampaignState,
    pool: PoolNo,
    prize: Option<PrizeNo>,
    units: u64,
    withdraw: bool,
) -> Result<()> {
    count(state, pool, prize, 0, units)?;
    if let Some(prize) = prize {
        let stock = state.stock_mut(prize);
        if withdraw {
            stock.withdrawn += units;
        } else {
            stock.remaining += units;
            stock.returned += units;
        }
    }
    Ok(())
}
