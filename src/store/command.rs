//! Commands that change a campaign's state, and their replies. Each is one atomic step of the
//! store.

use std::sync::Arc;

use super::{
    codes::SealedBlock,
    entry::{DrawEntry, LedgerId},
    operation::{Author, Operation},
};
use crate::{
    chance::{Nonce, UserChance},
    model::{
        Campaign, CampaignId, Moment, PoolNo, RequestId, SegmentId, UserId,
        limits::{Funding, Quotas},
    },
};

/// The most draws of one command.
pub const DRAW_COUNT_MAX: u32 = 100;

/// Draws `count` times for a user, all or nothing.
#[derive(Clone, Debug)]
pub struct DrawCommand {
    /// Whose prizes.
    pub campaign: CampaignId,
    /// Who draws.
    pub user: UserId,
    /// Names the draw for retries.
    pub request: RequestId,
    /// 1 to [`DRAW_COUNT_MAX`].
    pub count: u32,
    /// What pays.
    pub funding: Funding,
    /// The caller's reference of the payment, for the ledger.
    pub payment_ref: String,
    /// The pools are not touched.
    pub consolation_only: bool,
    /// Those that the user is in, as the caller says; no part of the request's contents.
    pub segments: Vec<SegmentId>,
    /// The caller's own limit: not drawn after it.
    pub expire: Option<Moment>,
    /// The service's deadline: the store does not begin the draw after it.
    pub not_after: Moment,
    /// The user's own chance, which draws of personal pools need; no part of the request's
    /// contents.
    pub chance: Option<Arc<UserChance>>,
}

/// What became of a draw that was not refused.
#[derive(Clone, Debug)]
pub enum Drawn {
    /// It is made, now or by an earlier command of the same request.
    Done(DrawAnswer),
    /// Nothing happened: these pools must be filled first.
    NeedFill(Vec<Need>),
    /// Nothing happened: the campaign has personal pools, and the command has no chance for them.
    NeedChance,
}

/// A pool that is not filled as far as a draw needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The pool.
    pub pool: PoolNo,
    /// Cards that must wait in a deck for the draw to go on; 0 for a schedule.
    pub cards: u64,
}

/// A draw as the ledger has it.
#[derive(Clone, Debug)]
pub struct DrawAnswer {
    /// The entry.
    pub entry: Arc<DrawEntry>,
    /// Its name.
    pub ledger: LedgerId,
    /// When it was made.
    pub at: Moment,
    /// An earlier command made it.
    pub replayed: bool,
    /// The definition it was made under.
    pub campaign: Arc<Campaign>,
    /// Pools that must be filled beside the draws: decks that will soon need more cards; schedules
    /// that gave a unit of an earlier time though they are not filled up to now.
    pub running_low: Vec<PoolNo>,
}

impl DrawAnswer {
    /// The answer to a retry.
    pub(super) fn replayed(
        entry: Arc<DrawEntry>,
        ledger: LedgerId,
        at: Moment,
        campaign: Arc<Campaign>,
    ) -> Self {
        Self {
            entry,
            ledger,
            at,
            replayed: true,
            campaign,
            running_low: Vec::new(),
        }
    }

    /// The user's limits just after the draw.
    pub fn quotas(&self) -> Quotas {
        let DrawEntry {
            segments, counts, ..
        } = &*self.entry;
        Quotas::new(&self.campaign, segments, counts, self.at)
    }
}

/// Creates a campaign or a new version of one.
#[derive(Clone, Debug)]
pub struct ApplyCommand {
    /// The definition.
    pub campaign: Arc<Campaign>,
    /// The version it changes; 0 for a new campaign.
    pub base_version: u32,
    /// For a new campaign: the nonce of its seed.
    pub nonce: Nonce,
    /// For a new campaign: SHA-256 of its seed, hexadecimal.
    pub commitment: String,
    /// By whom.
    pub author: Author,
}

/// An operation with its author.
#[derive(Clone, Debug)]
pub struct OperateCommand {
    /// On which campaign.
    pub campaign: CampaignId,
    /// What.
    pub operation: Operation,
    /// The codes that [`Operation::ImportCodes`] brings, encrypted; nothing with others.
    pub blocks: Vec<SealedBlock>,
    /// By whom.
    pub author: Author,
}

/// The reply to an operation or a new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operated {
    /// An earlier command with this request id did it.
    pub replayed: bool,
    /// Its entry of the ledger.
    pub ledger: LedgerId,
    /// Users that it concerned.
    pub users: u32,
    /// For a new version: its number; else the current one.
    pub version: u32,
}
