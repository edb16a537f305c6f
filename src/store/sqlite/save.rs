//! Writing what a rule has changed.

use rusqlite::{Connection, params};

use super::{
    codes::save_codes,
    columns::to_json,
    deliveries::save_delivery,
    removal::save_closed,
    state::{CampaignState, Pool, Stock},
    step::Step,
    units,
    users::{block, unblock},
};
use crate::{
    model::{Moment, OperatorId, PoolNo, RequestId, convert},
    store::{
        CampaignView, LedgerId, Result, StoreError,
        rules::{self, Changes, Placed, PoolState, ScheduleState, Waiting},
    },
};

/// Writes a campaign as a rule has left it, and brings the writer's memory to the same; returns the
/// last entry of the ledger.
pub(super) fn save(
    step: &mut Step<'_>,
    campaign: &mut CampaignState,
    state: rules::State,
) -> Result<Option<LedgerId>> {
    let due = rules::due(&state);
    save_due(step.db, campaign.no, due)?;
    if due.is_none() {
        let is_act = !state.changes.entries.is_empty();
        save_closed(step.db, campaign.no, step.now, is_act)?;
    }
    let changes = state.changes;
    if changes.is_anew {
        clear(step.db, campaign)?;
    }
    save_view(step, campaign, state.view, &changes)?;
    save_stock(campaign, &state.stock);
    for (no, pool) in (0..).map(PoolNo).zip(state.pools) {
        save_pool(step.db, campaign, no, pool)?;
    }
    move_units(step.db, campaign, &changes)?;
    for change in &changes.users {
        step.save_user(campaign.no, &change.user, &change.after)?;
        campaign.users += u64::from(change.before.is_none());
        campaign.dirty = true;
    }
    block(step.db, campaign.no, &changes.blocked)?;
    unblock(step.db, campaign.no, &changes.unblocked)?;
    if let Some(codes) = &changes.codes {
        save_codes(step.db, campaign.no, codes)?;
    }
    if let Some(delivery) = &changes.delivery {
        save_delivery(step.db, campaign.no, delivery)?;
    }
    let mut last = None;
    for body in &changes.entries {
        last = Some(step.append(campaign, body)?);
    }
    if let (Some(request), Some(ledger)) = (&changes.request, last) {
        remember(step.db, campaign.no, request, ledger)?;
    }
    Ok(last)
}

/// Writes when the injector finds the campaign next.
pub(super) fn save_due(db: &Connection, campaign: i64, due: Option<Moment>) -> Result<()> {
    db.prepare_cached("UPDATE campaigns SET due = ?2 WHERE no = ?1 AND due IS NOT ?2")?
        .execute(params![campaign, due.map(Moment::as_micros)])?;
    Ok(())
}

/// Removes what was laid out of a campaign that nothing has happened to.
fn clear(db: &Connection, campaign: &mut CampaignState) -> Result<()> {
    for table in ["stock", "queues", "pools", "windows", "window_wins"] {
        db.execute(
            &format!("DELETE FROM {table} WHERE campaign = ?1"),
            [campaign.no],
        )?;
    }
    campaign.stock.clear();
    campaign.pools.clear();
    campaign.window_wins.clear();
    Ok(())
}

fn save_view(
    step: &mut Step<'_>,
    campaign: &mut CampaignState,
    view: CampaignView,
    changes: &Changes,
) -> Result<()> {
    let has_turned = view.lifecycle != campaign.view.lifecycle;
    campaign.dirty |= view.touched != campaign.view.touched;
    campaign.view = view;
    if changes.is_new_version {
        save_version(step.db, campaign)?;
    }
    if changes.request.is_none() && !has_turned {
        return Ok(());
    }
    let view = &campaign.view;
    step.db
        .prepare_cached(
            "UPDATE campaigns SET version = ?2, lifecycle = ?3, paused_prizes = ?4,
                                  blocked_users = ?5, holds = ?6
             WHERE no = ?1",
        )?
        .execute(params![
            campaign.no,
            view.version,
            view.lifecycle.code(),
            to_json(&view.paused_prizes.as_ref()),
            view.blocked_users,
            to_json(&view.holds.as_ref())
        ])?;
    step.changed(campaign);
    Ok(())
}

fn save_version(db: &Connection, campaign: &CampaignState) -> Result<()> {
    let view = &campaign.view;
    let info = view.versions.last();
    let info = info.ok_or_else(|| StoreError::corrupt("a version was made that is not listed"))?;
    db.prepare_cached(
        "INSERT INTO versions (campaign, version, at, operator, reason, definition, proposed_by)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        campaign.no,
        info.version,
        info.at.as_micros(),
        info.operator.as_str(),
        info.reason,
        convert::encode(&view.campaign),
        info.proposed_by.as_ref().map(OperatorId::as_str)
    ])?;
    Ok(())
}

/// Notes the stock; it is written at the end of the batch.
fn save_stock(campaign: &mut CampaignState, stock: &[rules::Stock]) {
    let before = campaign.stock.len();
    campaign.stock.resize_with(stock.len(), Stock::default);
    for (index, (known, units)) in campaign.stock.iter_mut().zip(stock).enumerate() {
        if index >= before || known.units != *units {
            known.units = *units;
            known.dirty = true;
            campaign.dirty = true;
        }
    }
}

fn save_pool(
    db: &Connection,
    campaign: &mut CampaignState,
    no: PoolNo,
    mut pool: PoolState,
) -> Result<()> {
    let mut filled_until = Moment::EPOCH;
    if let PoolState::Schedule(schedule) = &mut pool {
        filled_until = schedule.filled_until();
        save_windows(db, campaign.no, no, schedule)?;
    }
    let index = usize::from(no.0);
    let is_new = index >= campaign.pools.len();
    if is_new || campaign.pools[index].known != pool {
        db.prepare_cached(
            "INSERT OR REPLACE INTO pools (campaign, pool, state) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![campaign.no, no.0, to_json(&pool)])?;
    }
    if is_new {
        let definition = &campaign.view.campaign;
        let pool = Pool::new(definition, no, pool, Vec::new());
        campaign.pools.push(pool);
    } else {
        campaign.pools[index].known = pool;
    }
    campaign.pools[index].filled_until = filled_until;
    Ok(())
}

/// Writes the windows that were changed; none stays in memory.
fn save_windows(
    db: &Connection,
    campaign: i64,
    pool: PoolNo,
    schedule: &mut ScheduleState,
) -> Result<()> {
    for (start, window) in std::mem::take(&mut schedule.windows) {
        if !window.is_changed {
            continue;
        }
        db.prepare_cached(
            "INSERT OR REPLACE INTO windows (campaign, pool, start, finish, is_open, record)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            campaign,
            pool.0,
            start.as_micros(),
            window.end.as_micros(),
            window.is_open(),
            to_json(&window)
        ])?;
    }
    Ok(())
}

fn move_units(db: &Connection, campaign: &mut CampaignState, changes: &Changes) -> Result<()> {
    for ((pool, prize), units) in &changes.waiting {
        campaign.dirty = true;
        campaign.queue(*pool, *prize).count(*units)?;
    }
    let no = campaign.no;
    for placed in changes.units_in.iter().chain(&changes.units_out) {
        let queue = campaign.queue(placed.pool, placed.prize);
        queue.delete_taken(db, no, placed.pool)?;
        queue.reread();
    }
    for placed in &changes.units_in {
        units::insert(db, no, placed.pool, placed.prize, waiting(placed))?;
    }
    for placed in &changes.units_out {
        units::remove(db, no, placed.pool, placed.prize, waiting(placed))?;
    }
    Ok(())
}

fn waiting(placed: &Placed) -> Waiting {
    Waiting {
        score: placed.score,
        unit: placed.unit,
    }
}

/// Remembers an operation under its request id.
fn remember(db: &Connection, campaign: i64, request: &RequestId, ledger: LedgerId) -> Result<()> {
    db.prepare_cached("INSERT INTO operations (campaign, request, sequence) VALUES (?1, ?2, ?3)")?
        .execute(params![campaign, request.as_str(), ledger.sequence])?;
    Ok(())
}
