//! Operations on a single win, and what became of it.

use rusqlite::{Connection, OptionalExtension, params};

use super::{
    columns::{from_json, to_json},
    commands::replay_of,
    job::Command,
    load::load,
    save::save,
    state::CampaignState,
    step::Step,
};
use crate::{
    model::PoolNo,
    store::{
        Delivery, Result, Unit, WinCommand, WinOperated,
        rules::{self, KnownWin},
    },
};

impl Command for WinCommand {
    type Reply = WinOperated;

    fn run(&self, step: &mut Step<'_>) -> Result<WinOperated> {
        step.with(&self.campaign, |step, campaign| {
            operate_win(self, step, campaign)
        })
    }
}

fn operate_win(
    command: &WinCommand,
    step: &mut Step<'_>,
    campaign: &mut CampaignState,
) -> Result<WinOperated> {
    let win = &command.win;
    let won = campaign.stock.get(usize::from(win.prize.0));
    let known = KnownWin {
        won: won.map_or(0, |stock| stock.won),
        delivery: delivery(step.db, campaign.no, win.pool, win.unit)?,
    };
    let replayed = replay_of(step.db, campaign, &command.author.request, |body| {
        rules::is_same_win_operation(body, command)
    })?;
    if replayed.is_some() {
        return known.replay();
    }
    let mut state = load(step.db, campaign, step.now, &[])?;
    let operated = rules::operate_win(&mut state, command, known)?;
    save(step, campaign, state)?;
    Ok(operated)
}

/// What became of a win; none while it is pending.
pub(super) fn delivery(
    db: &Connection,
    campaign: i64,
    pool: PoolNo,
    unit: Unit,
) -> Result<Option<Delivery>> {
    let record: Option<String> = db
        .prepare_cached(
            "SELECT record FROM deliveries
             WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND number = ?4 AND fork = ?5",
        )?
        .query_row(
            params![campaign, pool.0, unit.window, unit.number, unit.fork],
            |row| row.get(0),
        )
        .optional()?;
    record.as_deref().map(from_json).transpose()
}

/// Writes what became of a win.
pub(super) fn save_delivery(
    db: &Connection,
    campaign: i64,
    (pool, unit, delivery): &(PoolNo, Unit, Delivery),
) -> Result<()> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO deliveries (campaign, pool, window, number, fork, record)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        campaign,
        pool.0,
        unit.window,
        unit.number,
        unit.fork,
        to_json(delivery)
    ])?;
    Ok(())
}
