//! Reads: users, draws, the ledger, and statistics. Each read shows one moment.

pub(super) mod limit_checks;
mod people;
mod reads;
mod settling;
mod stats;
