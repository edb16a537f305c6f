//! Draws: what the draw script is given, and what its replies mean.

mod lanes;

pub(super) use self::lanes::Lanes;
