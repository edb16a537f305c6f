//! What every step on an envelope decides, but for taking the packet: pure functions over an
//! [`EnvelopeState`], the same for every store.
//!
//! A store reads the state in one moment, runs a rule, and writes the state and its changes, all or
//! nothing and only if neither the record nor the counts of grabs are other than they were read;
//! else it begins again.

mod state;
mod steps;

#[allow(unused_imports, reason = "a store may keep the record in its own form")]
pub(in crate::store) use state::EnvelopeRecord;
pub(in crate::store) use state::{EnvelopeChanges, EnvelopeState, Removal, SumsChange};
pub(in crate::store) use steps::{admit, answer, cancel, create, fill, is_same, settle};

#[cfg(test)]
mod tests;
