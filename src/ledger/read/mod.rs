//! Reading the settled ledger: from the sink, never from the store, so that lists do not depend on
//! what the store has given up.
//!
//! [`LedgerReader`] is the trait of what can be read, one implementation for each sink that can be
//! queried. Nothing here knows gRPC.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use thiserror::Error;
use tokio::sync::Notify;

pub mod definitions;
mod found;
pub mod fresh;
pub mod postgres;
pub mod query;
mod row;
pub mod sql;
pub mod sqlite;

pub use query::{EntryQuery, Kinds, Position, Range, Removed, Rows, Seen, WinQuery};
pub use row::EntryRow;

use super::{
    activity::Hour, entry::Unreadable, forget::Erasable, removed::RemovedCampaign, sink::SinkError,
    wins::Win,
};
use crate::{
    model::{Campaign, CampaignId, Moment, RequestId, UserId},
    store::{Entry, LedgerId, SettledUpTo, view::VersionInfo},
};

/// Why the settled ledger could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The sink is away or refuses.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// All connections are at work.
    #[error("too many lists are read at once")]
    Busy,
    /// An entry cannot be decoded.
    #[error("entry {} of partition {}: {cause}", .id.sequence, .id.partition)]
    Unreadable {
        /// Which.
        id: LedgerId,
        /// Why.
        cause: Unreadable,
    },
    /// What is kept of a removed campaign cannot be decoded.
    #[error("what is kept of the removed campaign {campaign} does not read back: {cause}")]
    UnreadableCampaign {
        /// Which.
        campaign: String,
        /// Why.
        cause: String,
    },
}

/// How far a partition is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledTo {
    /// The last settled entry, and the fork under which it was read.
    pub up_to: SettledUpTo,
    /// When that entry was written, by the store's clock.
    pub at: Moment,
}

/// How far the delivery of a win is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryState {
    /// Nobody has said that it was delivered.
    #[default]
    Pending,
    /// The winner has it.
    Delivered,
    /// It was taken back, for good.
    Revoked,
}

/// The delivery of a win.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// How far it is.
    pub state: DeliveryState,
    /// The reference of its delivery; empty if it was never delivered.
    pub reference: String,
    /// When the state was set; none if it never was.
    pub at: Option<Moment>,
}

/// A unit that was won, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledWin {
    /// Who won which unit.
    pub win: Win,
    /// Its delivery.
    pub delivery: Delivery,
}

/// The settled ledger of one store, for those who serve it.
#[derive(Clone)]
pub struct SettledLedger {
    /// Reads it.
    pub reader: Arc<dyn LedgerReader>,
    /// Wakes the settler of this process.
    pub wake: Arc<Notify>,
    /// Where users can be erased, if this process may do that.
    pub erasable: Option<Erasable>,
}

/// Reads what is settled of one store.
///
/// Each method but [`Self::entries`] is one consistent read. Errors: see [`ReadError`].
#[async_trait]
pub trait LedgerReader: Send + Sync {
    /// How far each partition is settled; a partition is missing if nothing of it is settled.
    async fn cursors(&self) -> Result<BTreeMap<u32, SettledTo>, ReadError>;

    /// Entries of a partition after the number `after`, in order, at most `limit`, and none after
    /// [`crate::store::LEDGER_PAGE_BYTES`] of them. Those that the store has lost in a rollback are
    /// left out. There are none only if none follow.
    async fn entries(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, ReadError>;

    /// The win of a unit.
    async fn win(&self, campaign: &CampaignId, unit: &str)
    -> Result<Option<SettledWin>, ReadError>;

    /// A part of the list of wins.
    async fn wins(&self, query: &WinQuery) -> Result<Rows<SettledWin>, ReadError>;

    /// The draws of these wins, in any order.
    async fn draws_of(&self, wins: &[&Win]) -> Result<Vec<Entry>, ReadError>;

    /// A part of a list of entries. It may have fewer than were asked for although there are more,
    /// if they are large.
    async fn list(&self, query: &EntryQuery) -> Result<Rows<Entry>, ReadError>;

    /// What came of a campaign's draws in the hours that begin from the first moment on and before
    /// the second, in order. Hours without draws are left out.
    async fn activity(
        &self,
        campaign: &CampaignId,
        between: (Moment, Moment),
    ) -> Result<Vec<Hour>, ReadError>;

    /// The entry that brought a version of a campaign into force; of the newest version if none is
    /// named.
    async fn applied(
        &self,
        campaign: &CampaignId,
        version: Option<u32>,
    ) -> Result<Option<Entry>, ReadError>;

    /// The draw of a request.
    async fn draw(
        &self,
        campaign: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<Option<Entry>, ReadError>;

    /// Campaigns whose data have left the store, by id, without their list of versions. Some may
    /// still be in the store: what the store has counts.
    async fn removed(&self, which: Removed<'_>) -> Result<Vec<RemovedCampaign>, ReadError>;

    /// The versions of such a campaign, oldest first.
    async fn removed_versions(&self, campaign: &CampaignId) -> Result<Vec<VersionInfo>, ReadError>;

    /// The definition of a version of such a campaign.
    async fn removed_version(
        &self,
        campaign: &CampaignId,
        version: u32,
    ) -> Result<Option<Arc<Campaign>>, ReadError>;
}
