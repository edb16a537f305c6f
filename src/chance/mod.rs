//! All chance, derived: pure functions `(seed, frozen plan) -> units`, the same on every replica and in every version.
//!
//! Nothing here reads a clock, a store or the operating system's randomness. Golden vectors in the tests pin every function:
//! what was drawn once must be recomputable for ever.

pub mod deck;
pub mod scatter;
pub mod seed;
pub mod stream;
