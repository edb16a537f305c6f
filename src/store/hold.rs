//! What operators hold back: a campaign's draws, a prize, users. Each with a note of who did it,
//! when and why.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{Moment, OperatorId, PrizeNo, UserId};

/// Who began a hold or a block, when and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldNote {
    /// Since when, by the store's clock.
    pub at: Moment,
    /// Who.
    pub operator: OperatorId,
    /// Why; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A paused campaign or a paused prize.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The prize; none if the whole campaign is paused.
    pub prize: Option<PrizeNo>,
    /// None if a version of tombola that kept no notes paused it.
    pub note: Option<HoldNote>,
}

/// The holds of a campaign: first the campaign itself, then its prizes by number.
pub type Holds = Arc<[Hold]>;

/// A user who is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedUser {
    /// Who.
    pub user: UserId,
    /// None if a version of tombola that kept no notes blocked the user.
    pub note: Option<HoldNote>,
}

/// Some of a campaign's blocked users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedUsers {
    /// By id.
    pub users: Vec<BlockedUser>,
    /// All blocked users of the campaign. On Redis they may be more than are ever listed: older
    /// versions of tombola kept only a digest of a blocked user's id.
    pub total: u64,
}
