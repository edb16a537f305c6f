//! Reads, each of one moment: campaigns, users, draws, the ledger, and the sums of a campaign.

pub(super) mod limit_checks;
mod people;
mod reads;
mod settling;
mod stats;
