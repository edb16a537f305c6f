//! Putting the units of a frozen window into its pool, chunk by chunk; closing a fill before its
//! end.

use crate::{
    model::{Moment, PoolNo, Quantities},
    store::{
        FillCommand, Filled, Result, StoreError, Unit,
        entry::{Span, TakenBackCause},
        fill::CHUNK_UNITS_MAX,
        view::total,
    },
};

use super::{
    book::{Return, Taken, add, less, subtract},
    state::{Fill, Placed, PoolState, State, Window},
};

/// Puts the next units of a fill into its pool, if it is as full as the command says.
pub(in crate::store) fn fill(state: &mut State, command: &FillCommand) -> Result<Filled> {
    let ended = state.view.has_ended(state.now);
    let pool = state.pools.get_mut(usize::from(command.pool.0));
    let window = match pool {
        Some(PoolState::Schedule(schedule)) => schedule.windows.get_mut(&command.window),
        _ => None,
    };
    let Some(window) = window else {
        return Ok(Filled::Closed);
    };
    let mut fills = window.fills.iter_mut();
    let Some(fill) = fills.find(|fill| fill.generation == command.generation) else {
        return Ok(Filled::Closed);
    };
    if fill.closed || ended {
        return Ok(Filled::Closed);
    }
    if fill.filled != command.filled {
        return Ok(Filled::Reached(fill.filled));
    }
    let all = total(&fill.granted);
    let reached = fill.filled + command.units.len() as u64;
    if command.units.len() > CHUNK_UNITS_MAX || reached > all {
        return Err(StoreError::corrupt("a chunk does not fit its fill"));
    }
    let (first, fork) = (fill.base + fill.filled, fill.fork);
    let earliest = command.units.first().map(|release| release.at);
    fill.filled = reached;
    fill.until = command.until;
    fill.closed = reached == all;
    window.is_changed = true;
    for (number, release) in (first..).zip(&command.units) {
        window.prizes.entry(release.prize).or_default().placed += 1;
        state.changes.units_in.push(Placed {
            pool: command.pool,
            prize: Some(release.prize),
            score: release.at.as_micros(),
            unit: Unit {
                window: command.window.as_seconds(),
                fork,
                number,
            },
        });
    }
    if let Some(earliest) = earliest {
        let oldest = &mut state.schedule(command.pool)?.oldest;
        *oldest = Some(oldest.map_or(earliest, |oldest| oldest.min(earliest)));
    }
    Ok(Filled::Reached(reached))
}

impl Fill {
    /// The units that are not in the pool yet, if there are any; of the window that starts then.
    fn unplaced(&self, start: Moment) -> Option<Span> {
        let all = total(&self.granted);
        (self.filled < all).then(|| Span {
            window: start.as_seconds(),
            fork: self.fork,
            generation: self.generation,
            first: self.base + self.filled,
            last: self.base + all - 1,
        })
    }
}

impl State {
    /// Closes the open fills of a window; what they have not put into the pool goes back.
    pub(super) fn truncate_fills(&mut self, pool: PoolNo, start: Moment) -> Result<()> {
        let schedule = self.schedule(pool)?;
        if !schedule.windows.get(&start).is_some_and(Window::is_filling) {
            return Ok(());
        }
        let window = schedule.window(start)?;
        let open = window.fills.iter_mut().filter(|fill| !fill.closed);
        let spans = open.filter_map(|fill| {
            fill.closed = true;
            fill.unplaced(start)
        });
        let mut spans: Vec<_> = spans.collect();
        let mut unplaced = [Quantities::new(), Quantities::new()];
        for (prize, units) in &mut window.prizes {
            let left = less(units.granted, units.placed)?;
            units.placed = units.granted;
            units.recalled += left;
            add(&mut unplaced[usize::from(units.withdraw)], *prize, left);
        }
        for (withdraw, units) in [false, true].into_iter().zip(unplaced) {
            for (prize, units) in &units {
                subtract(&mut self.schedule(pool)?.injected, *prize, *units)?;
            }
            let back = Return {
                pool,
                cause: TakenBackCause::Recalled,
                withdraw,
            };
            // They name no prizes, so the first of two entries names the units of both.
            let spans = match units.is_empty() {
                true => Vec::new(),
                false => std::mem::take(&mut spans),
            };
            self.give_back(&back, Taken { units, spans })?;
        }
        Ok(())
    }
}
