//! Bonus draws that callers grant: the command, its entry and its answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::LedgerId;
use crate::model::{
    Campaign, CampaignId, Moment, RequestId, UserId,
    limits::{Quotas, UserCounts},
};

/// Grants a user bonus draws, all or nothing.
#[derive(Clone, Debug)]
pub struct BonusCommand {
    /// Whose draws.
    pub campaign: CampaignId,
    /// Who gets them.
    pub user: UserId,
    /// Names the grant for retries. Draws of the user have no request of this id.
    pub request: RequestId,
    /// How many, at least 1.
    pub draws: u32,
    /// They lapse at this moment.
    pub expires: Moment,
    /// The service's deadline: the store does not begin the grant after it.
    pub not_after: Moment,
}

/// A grant of a caller. Fields in this order are part of the ledger's canonical form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BonusEntry {
    /// The campaign's version.
    pub version: u32,
    /// Who got the draws.
    pub user: UserId,
    /// The request id.
    pub request: RequestId,
    /// How many.
    pub draws: u32,
    /// They lapse at this moment.
    pub expires: Moment,
    /// The user's counts just after.
    pub counts: UserCounts,
}

/// A grant as the ledger has it.
#[derive(Clone, Debug)]
pub struct BonusAnswer {
    /// The entry.
    pub entry: Arc<BonusEntry>,
    /// Its name.
    pub ledger: LedgerId,
    /// When it was made.
    pub at: Moment,
    /// An earlier command made it.
    pub replayed: bool,
    /// The definition it was made under.
    pub campaign: Arc<Campaign>,
}

impl BonusAnswer {
    /// The limits of a user in no segment, just after the grant.
    pub fn quotas(&self) -> Quotas {
        Quotas::new(&self.campaign, &[], &self.entry.counts, self.at)
    }
}
