//! The end of a campaign's data: a closed campaign leaves the store once its ledger is settled.
//!
//! First its *tombstone* is written, in one step with which the campaign ceases to exist for all
//! calls. Its id is not used again. Then its data are removed in small steps. The tombstone says
//! how far that is, so any service may take the next step.

use std::time::Duration;

use async_trait::async_trait;

use super::{Refusal, Result, StoreError};
use crate::model::{CampaignId, Moment};

/// The most fields or rows that one step removes.
pub const REMOVED_FIELDS_MAX: usize = 500;

/// A closed campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedCampaign {
    /// Since when nothing has happened to it; the epoch once its data are being removed.
    pub since: Moment,
    /// Which.
    pub id: CampaignId,
}

impl ClosedCampaign {
    /// It has a tombstone, and some of its data may be left.
    pub fn is_leaving(&self) -> bool {
        self.since == Moment::EPOCH
    }

    /// The latest `since` of campaigns that were left alone for `keep`. Those that are leaving are
    /// always among them.
    pub(super) fn latest(now: Moment, keep: Duration) -> Moment {
        let keep = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        Moment::from_micros(now.as_micros().saturating_sub(keep).max(0))
    }
}

/// What must be true when a tombstone is written: the settled ledger has everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovalFence {
    /// The number of the campaign's last entry, which is settled.
    pub entries: u64,
    /// The fork under which the partition is settled; empty on a store without forks.
    pub fork: String,
}

/// A part of [`super::Store`], with the same errors.
#[async_trait]
pub trait RemovalStore: Send + Sync {
    /// Closed campaigns of a partition that nothing has happened to for `keep`: those that are
    /// leaving, then the others, the longest closed first, those after `after`, at most `limit`.
    async fn closed_campaigns(
        &self,
        partition: u32,
        keep: Duration,
        after: Option<&ClosedCampaign>,
        limit: usize,
    ) -> Result<Vec<ClosedCampaign>>;

    /// Writes the tombstone of a closed campaign. Does nothing, and is false, if the campaign is
    /// not as the fence says, or if something has happened to it within the request memory.
    async fn begin_removal(&self, id: &CampaignId, fence: &RemovalFence) -> Result<bool>;

    /// Removes up to [`REMOVED_FIELDS_MAX`] fields of a campaign that has a tombstone; true if
    /// there may be more.
    async fn remove_some(&self, id: &CampaignId) -> Result<bool>;
}

impl StoreError {
    /// The same error of a draw: a campaign whose data have left the store refuses draws for the
    /// reason for which it did so before.
    pub(super) fn of_draw(self, now: Moment) -> Self {
        match self {
            Self::Refused(Refusal::Removed { end }) => Refusal::of_removed(end, now).into(),
            other => other,
        }
    }
}

impl Refusal {
    /// Why a campaign whose data have left the store takes no draws.
    pub fn of_removed(end: Moment, now: Moment) -> Self {
        if now >= end {
            Self::Ended(end)
        } else {
            Self::Closed
        }
    }
}
