//! Filling pools: freeze a window, put its units in chunk by chunk, deal a deck's next chunk; and
//! taking units out again.
//!
//! Every step is fenced: one that comes late, or twice, changes nothing and says how things stand.

use serde::{Deserialize, Serialize};

use crate::{
    chance::Release,
    model::{CampaignId, Moment, PoolNo, PrizeNo, Quantities, deck::CardCount},
};

/// A campaign that the injector has something to do with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueCampaign {
    /// Since when, or from when on; the epoch if it is at once.
    pub due: Moment,
    /// Which.
    pub id: CampaignId,
}

/// How far a pool is filled.
#[derive(Clone, Debug, PartialEq)]
pub enum PoolFilling {
    /// A schedule.
    Schedule(ScheduleFilling),
    /// A deck.
    Deck(DeckFilling),
    /// Nothing is put into a personal pool.
    Personal,
}

/// How far a schedule is filled.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleFilling {
    /// Windows before this moment are frozen, later ones are not.
    pub horizon: Moment,
    /// No unit that waits was released before this moment; none if none waits.
    pub oldest: Option<Moment>,
    /// How prizes planned by `total` are shared out.
    pub totals: TotalsBase,
    /// Units of missed windows that the next ones take over.
    pub carry: Quantities,
    /// Frozen fills whose units are not all in the pool, by release.
    pub open: Vec<FillRecord>,
    /// Windows from which units must still be taken back.
    pub recalling: Vec<Moment>,
    /// Injected windows that have not ended.
    pub live: Vec<LiveWindow>,
}

/// An injected window that has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveWindow {
    /// Its start.
    pub start: Moment,
    /// Its end.
    pub end: Moment,
    /// The version whose plan it follows.
    pub version: u32,
    /// An operator recalled it.
    pub recalled: bool,
    /// That plan's quantities.
    pub planned: Quantities,
    /// Taken over from missed windows.
    pub carried: Quantities,
    /// Off stock for this window now: granted, less what was recalled.
    pub injected: Quantities,
}

/// How prizes planned by `total` are shared out: `remaining` units over the windows from `from` on.
/// Frozen with the version that set it, so that the shares are a pure function of the seed.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TotalsBase {
    /// The version that set it.
    pub revision: u32,
    /// The first moment of the first window that has a share.
    pub from: Moment,
    /// Units to share out.
    pub remaining: Quantities,
}

/// Units granted to a window at once, their moments given by the seed and this record.
#[derive(Clone, Debug, PartialEq)]
pub struct FillRecord {
    /// The window's start.
    pub window_start: Moment,
    /// Units are released before this: the window's end, or the moment at which a missed window was
    /// released.
    pub window_end: Moment,
    /// 0 for the window's first injection, then a top-up each.
    pub generation: u32,
    /// Units are scattered from here on.
    pub from: Moment,
    /// Units by prize.
    pub granted: Quantities,
    /// How many of them, in order of release, are in the pool.
    pub filled: u64,
    /// Mark of the fork under which they were granted.
    pub fork: u32,
    /// Every unit released before this moment is in the pool.
    pub until: Moment,
}

impl FillRecord {
    /// Units in all.
    pub fn total(&self) -> u64 {
        self.granted.values().sum()
    }
}

/// How far a deck is dealt.
#[derive(Clone, Debug, PartialEq)]
pub struct DeckFilling {
    /// The round, from 1.
    pub round: u64,
    /// The next chunk of this round.
    pub chunk: u64,
    /// Cards of this round that are not dealt.
    pub remaining: Vec<CardCount>,
    /// Cards dealt and waiting, those of held prizes aside.
    pub available: u64,
    /// No more cards come.
    pub stopped: Option<DeckStop>,
    /// Units that stock lacks for the next chunk, if it could not be dealt.
    pub lacking: Quantities,
    /// Mark of the store's current fork, under which the next chunk is dealt.
    pub fork: u32,
}

/// Why a deck gives no more cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeckStop {
    /// Its last round is used up.
    Exhausted,
    /// Stock cannot fill the next chunk.
    OutOfStock,
    /// Every prize that it could still deal is held.
    Held,
}

/// Freezes the next windows of a schedule: quantities off stock, bounds, from when on they scatter.
///
/// A window that has ended by the store's clock is handled as the schedule's `missed` says; one
/// that has begun scatters from now on.
#[derive(Clone, Debug)]
pub struct FreezeCommand {
    /// The campaign.
    pub campaign: CampaignId,
    /// Fence: the campaign's version.
    pub version: u32,
    /// The schedule.
    pub pool: PoolNo,
    /// The windows, without gap from the horizon on, at most [`FREEZE_WINDOWS_MAX`].
    pub windows: Vec<PlannedWindow>,
}

/// The most windows frozen in one step.
pub const FREEZE_WINDOWS_MAX: usize = 64;

/// A window and what the plan gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedWindow {
    /// First moment.
    pub start: Moment,
    /// First moment after it.
    pub end: Moment,
    /// Units by prize, shares of totals included.
    pub planned: Quantities,
    /// Windows from this one to the campaign's end, at least 1.
    pub windows_left: u64,
}

/// Brings an injected window to the quantities of a new plan: tops it up, or marks units to be
/// recalled.
#[derive(Clone, Debug)]
pub struct AdjustCommand {
    /// The campaign.
    pub campaign: CampaignId,
    /// Fence: the campaign's version.
    pub version: u32,
    /// The schedule.
    pub pool: PoolNo,
    /// The window's start.
    pub window: Moment,
    /// The new plan's quantities; prizes that are not named are not touched.
    pub planned: Vec<(PrizeNo, u64)>,
}

/// Whether a fenced step was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Done.
    Done,
    /// The state has moved on: read it again.
    Stale,
}

/// Puts the next units of a fill into the pool, in order of release.
#[derive(Clone, Debug)]
pub struct FillCommand {
    /// The campaign.
    pub campaign: CampaignId,
    /// The schedule.
    pub pool: PoolNo,
    /// The window's start.
    pub window: Moment,
    /// The fill of that window.
    pub generation: u32,
    /// Fence: units of this fill already in the pool.
    pub filled: u64,
    /// The next units, at most [`CHUNK_UNITS_MAX`].
    pub units: Vec<Release>,
    /// Every unit of this fill that is released before this moment is in the pool after this step.
    pub until: Moment,
}

/// The most units that a step moves, so that no step keeps draws waiting for long.
pub const CHUNK_UNITS_MAX: usize = 500;

/// The most cards of a deck's chunk. Each chunk's order is drawn from the seed, so its size never
/// changes.
pub const CHUNK_CARDS_MAX: usize = 1000;

/// The most cards that a step deals, so that no step keeps draws waiting for long.
pub const DEAL_CARDS_MAX: usize = 2 * CHUNK_CARDS_MAX;
/// The most chunks that a step deals: of a small deck each is a whole round.
pub const DEAL_CHUNKS_MAX: usize = 16;

/// The reply to a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// This many units of the fill are in the pool now, put in by this step or by a faster service.
    Reached(u64),
    /// The fill is closed: complete, recalled or ended.
    Closed,
}

/// Deals the next chunks of a deck, each as far as stock has its units.
#[derive(Clone, Debug)]
pub struct DealCommand {
    /// The campaign.
    pub campaign: CampaignId,
    /// The deck.
    pub pool: PoolNo,
    /// Fence: round and chunk of [`DeckFilling`].
    pub expected: (u64, u64),
    /// Fence: fork of [`DeckFilling`], under which the cards were dealt.
    pub fork: u32,
    /// One after another. The injector gives at most [`DEAL_CHUNKS_MAX`] with [`DEAL_CARDS_MAX`]
    /// cards.
    pub chunks: Vec<Chunk>,
}

/// A chunk of a deck.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The round that the cards are of: that of the chunk before or the next.
    pub round: u64,
    /// The chunk of that round.
    pub chunk: u64,
    /// All cards of that round.
    pub round_cards: u64,
    /// The cards in order, none for blanks, at most [`CHUNK_CARDS_MAX`].
    pub cards: Vec<Option<PrizeNo>>,
    /// Cards of that round not dealt after this chunk.
    pub remaining: Vec<CardCount>,
}

/// Takes a chunk of units out of pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Unreleased units of a fenced window.
    Recall {
        /// The schedule.
        pool: PoolNo,
        /// The window's start.
        window: Moment,
    },
    /// Released units that nobody took, if the schedule returns them.
    Unclaimed {
        /// The schedule.
        pool: PoolNo,
    },
    /// Everything of a campaign that has ended; the last chunk closes it.
    Ending,
    /// Everything that could be won until a moment: entries were lost, and these units may have
    /// been won in them. They leave the campaign.
    Recovery {
        /// The moment.
        until: Moment,
    },
}

/// What a chunk took out.
#[derive(Clone, Debug, PartialEq)]
pub struct Swept {
    /// Units by prize.
    pub units: Quantities,
    /// There may be more.
    pub more: bool,
}
