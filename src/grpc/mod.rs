//! The services of `tombola.v1`: parses requests, asks the injector, makes answers and errors.
//!
//! It may know proto types and everything below it; it must never know SQL, and never decide what a
//! draw gives. Requests are parsed in [`request`] with every problem at once, errors become
//! statuses in [`status`] and nowhere else.

pub mod access;
pub(crate) mod alerts;
mod apply;
mod arrival;
mod backup;
mod campaigns;
mod changes;
mod clock_health;
mod codes;
mod connections;
mod desk;
mod envelope_views;
mod envelopes;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub mod gauges;
mod health;
mod late_hours;
mod ledger;
mod ledger_health;
mod ledger_stats;
mod live;
pub mod local;
mod lottery;
mod odds;
mod once_a_second;
mod operations;
mod partition_health;
mod people;
mod presence;
mod proposals;
mod rates;
pub mod readiness;
mod reads;
mod removed;
mod request;
mod schedule;
mod schedule_days;
mod secrets;
pub mod server;
mod services;
mod stats;
pub(crate) mod status;
mod stock;
mod unread;
mod views;
pub mod waiting;

pub(crate) use self::{
    ledger_stats::LAG_MAX,
    stats::{DECK_EXHAUSTED, DECK_HELD, DECK_OUT_OF_STOCK},
};
