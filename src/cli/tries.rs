//! What is known of the tries of a call: whether one may have executed it, and whether a Tombola
//! answered.

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The failed tries of a call before its last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EarlierTries {
    /// One of them may have executed the call.
    pub(super) may_have_executed: bool,
    /// A Tombola answered one of them.
    pub(super) reached_a_tombola: bool,
}

impl EarlierTries {
    /// Adds a try that failed with this status.
    pub(super) fn add(&mut self, status: &Status) {
        self.may_have_executed |= may_have_executed(status);
        self.reached_a_tombola |= status.get_error_details().error_info().is_some();
    }
}

/// Whether the call may have been executed: the service says so, or the status is not its own.
pub(super) fn may_have_executed(status: &Status) -> bool {
    match status.get_error_details().error_info() {
        Some(info) => info
            .metadata
            .get("executed")
            .is_some_and(|executed| executed == "unknown"),
        None => may_be_lost(status.code()),
    }
}

/// A status that may come from the network or a proxy and not from the service.
pub(super) fn may_be_lost(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Internal
    )
}
