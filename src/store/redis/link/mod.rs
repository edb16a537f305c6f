//! Connections to the servers: which servers are masters, how commands reach them, and faults.
//!
//! [`masters`] keeps a pool of connections to each master. With Sentinel and in clusters, a
//! follower asks a [`panel`] of servers again and again who is a master, and updates [`masters`].
//! [`connect`] sends a command over a connection that it takes from a pool (a [`lease`]), and
//! [`confirm`] waits for replicas. [`checks`] reads the settings of servers and reports
//! [`findings`].

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
pub(super) mod timeouts;
pub(super) mod url;
