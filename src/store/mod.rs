//! Durable state behind one trait of whole operations, each one atomic step: atomicity is the store's duty.
//!
//! Nothing here knows gRPC, seeds or how a plan becomes units; the store checks, moves and records what it is given.
//! Time is the store's own clock and never steps back.

use std::sync::Arc;

use async_trait::async_trait;

pub mod clock;
pub mod command;
pub mod entry;
pub mod error;
pub mod fill;
pub mod redis;
mod rules;
pub mod sqlite;
pub mod view;

pub use command::{
    ApplyCommand, Author, DrawAnswer, DrawCommand, Drawn, Need, OperateCommand, Operated, Operation,
};
pub use entry::{Entry, LedgerId};
pub use error::{Executed, Refusal, Result, StoreError};
pub use fill::{
    AdjustCommand, DealCommand, FillCommand, Filled, Filling, FreezeCommand, Step, Sweep, Swept,
};
pub use view::{CampaignView, Lifecycle, Stats, UserView, WindowView};

use crate::model::{Campaign, CampaignId, Moment, PoolNo, RequestId, UserId};

/// How long an acknowledged draw survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On disk (fsync) before the answer.
    Embedded,
    /// In Redis's memory, on its disk within about a second (`appendfsync everysec`): a crash of the Redis host may undo
    /// about two seconds.
    Fast,
    /// On Redis's disk (`appendfsync always`) before the answer: survives a crash of its host; a failover may undo what was
    /// not replicated.
    Local,
}

/// What a store is.
#[derive(Clone, Debug)]
pub struct StoreInfo {
    /// Made when the store was first initialised.
    pub store_id: String,
    /// What it promises of an acknowledged draw.
    pub durability: Durability,
    /// Its clock is not the real time.
    pub test_clock: bool,
    /// Parts of the store, each with a ledger of its own.
    pub partitions: u32,
}

/// Durable state. Every method is one atomic step or one consistent read.
///
/// Errors: [`StoreError::Refused`] where a rule forbids it, [`StoreError::Overloaded`] and
/// [`StoreError::Unavailable`] for faults; each says whether the step may have happened.
#[async_trait]
pub trait Store: Send + Sync {
    /// What this store is.
    fn info(&self) -> &StoreInfo;

    /// An estimate of the store's clock that costs nothing.
    fn clock_hint(&self) -> Moment;

    /// The store's clock; fails while the store cannot do its work, so it is also the probe of its health.
    async fn now(&self) -> Result<Moment>;

    /// Draws, as "what a draw does, exactly" says: replay, campaign state, limits, units, record, memory, ledger.
    async fn draw(&self, command: DrawCommand) -> Result<Drawn>;

    /// What a remembered draw answered.
    async fn find_draw(
        &self,
        campaign: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<DrawAnswer>;

    /// A user's record.
    async fn user(&self, campaign: &CampaignId, user: &UserId) -> Result<UserView>;

    /// Creates a campaign or a new version of one. The rules of what may change are checked in the step.
    async fn apply(&self, command: ApplyCommand) -> Result<Operated>;

    /// An operator's act.
    async fn operate(&self, command: OperateCommand) -> Result<Operated>;

    /// A campaign as it stands.
    async fn campaign(&self, id: &CampaignId) -> Result<CampaignView>;

    /// A version's definition.
    async fn version(&self, id: &CampaignId, version: u32) -> Result<Arc<Campaign>>;

    /// Campaigns by id, after `after`, at most `limit`; closed ones too.
    async fn campaigns(&self, after: Option<&str>, limit: usize) -> Result<Vec<CampaignView>>;

    /// Ids of a partition's campaigns, in order, after `after`, at most `limit`; closed ones too.
    async fn campaign_ids(
        &self,
        partition: u32,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<CampaignId>>;

    /// How far the pools of a campaign are filled.
    async fn filling(&self, id: &CampaignId) -> Result<Filling>;

    /// Freezes windows.
    async fn freeze(&self, command: FreezeCommand) -> Result<Step>;

    /// Brings an injected window to a new plan.
    async fn adjust(&self, command: AdjustCommand) -> Result<Step>;

    /// Puts units of a frozen window into its pool.
    async fn fill(&self, command: FillCommand) -> Result<Filled>;

    /// Deals a chunk of a deck.
    async fn deal(&self, command: DealCommand) -> Result<Step>;

    /// Takes a chunk of units out of pools.
    async fn sweep(&self, campaign: &CampaignId, sweep: Sweep) -> Result<Swept>;

    /// Forgets a chunk of requests older than the memory's window; true where there may be more.
    async fn forget(&self) -> Result<bool>;

    /// Where every unit is.
    async fn stats(&self, id: &CampaignId) -> Result<Stats>;

    /// Frozen windows of a pool that end after `after`, by start, at most `limit`.
    async fn windows(
        &self,
        id: &CampaignId,
        pool: PoolNo,
        after: Moment,
        limit: usize,
    ) -> Result<Vec<WindowView>>;

    /// Entries of a partition's ledger after `sequence`, in order, at most `limit`.
    async fn ledger(&self, partition: u32, sequence: u64, limit: usize) -> Result<Vec<Entry>>;
}
