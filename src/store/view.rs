//! What can be read of a store. Reading changes nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    fill::{DeckStop, PoolFilling},
    hold::{BlockedUser, Holds},
};
use crate::{
    chance::Nonce,
    model::{
        Campaign, Moment, OperatorId, PoolNo, PrizeNo, Quantities, SegmentId,
        budget::{Spent, SpentDay},
        limits::{Funding, Quotas, UserRecord},
        number::is_zero,
    },
    store::{
        DrawResult, LedgerId, Refusal,
        error::{Result, StoreError},
        rules,
    },
};

/// What an operator did to a campaign as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// It takes draws between its start and its end.
    Open,
    /// Paused.
    Paused,
    /// Closed by an operator; its units are being returned to stock.
    Closing,
    /// Every unit is back.
    Closed,
}

impl Lifecycle {
    const ALL: [Self; 4] = [Self::Open, Self::Paused, Self::Closing, Self::Closed];

    /// The stored form, in every store.
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Paused => 1,
            Self::Closing => 2,
            Self::Closed => 3,
        }
    }

    /// Reads [`Self::code`].
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if there is no such code.
    pub(super) fn from_code(code: i64) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|lifecycle| i64::from(lifecycle.code()) == code)
            .ok_or_else(|| StoreError::corrupt(format!("no lifecycle has code {code}")))
    }
}

/// A campaign as it stands.
#[derive(Clone, Debug)]
pub struct CampaignView {
    /// The current definition.
    pub campaign: Arc<Campaign>,
    /// Its number, from 1.
    pub version: u32,
    /// What an operator did to it.
    pub lifecycle: Lifecycle,
    /// Something was injected, dealt, drawn or granted.
    pub touched: bool,
    /// Held prizes, by number.
    pub paused_prizes: Arc<[PrizeNo]>,
    /// What is paused, with notes; [`UserView`] has them without their notes on Redis, where limits
    /// are checked often.
    pub holds: Holds,
    /// Every version, oldest first.
    pub versions: Arc<[VersionInfo]>,
    /// The nonce of the seed.
    pub nonce: Nonce,
    /// SHA-256 of the seed, hexadecimal.
    pub commitment: Arc<str>,
    /// Blocked users.
    pub blocked_users: u64,
}

impl CampaignView {
    /// No draw will ever be made again: the end has passed or an operator closed it.
    pub fn has_ended(&self, now: Moment) -> bool {
        now >= self.campaign.end || matches!(self.lifecycle, Lifecycle::Closing | Lifecycle::Closed)
    }

    /// Whether draws are taken at `now`.
    pub fn admits_draws(&self, now: Moment) -> std::result::Result<(), Refusal> {
        self.lifecycle.admits_draws(&self.campaign, now)
    }
}

impl Lifecycle {
    /// Whether callers may grant bonus draws of a campaign in this state at `now`: also before its
    /// start and while it is paused.
    pub fn admits_bonus(
        self,
        campaign: &Campaign,
        now: Moment,
    ) -> std::result::Result<(), Refusal> {
        match self {
            _ if now >= campaign.end => Err(Refusal::Ended(campaign.end)),
            Self::Closing | Self::Closed => Err(Refusal::Closed),
            Self::Paused | Self::Open => Ok(()),
        }
    }

    /// Whether draws of a campaign in this state are taken at `now`.
    pub fn admits_draws(
        self,
        campaign: &Campaign,
        now: Moment,
    ) -> std::result::Result<(), Refusal> {
        match self {
            // A campaign that ended on time is refused alike before and after its units went back.
            _ if now >= campaign.end => Err(Refusal::Ended(campaign.end)),
            Self::Closing | Self::Closed => Err(Refusal::Closed),
            _ if now < campaign.start => Err(Refusal::NotStarted(campaign.start)),
            Self::Paused => Err(Refusal::Paused),
            Self::Open => Ok(()),
        }
    }
}

/// Who made which version, when and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInfo {
    /// The number, from 1.
    pub version: u32,
    /// When it came into force.
    pub at: Moment,
    /// Who.
    pub operator: OperatorId,
    /// Why.
    pub reason: String,
    /// The identity that proposed it, if the operator approved a proposal.
    pub proposed_by: Option<OperatorId>,
}

/// A user's record in a campaign, as it stands now.
#[derive(Clone, Debug)]
pub struct UserView {
    /// The campaign.
    pub view: CampaignView,
    /// The record of the current day.
    pub record: UserRecord,
    /// The store's clock.
    pub now: Moment,
}

impl UserView {
    /// The limits of a user in no segment.
    pub fn quotas(&self) -> Quotas {
        self.quotas_in(&[])
    }

    /// The limits of a user in these segments.
    pub fn quotas_in(&self, segments: &[SegmentId]) -> Quotas {
        let campaign = &self.view.campaign;
        Quotas::new(campaign, segments, &self.record.counts(), self.now)
    }

    /// Whether a single free draw of a user in these segments would be admitted now.
    pub fn admits_free_draw(&self, segments: &[SegmentId]) -> Result<()> {
        self.view.admits_draws(self.now)?;
        let campaign = &self.view.campaign;
        let limits = campaign.limits_of(segments);
        let hour = campaign.limited_hour(limits, self.now);
        self.record
            .admit(limits, Funding::Free, 1, hour)
            .map(drop)
            .map_err(|reached| Refusal::limit(reached, campaign, self.now).into())
    }
}

/// A user as operators see one.
#[derive(Clone, Debug)]
pub struct UserDetails {
    /// The record and the limits.
    pub view: UserView,
    /// The block, if the user is blocked.
    pub block: Option<BlockedUser>,
}

/// Where every unit of a campaign is.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The campaign.
    pub view: CampaignView,
    /// The store's clock.
    pub now: Moment,
    /// The last entry of the campaign's partition that is counted.
    pub head: LedgerId,
    /// The number of the campaign's last entry; 0 if no entry has one.
    pub entries: u64,
    /// By prize number.
    pub prizes: Vec<PrizeStats>,
    /// Units in the pools' sorted sets, counted, are as many as the counters say.
    pub pools_agree: bool,
    /// Draws by how they came out.
    pub draws: DrawCounts,
    /// What was won under a budget.
    pub spent_day: SpentDay,
    /// Users with a record.
    pub users: u64,
    /// Decks.
    pub decks: Vec<DeckStats>,
}

impl Stats {
    /// What was won of the campaign's budget; nothing if it has none.
    pub fn spent(&self) -> Spent {
        rules::spent(&self.view.campaign, self.spent_day, self.now, |prize| {
            self.prizes[usize::from(prize.0)].won
        })
    }

    /// P2: every unit is accounted for.
    pub fn balanced(&self) -> bool {
        self.pools_agree
            && self
                .prizes
                .iter()
                .all(|p| p.stock == p.left + p.waiting + p.won + p.withdrawn)
    }
}

/// Draws by how they came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawCounts {
    /// Won a unit.
    pub wins: u64,
    /// Gave the consolation prize.
    pub consolations: u64,
    /// Gave nothing.
    pub nothings: u64,
}

impl DrawCounts {
    /// Counts a result.
    pub fn add(&mut self, result: DrawResult) {
        match result {
            DrawResult::Won { .. } => self.wins += 1,
            DrawResult::NotWon {
                consolation: true, ..
            } => self.consolations += 1,
            DrawResult::NotWon { .. } => self.nothings += 1,
        }
    }
}

/// Where the units of one prize are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrizeStats {
    /// Given to the campaign.
    pub stock: u64,
    /// In stock.
    pub left: u64,
    /// In pools, held ones too.
    pub waiting: u64,
    /// Won, and not revoked.
    pub won: u64,
    /// Won and then revoked: in stock again, or withdrawn.
    pub revoked: u64,
    /// Left the campaign.
    pub withdrawn: u64,
    /// Back in stock from pools, in all.
    pub returned: u64,
    /// Of these, forfeited: drawn as cards by users who may not have the prize.
    pub forfeited: u64,
    /// Released up to now.
    pub released: u64,
    /// Codes that were passed over after entries had been lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u64,
}

impl PrizeStats {
    /// Codes that nobody has won, of a prize that has codes.
    pub fn codes_left(&self) -> u64 {
        let gone = self.won + self.revoked + self.skipped;
        self.stock.saturating_sub(gone)
    }
}

/// How far a deck is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeckStats {
    /// The pool.
    pub pool: PoolNo,
    /// The round, from 1.
    pub round: u64,
    /// Cards of this round not dealt.
    pub cards_left: u64,
    /// Cards dealt and waiting.
    pub cards_waiting: u64,
    /// No more cards come.
    pub stopped: Option<DeckStop>,
    /// Units that stock lacks for the next cards, if they could not be dealt.
    pub lacking: Quantities,
}

/// How far the pools of a campaign are filled.
#[derive(Clone, Debug)]
pub struct Filling {
    /// The campaign as it stands.
    pub view: CampaignView,
    /// When the injector has something to do next, as the index of due campaigns has it: the epoch
    /// if it has at once, none if it never has again.
    pub due: Option<Moment>,
    /// Units off stock: given, less those left.
    pub used: Quantities,
    /// By pool.
    pub pools: Vec<PoolFilling>,
}

/// A window whose injection has begun, or that passed unfilled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowView {
    /// The pool.
    pub pool: PoolNo,
    /// First moment.
    pub start: Moment,
    /// First moment after it.
    pub end: Moment,
    /// The version whose plan it follows.
    pub version: u32,
    /// How far it is.
    pub state: WindowState,
    /// By prize.
    pub prizes: Vec<(PrizeNo, WindowUnits)>,
}

/// How far a frozen window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowState {
    /// Its units are being put into the pool.
    Injecting,
    /// All are in, or were.
    Injected,
    /// It passed unfilled.
    Missed,
    /// An operator recalled it.
    Recalled,
}

/// Units of one prize in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowUnits {
    /// By the plan.
    pub planned: u64,
    /// Taken over from missed windows.
    pub carried: u64,
    /// Taken off stock for it.
    pub injected: u64,
    /// Of these, released up to now.
    pub released: u64,
    /// Won.
    pub won: u64,
    /// Taken back before their release.
    pub recalled: u64,
    /// Back in stock since nobody took them.
    pub returned: u64,
}

/// A sum of quantities.
pub fn total(quantities: &Quantities) -> u64 {
    quantities.values().sum()
}
