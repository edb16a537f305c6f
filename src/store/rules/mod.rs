//! What every step but a draw decides: pure functions over a campaign's [`State`], the same for every store.
//!
//! A store reads the state, runs a rule, and writes what changed, all or nothing. Nothing here knows how it is kept.

mod state;

pub(in crate::store) use state::{
    Carry, Changes, DeckState, Fill, Placed, PoolState, Range, RecallDue, ScheduleState, State,
    Stock, UserChange, Window, WindowMark, WindowPrize,
};
