//! Filling pools: freeze windows, adjust them to a new plan, put units in, deal cards. Every step is fenced.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::{
    apply::window_key,
    job::Command,
    state::{CampaignState, PoolStateKind, add},
    step::{Step, from_json, scalar, to_json},
    units::{self, Waiting},
};
use crate::{
    model::{Moment, PoolKind, PoolNo, PrizeNo, campaign::Quantities, schedule::Missed},
    store::{
        AdjustCommand, DealCommand, FillCommand, Filled, FreezeCommand, Result, Step as Outcome,
        StoreError,
        entry::{Body, Injected, TakenBackCause, Unit},
        fill::{CHUNK_UNITS_MAX, FREEZE_WINDOWS_MAX, PlannedWindow},
        view::total,
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
fn carried_share(schedule: &mut super::state::ScheduleState, windows_left: u64) -> Quantities {
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
fn take_off_stock(state: &mut CampaignState, asked: &Quantities) -> Quantities {
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

fn insert_window_prize(
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
fn open_fill(
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

impl Command for DealCommand {
    type Reply = Outcome;

    fn run(&self, step: &mut Step<'_>) -> Result<Outcome> {
        step.with(&self.campaign, |step, state| deal(self, step, state))
    }
}

fn deal(command: &DealCommand, step: &mut Step<'_>, state: &mut CampaignState) -> Result<Outcome> {
    let no = state.no;
    let pool = command.pool;
    let ended = state.view.has_ended(step.now);
    let mut granted = Quantities::new();
    for prize in command.cards.iter().flatten() {
        add(&mut granted, *prize, 1);
    }
    let in_stock = granted
        .iter()
        .all(|(prize, cards)| state.stock[usize::from(prize.0)].remaining >= *cards);
    let PoolStateKind::Deck(deck) = &mut state.pool(pool).kind else {
        return Err(StoreError::Corrupt(format!("pool {} is no deck", pool.0)));
    };
    if (deck.round, deck.chunk) != command.expected || ended {
        return Ok(Outcome::Stale);
    }
    if command.cards.is_empty() || command.cards.len() > CHUNK_UNITS_MAX {
        return Err(StoreError::Corrupt(
            "a chunk of cards is empty or too large".into(),
        ));
    }
    if !in_stock {
        deck.short = Some(granted);
        deck.save(step.db, no, pool)?;
        return Ok(Outcome::Done);
    }
    let first_number = command_round_base(deck, command);
    let first_score = deck.dealt + 1;
    deck.short = None;
    deck.round = command.round;
    deck.chunk = command.chunk + 1;
    deck.dealt += command.cards.len() as i64;
    deck.remaining.clone_from(&command.remaining);
    deck.save(step.db, no, pool)?;
    for queue in &mut state.pool(pool).queues {
        queue.delete_taken(step.db, no, pool)?;
        queue.reread();
    }
    for ((score, number), prize) in (first_score..).zip(first_number..).zip(&command.cards) {
        let unit = Unit {
            window: command.round as i64,
            number,
        };
        units::insert(step.db, no, pool, *prize, Waiting { score, unit })?;
    }
    take_off_stock(state, &granted);
    let blanks = command.cards.iter().filter(|card| card.is_none()).count() as u64;
    for (prize, cards) in &granted {
        count(state, pool, Some(*prize), *cards, 0)?;
    }
    if blanks > 0 {
        count(state, pool, None, blanks, 0)?;
    }
    state.touch();
    let body = Body::Dealt {
        pool,
        round: command.round,
        chunk: command.chunk,
        granted,
        blanks,
    };
    step.append(no, &body)?;
    Ok(Outcome::Done)
}

/// The place in its round of a chunk's first card.
fn command_round_base(deck: &super::state::DeckState, command: &DealCommand) -> u64 {
    if command.round != deck.round {
        return 0;
    }
    let left: u64 = deck.remaining.iter().map(|kind| kind.cards).sum();
    command.round_cards - left
}
