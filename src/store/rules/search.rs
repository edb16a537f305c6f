//! Where a sweep may find units.

use std::collections::BTreeSet;

use crate::{
    model::{Moment, PoolKind, PoolNo, PrizeNo, schedule::Unclaimed},
    store::{Lifecycle, Result, StoreError, Sweep, Unit, fill::CHUNK_UNITS_MAX},
};

use super::state::{Placed, PoolState, Range, RecallDue, ScheduleState, State};

/// Where the units of a sweep may be, in the order in which it takes them.
pub(in crate::store) fn search(state: &State, sweep: Sweep) -> Vec<Range> {
    if !is_possible(state, sweep) {
        return Vec::new();
    }
    match sweep {
        Sweep::Recall { pool, window } => search_recalled(state, pool, window),
        Sweep::Unclaimed { pool } => search_unclaimed(state, pool),
        Sweep::Ending => search_all(state, i64::MAX),
        Sweep::Recovery { until } => search_all(state, until.as_micros()),
    }
}

/// The windows of the found units, each once; cards have none.
pub(in crate::store) fn windows_of(
    state: &State,
    found: &[Placed],
) -> Result<Vec<(PoolNo, Moment)>> {
    let is_scheduled = |placed: &&Placed| state.schedule_of(placed.pool).is_some();
    let windows: BTreeSet<_> = found
        .iter()
        .filter(is_scheduled)
        .map(|placed| Ok((placed.pool, window_start(placed.unit)?)))
        .collect::<Result<_>>()?;
    Ok(windows.into_iter().collect())
}

/// There may be something to take.
pub(super) fn is_possible(state: &State, sweep: Sweep) -> bool {
    let view = &state.view;
    view.lifecycle != Lifecycle::Closed
        && match sweep {
            // Whoever sweeps may have read a version that was replaced, pools and all, before
            // anything was touched.
            Sweep::Recall { pool, .. } | Sweep::Unclaimed { pool } => {
                state.schedule_of(pool).is_some()
            }
            Sweep::Ending => view.has_ended(state.now),
            Sweep::Recovery { .. } => true,
        }
}

/// The moment that names a scheduled unit's window.
pub(super) fn window_start(unit: Unit) -> Result<Moment> {
    let micros = unit.window.checked_mul(1_000_000);
    micros
        .map(Moment::from_micros)
        .ok_or_else(|| StoreError::corrupt(format!("no window is that of {unit:?}")))
}

/// Units that have not been released of a window that is fenced and not filled any more. No other
/// window's are among them.
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

/// Units of prizes that are not held and that nobody took for as long as the schedule says; then of
/// each of these prizes the first unit that will be one of them.
fn search_unclaimed(state: &State, pool: PoolNo) -> Vec<Range> {
    let (Some(until), Some(schedule)) = (unclaimed_until(state, pool), state.schedule_of(pool))
    else {
        return Vec::new();
    };
    let prizes = schedule.planned.iter();
    let prizes = prizes.filter(|prize| !state.is_paused(**prize));
    let all = prizes.map(|prize| everything(pool, Some(*prize)));
    let due = all.clone().map(|range| range.up_to(until));
    let next = all.map(|range| Range {
        from: until + 1,
        limit: 1,
        ..range
    });
    due.chain(next).collect()
}

/// The last release of units that go back to stock now, if the schedule returns what nobody
/// took.
pub(super) fn unclaimed_until(state: &State, pool: PoolNo) -> Option<i64> {
    let PoolKind::Schedule(plan) = &state.view.campaign.pool(pool).kind else {
        return None;
    };
    match plan.unclaimed {
        Unclaimed::ReturnAfter(after) => Some((state.now - after).as_micros()),
        Unclaimed::Keep => None,
    }
}

/// All cards, and all scheduled units that are released until a moment in microseconds.
fn search_all(state: &State, until: i64) -> Vec<Range> {
    let mut ranges = Vec::new();
    for (no, pool) in state.view.campaign.numbered_pools() {
        if let PoolKind::Deck(deck) = &pool.kind {
            ranges.push(everything(no, None));
            ranges.extend(deck.cards.keys().map(|prize| everything(no, Some(*prize))));
        } else if let Some(schedule) = state.schedule_of(no) {
            let prizes = schedule.planned.iter();
            ranges.extend(prizes.map(|prize| everything(no, Some(*prize)).up_to(until)));
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

impl State {
    /// The schedule of this number; none if it is a deck, or not there.
    pub(super) fn schedule_of(&self, no: PoolNo) -> Option<&ScheduleState> {
        match self.pools.get(usize::from(no.0)) {
            Some(PoolState::Schedule(schedule)) => Some(schedule),
            _ => None,
        }
    }
}
