//! A part of a whole, from 0 to 1.

use crate::chance::Stream;

/// A part of a whole, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Share(pub(super) f64);

impl Share {
    /// `part` of `all`; 0 if there is nothing.
    pub(super) fn of(part: f64, all: f64) -> Self {
        Self(if all > 0.0 { part / all } else { 0.0 })
    }

    /// A random share below 1, with the 53 bits that a floating-point number has.
    pub(super) fn random(chance: &mut Stream) -> Self {
        const STEPS: f64 = (1_u64 << 53) as f64;
        Self((chance.next_u64() >> 11) as f64 / STEPS)
    }
}
