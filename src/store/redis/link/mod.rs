//! The way to the servers: which of them are masters, connections to them, and what goes wrong.
//!
//! [`masters`] keeps a pool of connections to each master; followers of Sentinel and of clusters
//! write there what a [`panel`] of servers says. [`connect`] sends a command by a [`lease`], and
//! [`confirm`] waits for replicas. [`checks`] asks servers for their settings,
//! and [`findings`] holds what it found.

pub(super) mod checks;
mod cluster;
pub(super) mod confirm;
pub(super) mod connect;
mod council;
pub(super) mod fault;
pub(super) mod fault_kind;
pub(super) mod findings;
mod lease;
pub(super) mod masters;
mod panel;
pub(super) mod pool;
mod replicas;
mod sentinel;
mod slots;
mod timeouts;
pub(super) mod url;
