//! Draws and callers' grants in batches, by `draw.lua`.

mod bonus;
mod guesses;
mod lanes;

pub(super) use self::{
    guesses::{Guessed, RecentProgress},
    lanes::Lanes,
};
