//! Changes that one identity proposes and another approves.
//!
//! The proposals of a campaign are kept beside it, also of one that does not exist yet. Nothing of
//! the campaign changes until one is approved, in one step with the change, whose entry in the
//! ledger names both identities.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    ApplyCommand, Author, CampaignView, Lifecycle, OperateCommand, Operated, Operation, Result,
};
use crate::{
    chance::hex,
    model::{Campaign, CampaignId, Moment, RequestId},
};

/// The most open proposals of a campaign.
pub const OPEN_PROPOSALS_MAX: usize = 20;
/// The most proposals of a campaign that are kept although they are no longer open.
pub const DONE_PROPOSALS_MAX: usize = 20;
/// How long such a proposal is kept.
pub const DONE_PROPOSAL_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Bytes of the digest in an id.
const ID_BYTES: usize = 6;

/// Names a proposal of a campaign: 12 hexadecimal digits, derived from the request that proposed it
/// and from the moment. Once the proposal is removed, no other one gets its id: an approver names
/// nothing else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProposalId(String);

impl ProposalId {
    /// The id of the proposal that a request makes at a moment.
    pub(super) fn of(request: &RequestId, at: Moment) -> Self {
        let digest = Sha256::new()
            .chain_update(request.as_str())
            .chain_update(at.as_micros().to_be_bytes())
            .finalize();
        Self(hex(&digest[..ID_BYTES]))
    }

    /// Reads an id; none if the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_id = text.len() == 2 * ID_BYTES && text.bytes().all(is_digit);
        is_id.then(|| Self(text.into()))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProposalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is proposed. The definition of a version is kept apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposedAct {
    /// A new campaign or version: SHA-256 of its encoded definition, hexadecimal.
    Version(String),
    /// A close or a recall.
    Operation(Operation),
}

/// A proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Its id.
    pub id: ProposalId,
    /// What is proposed.
    pub act: ProposedAct,
    /// The version that it changes; 0 for a campaign that does not exist yet.
    pub base_version: u32,
    /// When it was proposed.
    pub at: Moment,
    /// From when on it can no longer be approved.
    pub expires: Moment,
    /// By whom it was proposed.
    pub author: Author,
    /// What became of it; none if nobody has decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// What an identity decided about a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// It was approved, else rejected.
    pub approved: bool,
    /// When.
    pub at: Moment,
    /// By whom.
    pub author: Author,
}

/// Where a proposal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalState {
    /// It can be approved.
    Open,
    /// It was approved.
    Approved,
    /// It was rejected.
    Rejected,
    /// Nobody decided in time.
    Expired,
    /// The campaign has another version now, or was closed.
    Void,
}

/// What a campaign is when proposals of it are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProposalBase {
    /// The current version; 0 if there is no campaign.
    pub version: u32,
    /// It was closed.
    pub is_closed: bool,
}

impl ProposalBase {
    /// That of a campaign.
    pub fn of(view: &CampaignView) -> Self {
        Self {
            version: view.version,
            is_closed: matches!(view.lifecycle, Lifecycle::Closing | Lifecycle::Closed),
        }
    }
}

impl Proposal {
    /// Where it stands at a moment.
    pub fn state(&self, base: ProposalBase, now: Moment) -> ProposalState {
        match &self.decision {
            Some(decision) if decision.approved => ProposalState::Approved,
            Some(_) => ProposalState::Rejected,
            None if base.version != self.base_version || base.is_closed => ProposalState::Void,
            None if now >= self.expires => ProposalState::Expired,
            None => ProposalState::Open,
        }
    }

    /// From when on it cannot be approved any more, whatever happens.
    pub(super) fn ended_by(&self) -> Moment {
        let decided = self.decision.as_ref().map(|decision| decision.at);
        decided.map_or(self.expires, |at| at.min(self.expires))
    }
}

/// The proposals of one campaign, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Proposals(pub Vec<Proposal>);

impl Proposals {
    /// The proposal of an id.
    pub fn get(&self, id: &ProposalId) -> Option<&Proposal> {
        self.0.iter().find(|known| known.id == *id)
    }

    /// The proposal that a request has made.
    pub fn of_request(&self, request: &RequestId) -> Option<&Proposal> {
        self.0.iter().find(|known| known.author.request == *request)
    }

    /// Until when the list is kept at least.
    pub(super) fn kept_until(&self) -> Moment {
        let ends = self.0.iter().map(|known| known.expires);
        ends.max().unwrap_or(Moment::EPOCH) + DONE_PROPOSAL_KEPT
    }
}

/// A change, as it is made at once or proposed.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new campaign or version.
    Version(ApplyCommand),
    /// A close or a recall.
    Operation(OperateCommand),
}

impl Change {
    /// Of which campaign.
    pub fn campaign(&self) -> &CampaignId {
        match self {
            Self::Version(command) => &command.campaign.id,
            Self::Operation(command) => &command.campaign,
        }
    }

    /// By whom.
    pub fn author(&self) -> &Author {
        match self {
            Self::Version(command) => &command.author,
            Self::Operation(command) => &command.author,
        }
    }

    pub(super) fn author_mut(&mut self) -> &mut Author {
        match self {
            Self::Version(command) => &mut command.author,
            Self::Operation(command) => &mut command.author,
        }
    }
}

/// What is proposed, with the definition of a version.
#[derive(Clone, Debug)]
pub enum Proposed {
    /// A new campaign or version.
    Version(Arc<Campaign>),
    /// A close or a recall.
    Operation(Operation),
}

/// Proposes a change.
#[derive(Clone, Debug)]
pub struct ProposeCommand {
    /// Of which campaign.
    pub campaign: CampaignId,
    /// The version that it changes; 0 for a campaign that does not exist yet.
    pub base_version: u32,
    /// What.
    pub proposed: Proposed,
    /// How long it can be approved.
    pub ttl: Duration,
    /// By whom.
    pub author: Author,
}

/// Approves a proposal: makes its change.
#[derive(Clone, Debug)]
pub struct ApproveCommand {
    /// Which.
    pub proposal: ProposalId,
    /// What was proposed, with the author who approves it.
    pub change: Change,
}

/// Rejects a proposal.
#[derive(Clone, Debug)]
pub struct RejectCommand {
    /// Of which campaign.
    pub campaign: CampaignId,
    /// Which.
    pub proposal: ProposalId,
    /// By whom.
    pub author: Author,
}

/// The reply to a proposal or a rejection.
#[derive(Clone, Debug)]
pub struct ProposalReply {
    /// The proposal as it stands.
    pub proposal: Proposal,
    /// An earlier command with this request id did it.
    pub replayed: bool,
}

/// What a store does with proposals: a part of [`super::Store`], with the same promises and errors.
#[async_trait]
pub trait ProposalStore: Send + Sync {
    /// Keeps a proposal. The change itself is not checked, but for its base version.
    async fn propose(&self, command: ProposeCommand) -> Result<ProposalReply>;

    /// Approves a proposal and makes its change, in one step.
    async fn approve(&self, command: ApproveCommand) -> Result<Operated>;

    /// Rejects a proposal.
    async fn reject(&self, command: RejectCommand) -> Result<ProposalReply>;

    /// The proposals of a campaign; none of one that was removed.
    async fn proposals(&self, campaign: &CampaignId) -> Result<Proposals>;

    /// The definition that a proposal of a version has.
    async fn proposed_definition(
        &self,
        campaign: &CampaignId,
        proposal: &ProposalId,
    ) -> Result<Option<Arc<Campaign>>>;

    /// Campaigns that have proposals which are still kept, by id, after `after`, at most `limit`.
    async fn campaigns_with_proposals(
        &self,
        after: Option<&CampaignId>,
        limit: usize,
    ) -> Result<Vec<CampaignId>>;
}
