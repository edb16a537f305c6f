//! Freezing windows: quantities off stock, the moment from which they scatter, the fill that will
//! put them into the pool.

use std::time::Duration;

use crate::{
    model::{Moment, PoolKind, PoolNo, Quantities, convert::HOUR_UNITS_MAX, schedule::Missed},
    store::{
        FreezeCommand, Result, Step,
        entry::{Body, Injected},
        fill::{FREEZE_WINDOWS_MAX, PlannedWindow},
        view::total,
    },
};

use super::{
    book::add,
    state::{ScheduleState, State, Window, WindowMark, WindowPrize},
};

/// The moments that the units of a missed window get, if it is released at once: the last
/// second.
const RELEASE_SPAN: Duration = Duration::from_secs(1);

/// Freezes the next windows of a schedule, if they follow the last one that is frozen.
pub(in crate::store) fn freeze(state: &mut State, command: &FreezeCommand) -> Result<Step> {
    if command.version != state.view.version || state.view.has_ended(state.now) {
        return Ok(Step::Stale);
    }
    let windows = &command.windows[..command.windows.len().min(FREEZE_WINDOWS_MAX)];
    let mut horizon = state.schedule(command.pool)?.horizon;
    for window in windows {
        if horizon != window.start {
            return Ok(Step::Stale);
        }
        horizon = window.end;
    }
    let rule = match &state.view.campaign.pool(command.pool).kind {
        PoolKind::Schedule(schedule) => schedule.missed,
        PoolKind::Deck(_) | PoolKind::Personal(_) => Missed::Skip,
    };
    let now = state.now;
    let is_released = |window: &PlannedWindow| {
        window.end <= now && rule == Missed::Release && !window.planned.is_empty()
    };
    let mut late = Late::new(now, windows.iter().filter(|it| is_released(it)).count());
    for window in windows {
        freeze_one(state, command.pool, window, rule, &mut late)?;
    }
    Ok(Step::Done)
}

fn freeze_one(
    state: &mut State,
    pool: PoolNo,
    window: &PlannedWindow,
    rule: Missed,
    late: &mut Late,
) -> Result<()> {
    let now = state.now;
    let missed = window.end <= now;
    state.schedule(pool)?.horizon = window.end;
    if missed && rule != Missed::Release {
        return pass_over(state, pool, window, rule == Missed::Spread);
    }
    let carried = if missed {
        Quantities::new()
    } else {
        let room = HOUR_UNITS_MAX.saturating_sub(total(&window.planned));
        carried_share(state.schedule(pool)?, window.windows_left, room)
    };
    let mut asked = window.planned.clone();
    for (prize, units) in &carried {
        add(&mut asked, *prize, *units);
    }
    if asked.is_empty() {
        return Ok(());
    }
    // A missed window is released now, in an order of chance, and not when it should have been:
    // nobody could take a unit then, and it would go back to stock as one that nobody took.
    let (from, until) = if missed {
        late.next(window, state.schedule(pool)?)
    } else {
        (window.start.max(now), window.end)
    };
    let granted = state.take_off_stock(&asked)?;
    add_window(state, pool, window, &carried, WindowMark::Frozen)?;
    state.open_fill(Injected {
        pool,
        window: window.start,
        generation: 0,
        version: state.view.version,
        from,
        until,
        planned: window.planned.clone(),
        in_force: None,
        carried,
        granted,
        fork: state.fork,
    })
}

/// The moments of missed windows that are released at once: of each a part of the last second, one
/// after another. So draws take the units of the first one while those of the others are put in.
struct Late {
    from: Moment,
    now: Moment,
    done: u32,
    windows: u32,
}

impl Late {
    fn new(now: Moment, windows: usize) -> Self {
        Self {
            from: now - RELEASE_SPAN,
            now,
            done: 0,
            windows: u32::try_from(windows.max(1)).unwrap_or(u32::MAX),
        }
    }

    /// The part of the next window. It begins neither before the window nor before the end of what
    /// was released earlier.
    fn next(&mut self, window: &PlannedWindow, schedule: &mut ScheduleState) -> (Moment, Moment) {
        let span = self.now.since(self.from);
        let from = self.from + span * self.done / self.windows;
        self.done += 1;
        let until = self.from + span * self.done / self.windows;
        let from = from.max(window.start).max(schedule.released);
        schedule.released = until.max(from);
        (from, schedule.released)
    }
}

/// A window that has ended unfilled: its units stay in stock, perhaps to be spread over the next
/// windows.
fn pass_over(state: &mut State, pool: PoolNo, window: &PlannedWindow, spread: bool) -> Result<()> {
    if window.planned.is_empty() {
        return Ok(());
    }
    add_window(state, pool, window, &Quantities::new(), WindowMark::Missed)?;
    if spread {
        let carry = &mut state.schedule(pool)?.carry;
        carry.windows += 1;
        for (prize, units) in &window.planned {
            add(&mut carry.units, *prize, *units);
        }
    }
    state.changes.entries.push(Body::Missed {
        pool,
        window: window.start,
        version: state.view.version,
        planned: window.planned.clone(),
        spread,
    });
    Ok(())
}

fn add_window(
    state: &mut State,
    pool: PoolNo,
    window: &PlannedWindow,
    carried: &Quantities,
    mark: WindowMark,
) -> Result<()> {
    let of = |quantities: &Quantities, prize| quantities.get(prize).copied().unwrap_or(0);
    let prizes = window.planned.keys().chain(carried.keys());
    let prizes = prizes.map(|prize| {
        let units = WindowPrize {
            planned: of(&window.planned, prize),
            carried: of(carried, prize),
            ..WindowPrize::default()
        };
        (*prize, units)
    });
    let frozen = Window {
        end: window.end,
        version: state.view.version,
        mark,
        prizes: prizes.collect(),
        fills: Vec::new(),
        is_changed: true,
    };
    state.schedule(pool)?.add_window(window.start, frozen);
    Ok(())
}

/// What a window takes over from missed ones: an equal share, rounded up, for each window that they
/// are spread over, as far as the window has room for more units.
fn carried_share(schedule: &mut ScheduleState, windows_left: u64, mut room: u64) -> Quantities {
    let carry = &mut schedule.carry;
    let windows = carry.windows.min(windows_left).max(1);
    let mut share = Quantities::new();
    for (prize, units) in &mut carry.units {
        let part = units.div_ceil(windows).min(room);
        *units -= part;
        room -= part;
        add(&mut share, *prize, part);
    }
    carry.units.retain(|_, units| *units > 0);
    carry.windows = if carry.units.is_empty() {
        0
    } else {
        // What found no room goes to the next window.
        (windows - 1).max(1)
    };
    share
}
