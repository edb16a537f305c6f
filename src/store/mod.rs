//! Durable state behind one trait of whole operations, each one atomic step: atomicity is the
//! store's duty.
//!
//! Nothing here knows gRPC, seeds or how a plan becomes units; the store checks, moves and records
//! what it is given. Time is the store's own clock and never steps back.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

pub mod backup;
pub mod bonus;
pub mod clock;
pub mod codes;
pub mod command;
pub(crate) mod delay;
pub mod delivery;
pub mod draw_result;
pub mod entry;
pub mod envelope;
pub mod error;
pub mod fill;
pub mod hold;
pub mod lane;
pub mod last_windows;
pub mod listing;
pub mod memory;
pub mod operation;
pub mod partition;
pub mod proposal;
pub mod redis;
pub mod removal;
pub mod replica;
mod rules;
pub mod settling;
pub mod sqlite;
pub mod view;
pub mod withdrawal;

pub use backup::Backup;
pub use bonus::{BonusAnswer, BonusCommand, BonusEntry};
pub use codes::{CodeCounts, CodeStore, SealedBlock};
pub use command::{ApplyCommand, DrawAnswer, DrawCommand, Drawn, Need, OperateCommand, Operated};
pub use delivery::{Delivery, DeliveryState, WinCommand, WinOperated, WinOperation, WonUnit};
pub use draw_result::{Cause, DrawResult, Unit};
pub use entry::{Entry, LedgerId, Subject};
pub use envelope::{
    CancelEnvelope, CreateEnvelope, EnvelopeReply, EnvelopeSums, EnvelopeTotals, EnvelopeView,
    FillEnvelope, GrabAnswer, GrabCommand, GrabOutcome, GrabView, Grabbed, Settled,
};
pub use error::{Executed, Refusal, Result, StoreError};
pub use fill::{
    AdjustCommand, DealCommand, DueCampaign, FillCommand, Filled, FreezeCommand, Step, Sweep, Swept,
};
pub use hold::{BlockedUser, BlockedUsers, Hold, HoldNote, Holds};
pub use lane::{LaneKind, LaneUse};
pub use listing::{CampaignPage, Unread};
pub use operation::{Approved, Author, Operation};
pub use partition::{PartitionState, Trouble};
pub use proposal::{
    ApproveCommand, Change, Proposal, ProposalBase, ProposalId, ProposalReply, ProposalState,
    ProposalStore, Proposals, ProposeCommand, Proposed, ProposedAct, RejectCommand,
};
pub use removal::{ClosedCampaign, RemovalFence, RemovalStore};
pub use replica::{REPLICA_INTERVAL, REPLICA_KEPT, Replica, ReplicaState, ReplicaView};
pub use settling::{Backlog, BacklogBound, Memory, SettleStore, SettledUpTo, Unsettled};
pub use view::{CampaignView, Filling, Lifecycle, Stats, UserDetails, UserView, WindowView};

use crate::model::{Campaign, CampaignId, EnvelopeId, Moment, PoolNo, RequestId, UserId};

/// Bytes of stored entries after which a page of the ledger ends. Many may be read at once, and one
/// entry alone may have two million: a campaign's definition.
pub const LEDGER_PAGE_BYTES: usize = 256 << 10;

/// How long an acknowledged draw survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// In the memory of the process, and nowhere else: gone with the store. No server offers it.
    Volatile,
    /// On disk (fsync) before the answer.
    Embedded,
    /// In Redis's memory, on its disk within about a second (`appendfsync everysec`): a crash of
    /// the Redis host may undo about two seconds.
    Fast,
    /// On Redis's disk (`appendfsync always`) before the answer: survives a crash of its host; a
    /// failover may undo what was not replicated.
    Local,
    /// The same, and held by replicas before the answer: survives the loss of the primary.
    Strict,
}

/// What a store is.
#[derive(Clone, Debug)]
pub struct StoreInfo {
    /// Made when the store was first initialised.
    pub store_id: String,
    /// What it promises of an acknowledged draw. What it keeps just now: [`Store::durability`].
    pub durability: Durability,
    /// Its clock is not the real time.
    pub test_clock: bool,
    /// How many times as fast as real time its clock runs: 1, unless a test asks for more.
    pub clock_speed: u32,
    /// Parts of the store, each with a ledger of its own.
    pub partitions: u32,
}

/// A part of the store whose clock stands still: it was written while the clock of its machine was
/// ahead, and no time of the store ever steps back. Draws go on; nothing is released, begins or
/// ends there until the clock has caught up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandingStill {
    /// Which one.
    pub partition: u32,
    /// The moment at which it stands, and from which it goes on.
    pub until: Moment,
}

/// Durable state. Every method is one atomic step or one consistent read.
///
/// Errors: [`StoreError::Refused`] if a rule forbids it, [`StoreError::Overloaded`] and
/// [`StoreError::Unavailable`] for faults; each says whether the step may have happened.
#[async_trait]
pub trait Store: EnvelopeStore + SettleStore + RemovalStore + CodeStore + ProposalStore {
    /// What this store is.
    fn info(&self) -> &StoreInfo;

    /// What is kept of a draw that is acknowledged now: less than promised only if someone changed
    /// the server's settings, and the store was opened to go on then.
    fn durability(&self) -> Durability {
        self.info().durability
    }

    /// A number that changes whenever the data may have been rolled back while this service runs.
    /// What it read before may be of a campaign that is lost, whose id another one may have.
    fn rollback_mark(&self) -> u64 {
        0
    }

    /// An estimate of the store's clock that costs nothing.
    fn clock_hint(&self) -> Moment;

    /// An estimate of the store's clock after this much real time.
    fn clock_hint_in(&self, time: Duration) -> Moment {
        self.clock_hint() + time * self.info().clock_speed
    }

    /// An estimate of the real time that has passed since a moment of the store's clock.
    fn passed_since(&self, moment: Moment) -> Duration {
        self.clock_hint().since(moment) / self.info().clock_speed
    }

    /// The store's clock; fails while the store cannot do its work, so it is also the probe of its
    /// health.
    async fn now(&self) -> Result<Moment>;

    /// The clock by which a campaign's draws are made and its end comes: that of its part of the
    /// store.
    async fn time_of(&self, _campaign: &CampaignId) -> Result<Moment> {
        self.now().await
    }

    /// Partitions that did not do their work when [`Self::now`] asked them last. That fails only if
    /// no partition works, so that one of many does not stop the others.
    fn troubles(&self) -> Vec<Trouble> {
        Vec::new()
    }

    /// A copy of everything as of one moment. None if others make copies of the store's data: the
    /// means of its server, or nobody, since it has no data that last.
    async fn backup(&self) -> Result<Option<Backup>> {
        Ok(None)
    }

    /// Parts of the store whose clock stands still for now.
    fn standing_still(&self) -> Vec<StandingStill> {
        Vec::new()
    }

    /// The time of what operators read: the store's clock, as far as it is known while a part of
    /// the store is halted or damaged.
    async fn read_time(&self) -> Result<Moment> {
        match self.now().await {
            Err(StoreError::Halted(_) | StoreError::Corrupt { .. }) => Ok(self.clock_hint()),
            now => now,
        }
    }

    /// Sets how long calls may wait in the queues of draws and grabs while these stand: from then
    /// on, calls that wait for longer are [`StoreError::Overloaded`]. Without it none is dropped.
    fn bound_delay(&self, _target: Duration) {}

    /// Whether all draws and grabs would wait for too long now, so that it is better to refuse them
    /// at once. Always false without [`Self::bound_delay`].
    fn is_congested(&self) -> bool {
        false
    }

    /// How busy the lanes of this service are; empty if it has none.
    fn lanes(&self) -> Vec<LaneUse> {
        Vec::new()
    }

    /// Announces a replica of the service to those that list replicas, under an id of its own; the
    /// time of the store's server. A store within its process has no other replicas and no server.
    async fn announce(&self, _id: &str, _replica: &Replica) -> Result<Option<Moment>> {
        Ok(None)
    }

    /// Takes a replica that stops off the list.
    async fn retire(&self, _id: &str) -> Result<()> {
        Ok(())
    }

    /// The replicas that were announced in the last [`REPLICA_KEPT`].
    async fn replicas(&self) -> Result<Vec<ReplicaView>> {
        Ok(Vec::new())
    }

    /// Draws, as "what a draw does, exactly" says: replay, campaign state, limits, units, record,
    /// memory, ledger.
    async fn draw(&self, command: Arc<DrawCommand>) -> Result<Drawn>;

    /// Grants a user bonus draws: replay, campaign state, limit, record, memory, ledger.
    async fn grant_bonus(&self, command: BonusCommand) -> Result<BonusAnswer>;

    /// What a remembered draw answered.
    async fn find_draw(
        &self,
        campaign: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<DrawAnswer>;

    /// A user's record.
    async fn user(&self, campaign: &CampaignId, user: &UserId) -> Result<UserView>;

    /// A user's record and block. A user who never drew has an empty record.
    async fn user_details(&self, campaign: &CampaignId, user: &UserId) -> Result<UserDetails>;

    /// A campaign's blocked users by id, after `after`, at most `limit`.
    async fn blocked_users(
        &self,
        campaign: &CampaignId,
        after: Option<&UserId>,
        limit: usize,
    ) -> Result<BlockedUsers>;

    /// Creates a campaign or a new version of one. The rules of what may change are checked in the
    /// step.
    async fn apply(&self, command: ApplyCommand) -> Result<Operated>;

    /// An operator's act.
    async fn operate(&self, command: OperateCommand) -> Result<Operated>;

    /// Notes that a win was delivered, or revokes it. A win is delivered under one reference, and
    /// revoked at most once.
    async fn operate_win(&self, command: WinCommand) -> Result<WinOperated>;

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
        after: Option<&CampaignId>,
        limit: usize,
    ) -> Result<Vec<CampaignId>>;
    /// The same without those that cannot be read now. Fails if none can be read.
    async fn readable_campaigns(&self, after: Option<&str>, limit: usize) -> Result<CampaignPage> {
        Ok(CampaignPage::of(self.campaigns(after, limit).await?, limit))
    }

    /// Campaigns of a partition that the injector has something to do with by `lead` after the
    /// store's clock, the longest due first, those after `after`, at most `limit`. Closed ones are
    /// never among them.
    async fn due_campaigns(
        &self,
        partition: u32,
        lead: Duration,
        after: Option<&DueCampaign>,
        limit: usize,
    ) -> Result<Vec<DueCampaign>>;

    /// Brings the moment at which [`Self::due_campaigns`] finds a campaign to what its state says
    /// now. Every step but a draw does the same.
    async fn index(&self, id: &CampaignId) -> Result<()>;

    /// Lets [`Self::due_campaigns`] find every campaign of a partition that is not closed and that
    /// it does not know: those that were written by a version without an index. They are due at
    /// once.
    async fn complete_index(&self, partition: u32) -> Result<()>;

    /// How far the pools of a campaign are filled.
    async fn filling(&self, id: &CampaignId) -> Result<Filling>;

    /// Freezes windows.
    async fn freeze(&self, command: FreezeCommand) -> Result<Step>;

    /// Brings an injected window to a new plan.
    async fn adjust(&self, command: AdjustCommand) -> Result<Step>;

    /// Puts units of a frozen window into its pool.
    async fn fill(&self, command: FillCommand) -> Result<Filled>;

    /// Deals chunks of a deck.
    async fn deal(&self, command: DealCommand) -> Result<Step>;

    /// Takes a chunk of units out of pools.
    async fn sweep(&self, campaign: &CampaignId, sweep: Sweep) -> Result<Swept>;

    /// Forgets a chunk of requests older than the memory's window; true if there may be more.
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

    /// Entries of a partition's ledger after `sequence`, in order, at most `limit`. Once
    /// [`LEDGER_PAGE_BYTES`] are read, nothing more is, so there may be more although there are
    /// fewer than `limit`.
    async fn ledger(&self, partition: u32, sequence: u64, limit: usize) -> Result<Vec<Entry>>;
}

/// What a store does with envelopes: a part of [`Store`], with the same promises and errors.
#[async_trait]
pub trait EnvelopeStore: Send + Sync {
    /// Creates an envelope, without its packets. The same command again gives the envelope as it
    /// stands; an id that was ever used otherwise is refused.
    async fn create_envelope(&self, command: CreateEnvelope) -> Result<EnvelopeReply>;

    /// Grabs a packet for a user, one in all, in one step: the user's packet of before, the
    /// envelope's state, the packet, the memory of it, ledger. What is checked, and in which order,
    /// is [`GrabOutcome`]'s; an expired envelope gives nothing, whether or not it is refunded yet.
    /// Where the next packet is not filled in: [`Grabbed::NeedFill`]. The last packet ends the time
    /// for which the envelope is kept.
    async fn grab(&self, command: GrabCommand) -> Result<Grabbed>;

    /// Puts the next packets in.
    async fn fill_envelope(&self, command: FillEnvelope) -> Result<Step>;

    /// Refunds what is left of an envelope now, unless nothing is left.
    async fn cancel_envelope(&self, command: CancelEnvelope) -> Result<EnvelopeReply>;

    /// An envelope as it stands.
    async fn envelope(&self, id: &EnvelopeId) -> Result<EnvelopeView>;

    /// Who has which packet, those after `packet`, in order, at most `limit`.
    async fn grabs(&self, id: &EnvelopeId, packet: u32, limit: usize) -> Result<Vec<GrabView>>;

    /// Envelopes of a partition that [`Self::settle_envelope`] has work with by the store's clock,
    /// the longest due first, at most `limit`.
    async fn due_envelopes(
        &self,
        partition: u32,
        retention: Duration,
        limit: usize,
    ) -> Result<Vec<EnvelopeId>>;

    /// Refunds the rest of an envelope that has expired, or removes a chunk of one that was settled
    /// `retention` ago; else nothing.
    async fn settle_envelope(&self, id: &EnvelopeId, retention: Duration) -> Result<Settled>;

    /// The sums of all envelopes ever created.
    async fn envelope_sums(&self) -> Result<EnvelopeTotals>;
}
