//! Taking units out of pools, chunk by chunk: where they may be found, and what becomes of those that were.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    model::{Moment, PoolKind, PoolNo, PrizeNo, campaign::Quantities, schedule::Unclaimed},
    store::{
        Lifecycle, Result, Sweep, Swept,
        entry::{Body, TakenBackCause, Unit},
        fill::CHUNK_UNITS_MAX,
        view::total,
    },
};

use super::{
    book::{Return, add, subtract},
    state::{Placed, PoolState, Range, RecallDue, ScheduleState, State},
};

const NOTHING: Swept = Swept {
    units: Quantities::new(),
    more: false,
};

/// Where the units of a sweep may be, in the order in which it takes them.
pub(in crate::store) fn search(state: &State, sweep: Sweep) -> Vec<Range> {
    if !is_possible(state, sweep) {
        return Vec::new();
    }
    match sweep {
        Sweep::Recall { pool, window } => search_recalled(state, pool, window),
        Sweep::Unclaimed { pool } => search_unclaimed(state, pool),
        Sweep::Ending => search_all(state),
    }
}

/// The windows of the found units, each once; cards have none.
pub(in crate::store) fn windows_of(state: &State, found: &[Placed]) -> Vec<(PoolNo, Moment)> {
    let is_scheduled = |placed: &&Placed| state.schedule_of(placed.pool).is_some();
    let windows: BTreeSet<_> = found
        .iter()
        .filter(is_scheduled)
        .map(|placed| (placed.pool, window_start(placed.unit)))
        .collect();
    windows.into_iter().collect()
}

/// Takes out what [`search`] led to; the windows of these units must be in the state.
pub(in crate::store) fn sweep(
    state: &mut State,
    sweep: Sweep,
    mut found: Vec<Placed>,
) -> Result<Swept> {
    if !is_possible(state, sweep) {
        return Ok(NOTHING);
    }
    found.truncate(CHUNK_UNITS_MAX);
    match sweep {
        Sweep::Recall { pool, window } => recall(state, pool, window, &found),
        Sweep::Unclaimed { pool } => unclaimed(state, pool, &found),
        Sweep::Ending => ending(state, &found),
    }
}

fn is_possible(state: &State, sweep: Sweep) -> bool {
    let view = &state.view;
    view.lifecycle != Lifecycle::Closed
        && match sweep {
            // Whoever sweeps may have read a version that was replaced, pools and all, before anything was touched.
            Sweep::Recall { pool, .. } | Sweep::Unclaimed { pool } => {
                state.schedule_of(pool).is_some()
            }
            Sweep::Ending => view.has_ended(state.now),
        }
}

/// The moment that names a scheduled unit's window.
fn window_start(unit: Unit) -> Moment {
    Moment::from_micros(unit.window * 1_000_000)
}

/// Units that have not been released of a window that is fenced and not filled any more. No other window's are among them.
fn search_recalled(state: &State, pool: PoolNo, start: Moment) -> Vec<Range> {
    let window = state.schedule_of(pool).and_then(|s| s.windows.get(&start));
    let Some(window) = window.filter(|window| !window.is_filling()) else {
        return Vec::new();
    };
    let due = window.prizes.iter();
    let due = due.filter(|(_, units)| units.recall_due != RecallDue::None);
    due.map(|(prize, units)| Range {
        pool,
        prize: Some(*prize),
        from: start.as_micros().max(state.now.as_micros() + 1),
        to: window.end.as_micros() - 1,
        descending: true,
        limit: units.recall_due.at_most(CHUNK_UNITS_MAX),
    })
    .collect()
}

/// Units of prizes that are not held and that nobody took for as long as the schedule says.
fn search_unclaimed(state: &State, pool: PoolNo) -> Vec<Range> {
    let PoolKind::Schedule(plan) = &state.view.campaign.pool(pool).kind else {
        return Vec::new();
    };
    let (Unclaimed::ReturnAfter(after), Some(schedule)) = (plan.unclaimed, state.schedule_of(pool))
    else {
        return Vec::new();
    };
    let prizes = schedule.planned.iter();
    let prizes = prizes.filter(|prize| !state.is_paused(**prize));
    let to = (state.now - after).as_micros();
    prizes
        .map(|prize| everything(pool, Some(*prize)).up_to(to))
        .collect()
}

fn search_all(state: &State) -> Vec<Range> {
    let mut ranges = Vec::new();
    for (no, pool) in state.view.campaign.numbered_pools() {
        if let PoolKind::Deck(deck) = &pool.kind {
            ranges.push(everything(no, None));
            ranges.extend(deck.cards.keys().map(|prize| everything(no, Some(*prize))));
        } else if let Some(schedule) = state.schedule_of(no) {
            let prizes = schedule.planned.iter();
            ranges.extend(prizes.map(|prize| everything(no, Some(*prize))));
        }
    }
    ranges
}

fn everything(pool: PoolNo, prize: Option<PrizeNo>) -> Range {
    Range {
        pool,
        prize,
        from: i64::MIN,
        to: i64::MAX,
        descending: false,
        limit: CHUNK_UNITS_MAX,
    }
}

impl Range {
    fn up_to(self, to: i64) -> Self {
        Self { to, ..self }
    }
}

fn recall(state: &mut State, pool: PoolNo, start: Moment, found: &[Placed]) -> Result<Swept> {
    let schedule = state.schedule(pool)?;
    let Some(window) = schedule.windows.get(&start) else {
        return Ok(NOTHING);
    };
    if window.is_filling() {
        return Ok(Swept {
            more: true,
            ..NOTHING
        });
    }
    if !window.is_recalling() {
        return Ok(NOTHING);
    }
    let mut taken = Vec::new();
    let mut room = CHUNK_UNITS_MAX;
    let mut more = false;
    for (prize, units) in &mut schedule.window(start)?.prizes {
        if units.recall_due == RecallDue::None {
            continue;
        }
        let count = found
            .iter()
            .filter(|placed| placed.prize == Some(*prize))
            .count();
        units.recall_due = if count < units.recall_due.at_most(room) {
            RecallDue::None
        } else {
            units.recall_due.less(count as u64)
        };
        units.recalled += count as u64;
        more |= units.recall_due != RecallDue::None;
        if count > 0 {
            taken.push((*prize, count as u64, units.withdraw));
        }
        room -= count;
    }
    state.changes.units_out.extend(found);
    let mut units = Quantities::new();
    for (prize, count, withdraw) in taken {
        subtract(&mut state.schedule(pool)?.injected, prize, count);
        let back = Return {
            pool,
            cause: TakenBackCause::Recalled,
            withdraw,
        };
        add(&mut units, prize, count);
        state.give_back(&back, Quantities::from([(prize, count)]))?;
    }
    Ok(Swept { units, more })
}

fn unclaimed(state: &mut State, pool: PoolNo, found: &[Placed]) -> Result<Swept> {
    let units = book_returns(state, found)?
        .remove(&pool)
        .unwrap_or_default();
    for (prize, count) in &units {
        let back = Return {
            pool,
            cause: TakenBackCause::Unclaimed,
            withdraw: false,
        };
        state.give_back(&back, Quantities::from([(*prize, *count)]))?;
    }
    let more = total(&units) == CHUNK_UNITS_MAX as u64;
    Ok(Swept { units, more })
}

fn ending(state: &mut State, found: &[Placed]) -> Result<Swept> {
    truncate_all(state)?;
    let mut units = Quantities::new();
    for (pool, part) in book_returns(state, found)? {
        for (prize, count) in &part {
            add(&mut units, *prize, *count);
        }
        let back = Return {
            pool,
            cause: TakenBackCause::Ended,
            withdraw: false,
        };
        state.give_back(&back, part)?;
    }
    if found.is_empty() {
        state.view.lifecycle = Lifecycle::Closed;
        state.changes.entries.push(Body::Closed {});
    }
    Ok(Swept {
        units,
        more: !found.is_empty(),
    })
}

fn truncate_all(state: &mut State) -> Result<()> {
    let mut open = Vec::new();
    for (no, pool) in (0..).map(PoolNo).zip(&state.pools) {
        if let PoolState::Schedule(schedule) = pool {
            let windows = schedule.windows.iter();
            let filling = windows.filter(|(_, window)| window.is_filling());
            open.extend(filling.map(|(start, _)| (no, *start)));
        }
    }
    for (pool, start) in open {
        state.truncate_fills(pool, start)?;
    }
    Ok(())
}

/// Takes units out, those of schedules from their windows too: as returned where they were released, else as recalled. Tells the
/// prizes' units by pool; blanks are booked already.
fn book_returns(state: &mut State, found: &[Placed]) -> Result<BTreeMap<PoolNo, Quantities>> {
    let mut by_pool = BTreeMap::<PoolNo, Quantities>::new();
    let now = state.now.as_micros();
    for placed in found {
        let Some(prize) = placed.prize else {
            state.count(placed.pool, None, -1);
            continue;
        };
        add(by_pool.entry(placed.pool).or_default(), prize, 1);
        if state.schedule_of(placed.pool).is_none() {
            continue;
        }
        let schedule = state.schedule(placed.pool)?;
        let window = schedule.window(window_start(placed.unit))?;
        let units = window.prizes.entry(prize).or_default();
        if placed.score <= now {
            units.returned += 1;
            add(&mut schedule.returned, prize, 1);
        } else {
            units.recalled += 1;
            subtract(&mut schedule.injected, prize, 1);
        }
    }
    state.changes.units_out.extend(found);
    Ok(by_pool)
}

impl State {
    /// The schedule of this number; none where it is a deck, or not there.
    fn schedule_of(&self, no: PoolNo) -> Option<&ScheduleState> {
        match self.pools.get(usize::from(no.0)) {
            Some(PoolState::Schedule(schedule)) => Some(schedule),
            _ => None,
        }
    }
}

impl RecallDue {
    /// So many units, bounded.
    fn at_most(self, bound: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Units(due) => usize::try_from(due).unwrap_or(usize::MAX).min(bound),
            Self::All => bound,
        }
    }

    /// What is due after so many units were taken back.
    fn less(self, units: u64) -> Self {
        match self {
            Self::Units(due) if due > units => Self::Units(due - units),
            Self::All => Self::All,
            Self::None | Self::Units(_) => Self::None,
        }
    }
}
