//! When the injector has something to do with a campaign: what the index of due campaigns goes by.

use crate::{
    model::{
        Moment, PoolKind,
        schedule::{Schedule, Unclaimed},
    },
    store::Lifecycle,
};

use super::state::{PoolState, ScheduleState, State, Window, WindowMark};

/// The moment at which the next step of the injector is due; the epoch if it is due already,
/// none if there never is one again. The next hour counts by its start: whoever fills it ahead
/// of that looks for what is due so much later.
///
/// Draws make no step due earlier, so they need not look at this: what they take only makes a
/// return to stock later.
pub(in crate::store) fn due(state: &State) -> Option<Moment> {
    let view = &state.view;
    match view.lifecycle {
        Lifecycle::Closed => return None,
        Lifecycle::Closing => return Some(Moment::EPOCH),
        Lifecycle::Open | Lifecycle::Paused => {}
    }
    let campaign = &view.campaign;
    let pools = campaign.pools.iter().zip(&state.pools);
    let due = pools.filter_map(|(pool, known)| match (&pool.kind, known) {
        (PoolKind::Schedule(plan), PoolState::Schedule(known)) => due_of(state, plan, known),
        _ => None,
    });
    Some(due.fold(campaign.end, Moment::min))
}

fn due_of(state: &State, plan: &Schedule, schedule: &ScheduleState) -> Option<Moment> {
    let mut windows = schedule.windows.values();
    if windows.any(|window| window.is_open() || may_follow_plan(state, window)) {
        return Some(Moment::EPOCH);
    }
    let end = state.view.campaign.end;
    let next_hour = Some(schedule.horizon).filter(|horizon| *horizon < end);
    let next_return = match plan.unclaimed {
        Unclaimed::ReturnAfter(after) => schedule.oldest.map(|oldest| oldest + after),
        Unclaimed::Keep => None,
    };
    next_hour.into_iter().chain(next_return).min()
}

/// It follows an earlier version, which may have planned another quantity for it.
fn may_follow_plan(state: &State, window: &Window) -> bool {
    window.version < state.view.version
        && window.end > state.now
        && window.mark != WindowMark::Missed
}
