//! Operations and new versions that were made before: a retry gets the same reply.

use crate::store::{
    ApplyCommand, ApproveCommand, Change, LedgerId, OperateCommand, Operated, Refusal, Result,
    WinCommand, WinOperation, entry::Body,
};

use super::apply::digest;

/// The entry is that of the version which a command brings.
pub(in crate::store) fn is_same_version(body: &Body, command: &ApplyCommand) -> bool {
    matches!(body, Body::Applied(applied)
        if applied.base_version == command.base_version
            && applied.author.proposal() == command.author.proposal()
            && applied.definition_sha256 == digest(&command.campaign))
}

/// The entry is that of an operation.
pub(in crate::store) fn is_same_operation(body: &Body, command: &OperateCommand) -> bool {
    matches!(body, Body::Operated { operation, author, .. }
        if *operation == command.operation && author.proposal() == command.author.proposal())
}

/// The entry is that of the change which a command approved.
pub(in crate::store) fn is_same_approval(body: &Body, command: &ApproveCommand) -> bool {
    match (body, &command.change) {
        (Body::Applied(applied), Change::Version(_)) => {
            applied.author.proposal() == Some(&command.proposal)
        }
        (Body::Operated { author, .. }, Change::Operation(_)) => {
            author.proposal() == Some(&command.proposal)
        }
        _ => false,
    }
}

/// The entry is that of an operation on a win.
pub(in crate::store) fn is_same_win_operation(body: &Body, command: &WinCommand) -> bool {
    match (body, &command.operation) {
        (Body::Delivered { win, reference, .. }, WinOperation::Deliver { reference: asked }) => {
            *win == command.win && reference == asked
        }
        (Body::Revoked { win, withdraw, .. }, WinOperation::Revoke { withdraw: asked }) => {
            *win == command.win && withdraw == asked
        }
        _ => false,
    }
}

/// The reply of the operation whose entry is found under a request id; an error if the request asks
/// for something else. `version` is the current one.
pub(in crate::store) fn replay(
    body: &Body,
    ledger: LedgerId,
    version: u32,
    is_same: impl FnOnce(&Body) -> bool,
) -> Result<Operated> {
    if !is_same(body) {
        return Err(Refusal::RequestIdReused.into());
    }
    let (users, version) = match body {
        Body::Applied(applied) => (0, applied.version),
        Body::Operated { users, .. } => (*users, version),
        _ => (0, version),
    };
    Ok(Operated {
        replayed: true,
        ledger,
        users,
        version,
    })
}
