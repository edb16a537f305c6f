//! What every step decides: pure functions over a campaign's [`State`], the same for every store.
//! (A draw, which must be fast, sees only its pools; on Redis its script decides.)
//!
//! A store reads the state, runs a rule, and writes what changed, all or nothing; a rule that
//! refuses leaves a state that must not be written. Nothing here knows how it is kept.

mod adjust;
mod admission;
mod apply;
mod bonus;
mod book;
mod budget;
mod check;
mod codes;
mod deal;
mod deliver;
mod draw;
mod due;
pub(in crate::store) mod envelope;
mod fill;
mod freeze;
mod hold;
mod operate;
mod own;
mod propose;
mod read;
mod replay;
mod search;
mod state;
mod sweep;

pub(in crate::store) use adjust::adjust;
pub(in crate::store) use admission::{admit_time, admit_user, barred, is_same_draw};
pub(in crate::store) use apply::{change, create, digest};
pub(in crate::store) use bonus::{admit_bonus_time, grant_bonus, is_same_bonus};
pub(in crate::store) use budget::spent;
pub(in crate::store) use check::{check_pools, check_prizes, check_stock};
pub(in crate::store) use deal::{LOW_CARDS, deal};
pub(in crate::store) use deliver::{KnownWin, operate_win};
pub(in crate::store) use draw::{
    Admitted, Made, Outcome, Pick, Pools, QueueView, Waiting, cards_available, draw, running_low,
};
pub(in crate::store) use due::due;
pub(in crate::store) use fill::fill;
pub(in crate::store) use freeze::freeze;
pub(in crate::store) use hold::holds;
pub(in crate::store) use operate::{Subjects, operate, windows_needed};
pub(in crate::store) use propose::{approve, propose, reject};
pub(in crate::store) use read::filling;
pub(in crate::store) use replay::{
    is_same_approval, is_same_operation, is_same_version, is_same_win_operation, replay,
};
pub(in crate::store) use search::{search, windows_of};
#[allow(
    unused_imports,
    reason = "a store may keep each of them in its own form"
)]
pub(in crate::store) use state::{Carry, DeckState, Fill, RecallDue, UserChange, WindowPrize};
pub(in crate::store) use state::{
    Changes, Placed, PoolState, Range, ScheduleState, State, Stock, Window,
};
pub(in crate::store) use sweep::sweep;

#[cfg(test)]
mod tests;
