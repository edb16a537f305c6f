//! Bringing an injected window to a new plan: units on top, or units to recall.

use crate::{
    model::Quantities,
    store::{AdjustCommand, Result, Step, entry::Injected},
};

use super::{
    book::{add, less},
    state::{PoolState, RecallDue, State, Window, WindowMark},
};

/// Brings an injected window that has not ended to the quantities of a plan newer than its own.
pub(in crate::store) fn adjust(state: &mut State, command: &AdjustCommand) -> Result<Step> {
    if !is_adjustable(state, command) {
        return Ok(Step::Stale);
    }
    let (now, version) = (state.now, state.view.version);
    let schedule = state.schedule(command.pool)?;
    let prizes = command.planned.iter().map(|(prize, _)| *prize);
    schedule.planned.extend(prizes);
    let window = schedule.window(command.window)?;
    window.mark = WindowMark::Frozen;
    window.version = version;
    let (asked, planned) = plan_anew(window, command)?;
    let latest = window.fills.iter().map(|fill| fill.generation).max();
    let (until, generation) = (window.end, latest.unwrap_or(0) + 1);
    let in_force = window.planned();
    let granted = state.take_off_stock(&asked)?;
    if granted.is_empty() && planned.is_empty() {
        return Ok(Step::Done);
    }
    state.open_fill(Injected {
        pool: command.pool,
        window: command.window,
        generation,
        version,
        from: command.window.max(now),
        until,
        planned,
        in_force: Some(in_force),
        carried: Quantities::new(),
        granted,
        fork: state.fork,
    })?;
    Ok(Step::Done)
}

fn is_adjustable(state: &State, command: &AdjustCommand) -> bool {
    if command.version != state.view.version || state.view.has_ended(state.now) {
        return false;
    }
    let Some(PoolState::Schedule(schedule)) = state.pools.get(usize::from(command.pool.0)) else {
        return false;
    };
    schedule.windows.get(&command.window).is_some_and(|window| {
        window.mark != WindowMark::Missed
            && window.end > state.now
            && window.version < command.version
            && !window.is_recalling()
    })
}

/// Writes the new plan into a window, with what must be recalled of it; returns what must come on
/// top, and what of the plan is another than before.
fn plan_anew(window: &mut Window, command: &AdjustCommand) -> Result<(Quantities, Quantities)> {
    let mut asked = Quantities::new();
    let mut changed = Quantities::new();
    for (prize, planned) in &command.planned {
        let units = window.prizes.entry(*prize).or_default();
        if units.fenced >= command.version {
            continue;
        }
        let target = planned + units.carried;
        let injected = less(units.granted, units.recalled)?;
        if *planned != units.planned {
            changed.insert(*prize, *planned);
        }
        add(&mut asked, *prize, target.saturating_sub(injected));
        units.planned = *planned;
        units.withdraw = false;
        units.recall_due = match injected.saturating_sub(target) {
            0 => RecallDue::None,
            surplus => RecallDue::Units(surplus),
        };
    }
    Ok((asked, changed))
}
