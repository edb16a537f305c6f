//! Draws and callers' grants in batches, by `draw.lua`.

mod bonus;
mod lanes;

pub(super) use self::lanes::Lanes;
