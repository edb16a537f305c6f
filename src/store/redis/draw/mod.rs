//! Draws in batches, by `draw.lua`.

mod lanes;

pub(super) use self::lanes::Lanes;
