//! The lanes of a service: queues of calls, each of which has one batch at the store at a time.

use std::time::Duration;

/// The calls that lanes are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// Draws and bonus draws.
    Draws,
    /// Grabs.
    Grabs,
    /// New envelopes.
    NewEnvelopes,
    /// `CheckLimit`.
    LimitChecks,
    /// Everything that writes, on the embedded store.
    Writes,
}

/// How busy the lanes of one kind are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneUse {
    /// What they are for.
    pub kind: LaneKind,
    /// How many there are.
    pub lanes: usize,
    /// Calls that wait for a batch.
    pub waiting: usize,
    /// How long the batch that has been at the store for longest is there; none if no batch is.
    pub busy: Option<Duration>,
}
