//! What operators do to campaigns, and who does it: parts of commands and of ledger entries.

use serde::{Deserialize, Serialize};

use super::proposal::ProposalId;
use crate::model::{Moment, OperatorId, PoolNo, PrizeNo, RequestId, UserId};

/// Who changes something, why, and under which request id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// Names the change for retries.
    pub request: RequestId,
    /// Who: the identity that called if the server knows identities, else whom the request names.
    pub operator: OperatorId,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The operator whom the request of an identity names, if that is somebody else. Earlier
    /// versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<OperatorId>,
    /// `operator` is an identity, which a credential has proved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub authenticated: bool,
    /// What the operator approved by this; none if nobody proposed it. Only the step that approves
    /// a proposal sets it. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Box<Approved>>,
}

/// A proposal that an operator has approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// Which.
    pub id: ProposalId,
    /// The identity that proposed it.
    pub operator: OperatorId,
    /// The operator whom the request of that identity named, if that is somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<OperatorId>,
    /// Why it was proposed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When it was proposed.
    pub at: Moment,
}

impl Author {
    /// An author who is named and not proved.
    pub fn named(request: RequestId, operator: OperatorId, reason: impl Into<String>) -> Self {
        Self {
            request,
            operator,
            reason: reason.into(),
            on_behalf_of: None,
            authenticated: false,
            approved: None,
        }
    }

    /// The proposal that it approved.
    pub fn proposal(&self) -> Option<&ProposalId> {
        self.approved.as_ref().map(|approved| &approved.id)
    }
}

/// What an operator does to a campaign, other than a new version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Operation {
    /// Refuses draws.
    Pause,
    /// Takes draws again.
    Resume,
    /// Ends the campaign for good; [`super::Sweep::Ending`] returns its units.
    Close,
    /// Holds a prize.
    PausePrize {
        /// Which.
        prize: PrizeNo,
    },
    /// Releases a held prize.
    ResumePrize {
        /// Which.
        prize: PrizeNo,
    },
    /// Fences injected windows; [`super::Sweep::Recall`] takes their unreleased units.
    Recall {
        /// The pool.
        pool: PoolNo,
        /// The window's start; none for every injected window that has not ended.
        window: Option<Moment>,
        /// The prize; none for all.
        prize: Option<PrizeNo>,
        /// The units leave the campaign.
        withdraw: bool,
    },
    /// Gives bonus draws.
    Grant {
        /// To whom, each once.
        users: Vec<UserId>,
        /// How many to each.
        draws: u32,
        /// When they lapse.
        expires: Moment,
    },
    /// Blocks users.
    Block {
        /// Whom, each once.
        users: Vec<UserId>,
    },
    /// Unblocks users.
    Unblock {
        /// Whom, each once.
        users: Vec<UserId>,
    },
    /// Adds codes to a prize. The codes themselves are in no ledger.
    ImportCodes {
        /// To which.
        prize: PrizeNo,
        /// The index of the first code.
        first: u64,
        /// How many.
        codes: u64,
        /// What [`crate::chance::CodeKey::digest`] made of them.
        digest: String,
    },
}
