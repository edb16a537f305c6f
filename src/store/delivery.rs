//! What becomes of a win: it is delivered to its user, or revoked.

use serde::{Deserialize, Serialize};

use super::{Unit, operation::Author};
use crate::model::{CampaignId, Moment, PoolNo, PrizeNo, UserId};

/// A unit that a user won.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WonUnit {
    /// Who won it.
    pub user: UserId,
    /// Of which prize.
    pub prize: PrizeNo,
    /// From which pool.
    pub pool: PoolNo,
    /// Which unit.
    pub unit: Unit,
}

/// How far a win is that is not pending any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// The user has it.
    Delivered,
    /// The user does not get it, or does not keep it. Final.
    Revoked,
}

/// What became of a win.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// How far it is.
    pub state: DeliveryState,
    /// The reference of its delivery; empty if it was never delivered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reference: String,
    /// Since when.
    pub at: Moment,
}

/// What is done about a win.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum WinOperation {
    /// Notes that the user has it.
    Deliver {
        /// The delivery's reference in the system that made it.
        reference: String,
    },
    /// Takes it away from the user. The unit goes back to stock; after the campaign's end it leaves
    /// the campaign.
    Revoke {
        /// The unit leaves the campaign in any case.
        withdraw: bool,
    },
}

/// An operation on a win with its author.
#[derive(Clone, Debug)]
pub struct WinCommand {
    /// The campaign.
    pub campaign: CampaignId,
    /// The win. That the user won it is for the caller to know: the store has the draws only for
    /// a while.
    pub win: WonUnit,
    /// What.
    pub operation: WinOperation,
    /// By whom.
    pub author: Author,
}

/// The reply to an operation on a win.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WinOperated {
    /// An earlier command did it: of the same request, or with the same reference.
    pub replayed: bool,
    /// What became of the win, as it is now.
    pub delivery: Delivery,
}
