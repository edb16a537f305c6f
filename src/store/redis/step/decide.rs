//! Every step but a draw: read the campaign, let a rule decide, and write what it decided if
//! nothing that it read has changed since; else begin again. Nothing is locked in between, so draws
//! go on.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::campaign::{from_json, to_json};
use crate::store::redis::{core::Core, format::reply};
use crate::{
    chance::hex,
    model::{CampaignId, Moment, PoolNo, RequestId, number::is_zero},
    store::{
        ApproveCommand, Change, Executed, LedgerId, Operated, Operation, ProposalId, Refusal,
        Result, StoreError, WinOperation, WonUnit,
        entry::Body,
        rules::{self, State},
    },
};

/// How often a step is tried while other steps are faster.
pub(crate) const ROUNDS_MAX: usize = 500;
/// How long what was read may be used, in real time.
const READ_HOLDS: Duration = Duration::from_secs(2);

impl Core {
    /// How long what was read may be used, by the store's clock.
    pub(crate) fn read_holds(&self) -> Duration {
        self.clock.span(READ_HOLDS)
    }

    /// Reads, lets `rule` decide, and writes; again until nothing has changed in between.
    pub(crate) async fn step<T>(
        &self,
        id: &CampaignId,
        named: &[(PoolNo, Moment)],
        mut rule: impl FnMut(&mut State) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..ROUNDS_MAX {
            let mut loaded = self.load(id, named).await?;
            let value = rule(&mut loaded.state)?;
            if self.write(&loaded).await?.is_some() {
                return Ok(value);
            }
        }
        Err(contended())
    }

    /// The reply of the operation that had this request id; an error if that was another operation.
    /// `version` is the current one.
    pub(crate) async fn replayed(
        &self,
        id: &CampaignId,
        request: &RequestId,
        fingerprint: &str,
        version: u32,
    ) -> Result<Option<Operated>> {
        let partition = self.partition(id);
        let operations = partition.campaign(id).operations;
        let field = request.as_str().as_bytes();
        let mut found = self.recall(partition, &[operations], field).await?;
        let Some(kept) = reply::maybe_bytes(found.next()?)? else {
            return Ok(None);
        };
        let malformed = || StoreError::corrupt("a remembered operation does not read back");
        let kept = String::from_utf8(kept).map_err(|_| malformed())?;
        let (sequence, kept) = kept.split_once(' ').ok_or_else(malformed)?;
        let kept: Remembered = from_json(kept.as_bytes())?;
        if kept.fingerprint != fingerprint {
            return Err(Refusal::RequestIdReused.into());
        }
        let ledger = LedgerId {
            partition: partition.number,
            sequence: sequence.parse().map_err(|_| malformed())?,
        };
        self.witnesses.repeat(&found, &ledger);
        Ok(Some(Operated {
            replayed: true,
            ledger,
            users: kept.users,
            version: kept.version.unwrap_or(version),
        }))
    }
}

/// What is stored of an operation for its retries, besides its sequence number.
#[derive(Serialize, Deserialize)]
pub(crate) struct Remembered {
    fingerprint: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    users: u32,
    /// The version that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
}

/// A digest by which a retry of an operation is recognized; `proposal` is the one that it approved.
pub(crate) fn operation_fingerprint(
    operation: &Operation,
    proposal: Option<&ProposalId>,
) -> String {
    let digest = hex(&Sha256::digest(to_json(operation))[..12]);
    with_proposal(digest, proposal)
}

fn with_proposal(fingerprint: String, proposal: Option<&ProposalId>) -> String {
    match proposal {
        Some(proposal) => format!("{fingerprint}:{proposal}"),
        None => fingerprint,
    }
}

/// A text by which a retry of an approval is recognized.
pub(crate) fn approval_fingerprint(command: &ApproveCommand) -> String {
    let proposal = Some(&command.proposal);
    match &command.change {
        Change::Version(change) => {
            let digest = rules::digest(&change.campaign);
            version_fingerprint(change.base_version, &digest, proposal)
        }
        Change::Operation(change) => operation_fingerprint(&change.operation, proposal),
    }
}

/// A digest by which a retry of an operation on a win is recognized.
pub(crate) fn win_fingerprint(win: &WonUnit, operation: &WinOperation) -> String {
    hex(&Sha256::digest(to_json(&(win, operation)))[..12])
}

/// A text by which a retry of a new version is recognized; `proposal` is the one that it approved.
pub(crate) fn version_fingerprint(
    base_version: u32,
    definition_sha256: &str,
    proposal: Option<&ProposalId>,
) -> String {
    with_proposal(format!("{base_version}:{definition_sha256}"), proposal)
}

/// What is stored of an entry that answers a request.
pub(crate) fn remember(body: &Body) -> Option<Remembered> {
    match body {
        Body::Operated {
            operation,
            users,
            author,
        } => Some(Remembered {
            fingerprint: operation_fingerprint(operation, author.proposal()),
            users: *users,
            version: None,
        }),
        Body::Delivered { win, reference, .. } => {
            let reference = reference.clone();
            Some(of_win(win, &WinOperation::Deliver { reference }))
        }
        Body::Revoked { win, withdraw, .. } => {
            let withdraw = *withdraw;
            Some(of_win(win, &WinOperation::Revoke { withdraw }))
        }
        Body::Applied(applied) => Some(Remembered {
            fingerprint: version_fingerprint(
                applied.base_version,
                &applied.definition_sha256,
                applied.author.proposal(),
            ),
            users: 0,
            version: Some(applied.version),
        }),
        _ => None,
    }
}

fn of_win(win: &WonUnit, operation: &WinOperation) -> Remembered {
    Remembered {
        fingerprint: win_fingerprint(win, operation),
        users: 0,
        version: None,
    }
}

/// Makes a change: tries again while other steps are faster.
pub(crate) async fn until_made<T, F>(mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    for _ in 0..ROUNDS_MAX {
        if let Some(made) = attempt().await? {
            return Ok(made);
        }
    }
    Err(contended())
}

/// The error of a step that found others to be faster each time.
pub(crate) fn contended() -> StoreError {
    StoreError::Unavailable {
        executed: Executed::No,
        detail: "too many changes of the same thing at once".into(),
    }
}
