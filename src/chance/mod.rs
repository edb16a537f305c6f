//! All chance, derived: pure functions `(seed, frozen plan) -> units`, the same on every replica
//! and in every version.
//!
//! Nothing here reads a clock, a store or the operating system's randomness. Golden vectors in the
//! tests pin every function: what was drawn once must be recomputable for ever, by anyone who has
//! the revealed seed. So every function's documentation is a full specification, down to the bytes:
//!
//! - **Numbers** become bytes in little-endian order, as wide as their type; ids are their ASCII
//!   characters.
//! - **Lists of byte strings** are written as each string's length in bytes (8 bytes) followed by
//!   the string, one after the other. No two different lists read the same.
//! - **A label** is such a list; it names one stream of numbers of a seed (see [`Seed::stream`]). A
//!   label's first part says what the stream is for, so no two uses ever share numbers.
//! - **A number below n** is drawn as [`Stream::below`] says.

pub mod codes;
pub mod deck;
pub mod personal;
pub mod pseudonym;
pub mod scatter;
pub mod seed;
pub mod split;
pub mod stream;

#[cfg(test)]
mod tests;

pub use codes::CodeKey;
pub use deck::{deal, take};
pub use personal::UserChance;
pub use pseudonym::{Kind, Pseudonyms, Salt, pseudonym};
pub use scatter::{Fill, Release, scatter, totals};
pub use seed::{MasterKey, Nonce, Seed};
pub(crate) use seed::{hex, unhex};
pub use split::{rain, split};
pub use stream::Stream;
