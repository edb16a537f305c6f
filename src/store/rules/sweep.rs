//! Taking units out of pools, chunk by chunk: what becomes of those that a search has found.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use crate::{
    model::{Moment, PoolNo, Quantities},
    store::{
        Lifecycle, Result, Sweep, Swept,
        entry::{Body, TakenBackCause},
        fill::CHUNK_UNITS_MAX,
    },
};

use super::{
    book::{Return, add, subtract},
    search::{is_possible, unclaimed_until, window_start},
    state::{Placed, PoolState, RecallDue, State},
};

const NOTHING: Swept = Swept {
    units: Quantities::new(),
    more: false,
};

/// Takes out what [`search`](super::search()) led to; the windows of these units must be in the
/// state.
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
        Sweep::Recovery { .. } => recovery(state, &found),
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
    let mut taken = BTreeMap::new();
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
        taken.insert(*prize, (count as u64, units.withdraw));
        room -= count;
    }
    state.changes.units_out.extend(found);
    for (prize, (count, _)) in &taken {
        subtract(&mut state.schedule(pool)?.injected, *prize, *count)?;
    }
    let mut units = Quantities::new();
    for withdraw in [false, true] {
        let is_it = |prize| {
            taken
                .get(&prize)
                .is_some_and(|(_, leaves)| *leaves == withdraw)
        };
        let part = found
            .iter()
            .filter(|placed| placed.prize.is_some_and(is_it));
        let part = state.taken(pool, part);
        units.extend(&part.units);
        let back = Return {
            pool,
            cause: TakenBackCause::Recalled,
            withdraw,
        };
        state.give_back(&back, part)?;
    }
    Ok(Swept { units, more })
}

fn unclaimed(state: &mut State, pool: PoolNo, found: &[Placed]) -> Result<Swept> {
    let Some(until) = unclaimed_until(state, pool) else {
        return Ok(NOTHING);
    };
    let (due, next): (Vec<_>, Vec<_>) = found
        .iter()
        .copied()
        .partition(|placed| placed.score <= until);
    book_returns(state, &due, Released::Returned)?;
    let taken = state.taken(pool, due.iter());
    let units = taken.units.clone();
    let back = Return {
        pool,
        cause: TakenBackCause::Unclaimed,
        withdraw: false,
    };
    state.give_back(&back, taken)?;
    // Where the search was cut off, some of the next ones may be missing.
    let more = found.len() == CHUNK_UNITS_MAX;
    if !more {
        let oldest = next.iter().map(|placed| placed.score).min();
        state.schedule(pool)?.oldest = oldest.map(Moment::from_micros);
    }
    Ok(Swept { units, more })
}

fn ending(state: &mut State, found: &[Placed]) -> Result<Swept> {
    truncate_all(state)?;
    book_returns(state, found, Released::Returned)?;
    let units = take_back(state, found, TakenBackCause::Ended, false)?;
    if found.is_empty() {
        state.view.lifecycle = Lifecycle::Closed;
        state.update_holds(None);
        state.changes.entries.push(Body::Closed {});
    }
    Ok(Swept {
        units,
        more: !found.is_empty(),
    })
}

/// What could be won leaves the campaign. What an open fill has still to put in could have been put
/// in, and won, in the lost entries too: it goes back to stock. The last chunk withdraws from stock
/// what draws take off it themselves.
fn recovery(state: &mut State, found: &[Placed]) -> Result<Swept> {
    truncate_all(state)?;
    book_returns(state, found, Released::Recalled)?;
    let units = if found.is_empty() {
        withdraw_off_stock(state)?
    } else {
        take_back(state, found, TakenBackCause::Recovered, true)?
    };
    Ok(Swept {
        units,
        more: !found.is_empty(),
    })
}

/// Withdraws the stock of all prizes that personal pools and guarantees give, an entry for each of
/// them; how many units by prize. Of unlimited prizes there is always enough.
fn withdraw_off_stock(state: &mut State) -> Result<Quantities> {
    let campaign = Arc::clone(&state.view.campaign);
    let mut withdrawn = Quantities::new();
    for (pool, prizes) in campaign.prizes_off_stock_by_pool() {
        let mut units = Quantities::new();
        for prize in prizes {
            let stock = state.stock_mut(prize)?;
            if !campaign.prize(prize).unlimited {
                add(&mut units, prize, mem::take(&mut stock.remaining));
            }
        }
        for (prize, units) in &units {
            state.stock_mut(*prize)?.withdrawn += units;
            add(&mut withdrawn, *prize, *units);
        }
        if !units.is_empty() {
            state.changes.entries.push(Body::TakenBack {
                pool,
                cause: TakenBackCause::Recovered,
                units,
                withdrawn: true,
                spans: Vec::new(),
            });
        }
    }
    Ok(withdrawn)
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

/// How a window counts released units that leave it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Released {
    /// As back in stock.
    Returned,
    /// As never injected.
    Recalled,
}

/// Gives found units back, an entry for each pool; their number by prize.
fn take_back(
    state: &mut State,
    found: &[Placed],
    cause: TakenBackCause,
    withdraw: bool,
) -> Result<Quantities> {
    let mut units = Quantities::new();
    let pools: BTreeSet<PoolNo> = found.iter().map(|placed| placed.pool).collect();
    for pool in pools {
        let taken = state.taken(pool, found.iter().filter(|placed| placed.pool == pool));
        for (prize, count) in &taken.units {
            add(&mut units, *prize, *count);
        }
        let back = Return {
            pool,
            cause,
            withdraw,
        };
        state.give_back(&back, taken)?;
    }
    Ok(units)
}

/// Takes units out, those of schedules from their windows too: released ones as `released` says,
/// the others as recalled. Blanks are booked with that.
fn book_returns(state: &mut State, found: &[Placed], released: Released) -> Result<()> {
    let now = state.now.as_micros();
    for placed in found {
        let Some(prize) = placed.prize else {
            state.count(placed.pool, None, -1);
            continue;
        };
        if state.schedule_of(placed.pool).is_none() {
            continue;
        }
        let schedule = state.schedule(placed.pool)?;
        let window = schedule.window(window_start(placed.unit)?)?;
        let units = window.prizes.entry(prize).or_default();
        if placed.score <= now && released == Released::Returned {
            units.returned += 1;
            add(&mut schedule.returned, prize, 1);
        } else {
            units.recalled += 1;
            subtract(&mut schedule.injected, prize, 1)?;
        }
    }
    state.changes.units_out.extend(found);
    Ok(())
}

impl RecallDue {
    /// The number of units, at most `bound`.
    pub(super) fn at_most(self, bound: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Units(due) => usize::try_from(due).unwrap_or(usize::MAX).min(bound),
            Self::All => bound,
        }
    }

    /// What is due after this number of units was taken back.
    fn less(self, units: u64) -> Self {
        match self {
            Self::Units(due) if due > units => Self::Units(due - units),
            Self::All => Self::All,
            Self::None | Self::Units(_) => Self::None,
        }
    }
}
