//! Reads: users, draws, the ledger, and statistics. Each read shows one moment.

mod codes;
pub(super) mod limit_checks;
mod people;
mod reads;
mod replicas;
mod settling;
mod stats;

#[cfg(any(test, fuzzing))]
pub(super) use self::reads::read_item;
