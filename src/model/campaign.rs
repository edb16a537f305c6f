//! A campaign as it was validated: what can be won, when, by whom, how often.
//!
//! Made by [`super::convert`] only.

use std::collections::BTreeMap;

use super::{
    budget::Budget,
    caps::PrizeCap,
    deck::Deck,
    id::{CampaignId, PoolId, PrizeId},
    limits::DrawLimits,
    moment::Moment,
    money::Money,
    number::{PoolNo, PrizeNo},
    personal::{Guarantee, Personal},
    schedule::Schedule,
    segments::{SegmentLimits, SegmentRule},
    zone::Zone,
};

/// Text that callers get with a prize.
pub type Attributes = BTreeMap<String, String>;

/// One version of a campaign's definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Campaign {
    /// Unique for ever.
    pub id: CampaignId,
    /// For people.
    pub name: String,
    /// Days count for limits, hours for schedules.
    pub zone: Zone,
    /// First moment of draws.
    pub start: Moment,
    /// First moment without draws; after `start`.
    pub end: Moment,
    /// Limits for each user.
    pub limits: DrawLimits,
    /// Limits of users in segments: the first that the caller states counts.
    pub segment_limits: Vec<SegmentLimits>,
    /// What a draw gives that wins nothing else.
    pub consolation: Option<Consolation>,
    /// What can be won, by [`PrizeNo`].
    pub prizes: Vec<Prize>,
    /// The most that prizes may be worth that are won.
    pub budget: Option<Budget>,
    /// Tried before the pools, in this order. They have neither `ramp` nor `among`.
    pub guarantees: Vec<Guarantee>,
    /// Where units come from, by [`PoolNo`], in the order in which a draw tries them.
    pub pools: Vec<Pool>,
    /// `GetOdds` shows the plan hour by hour.
    pub publish_hours: bool,
    /// New versions, closes and recalls need a proposal and the approval of another identity.
    pub approval_required: bool,
}

/// The prize of those who win nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct Consolation {
    /// Not the id of a prize.
    pub id: PrizeId,
    /// For people.
    pub name: String,
    /// For callers.
    pub attributes: Attributes,
}

/// A prize with its stock.
#[derive(Clone, Debug, PartialEq)]
pub struct Prize {
    /// Unique in the campaign.
    pub id: PrizeId,
    /// For people.
    pub name: String,
    /// Units given to the campaign; 0 if it is unlimited or has codes.
    pub stock: u64,
    /// There is always enough of it.
    pub unlimited: bool,
    /// Each unit is won with a code of its own; stock grows with each import of codes.
    pub codes: bool,
    /// The most that each user may win.
    pub per_user: Option<PrizeCap>,
    /// Left out of decks that are dealt anew.
    pub grand: bool,
    /// The worth of a unit.
    pub value: Option<Money>,
    /// Counts against the limit of wins.
    pub counts_as_win: bool,
    /// For callers.
    pub attributes: Attributes,
}

impl Prize {
    /// The definition says how many units there are, so a plan may need more than that.
    pub fn has_fixed_stock(&self) -> bool {
        !self.unlimited && !self.codes
    }
}

/// Where units come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Unique in the campaign.
    pub id: PoolId,
    /// Draws a user must have made before this pool is tried.
    pub unlock_after_draws: u32,
    /// Wins that count from which on a user's draws pass this pool over.
    pub lock_after_wins: Option<u32>,
    /// Draws a user must have made on the day before this pool is tried.
    pub unlock_after_draws_today: u32,
    /// For whom it is; none: for everybody.
    pub segments: Option<SegmentRule>,
    /// How it is filled.
    pub kind: PoolKind,
}

/// How a pool is filled.
#[derive(Clone, Debug, PartialEq)]
pub enum PoolKind {
    /// Units released over time.
    Schedule(Schedule),
    /// Cards with exact odds.
    Deck(Deck),
    /// Each user draws alone.
    Personal(Personal),
}

impl Pool {
    /// Whether the numbers that open and close the pool admit a user with so many draws, draws of
    /// the day, and wins that count.
    pub fn is_open_after(&self, draws: u64, draws_today: u64, wins: u64) -> bool {
        draws >= self.unlock_after_draws.into()
            && draws_today >= self.unlock_after_draws_today.into()
            && self.lock_after_wins.is_none_or(|lock| wins < lock.into())
    }
}

impl Campaign {
    /// The prize of this number.
    ///
    /// # Panics
    /// If the number is not of this campaign.
    pub fn prize(&self, no: PrizeNo) -> &Prize {
        &self.prizes[usize::from(no.0)]
    }

    /// The pool of this number.
    ///
    /// # Panics
    /// If the number is not of this campaign.
    pub fn pool(&self, no: PoolNo) -> &Pool {
        &self.pools[usize::from(no.0)]
    }

    /// The id of the pool of this number, as units and entries have it: empty for
    /// [`PoolNo::GUARANTEES`]. None if the number is not of this campaign.
    pub fn pool_name(&self, no: PoolNo) -> Option<&str> {
        match no {
            PoolNo::GUARANTEES => Some(""),
            no => Some(self.pools.get(usize::from(no.0))?.id.as_str()),
        }
    }

    /// The number of the pool that units and entries call so (see [`Self::pool_name`]).
    pub fn named_pool(&self, name: &str) -> Option<PoolNo> {
        if name.is_empty() {
            Some(PoolNo::GUARANTEES)
        } else {
            self.pool_no(name)
        }
    }

    /// The number of the prize with this id.
    pub fn prize_no(&self, id: &str) -> Option<PrizeNo> {
        let index = self
            .prizes
            .iter()
            .position(|prize| prize.id.as_str() == id)?;
        u16::try_from(index).ok().map(PrizeNo)
    }

    /// The number of the pool with this id.
    pub fn pool_no(&self, id: &str) -> Option<PoolNo> {
        let index = self.pools.iter().position(|pool| pool.id.as_str() == id)?;
        u16::try_from(index).ok().map(PoolNo)
    }

    /// Every prize with its number.
    pub fn numbered_prizes(&self) -> impl Iterator<Item = (PrizeNo, &Prize)> {
        (0..).map(PrizeNo).zip(&self.prizes)
    }

    /// Every prize that has a cap, with its number.
    pub fn capped_prizes(&self) -> impl Iterator<Item = (PrizeNo, &PrizeCap)> {
        let prizes = self.numbered_prizes();
        prizes.filter_map(|(no, prize)| Some((no, prize.per_user.as_ref()?)))
    }

    /// The start of the hour of a moment; none unless these limits, of the campaign or of a
    /// segment, limit free draws of an hour.
    pub fn limited_hour(&self, limits: &DrawLimits, at: Moment) -> Option<Moment> {
        let is_limited = limits.draws_per_hour.is_some();
        is_limited.then(|| self.zone.hour(at).0)
    }

    /// Bonus draws of a day are counted: a pool needs all draws of the day.
    pub fn counts_bonus_of_day(&self) -> bool {
        let mut pools = self.pools.iter();
        pools.any(|pool| pool.unlock_after_draws_today > 0)
    }

    /// Every prize whose units have codes.
    pub fn prizes_with_codes(&self) -> impl Iterator<Item = PrizeNo> {
        let prizes = self.numbered_prizes();
        prizes.filter(|(_, prize)| prize.codes).map(|(no, _)| no)
    }

    /// Every pool with its number.
    pub fn numbered_pools(&self) -> impl Iterator<Item = (PoolNo, &Pool)> {
        (0..).map(PoolNo).zip(&self.pools)
    }

    /// The schedule of the pool of this number; none if there is no such pool, or it has none.
    pub fn schedule(&self, no: PoolNo) -> Option<&Schedule> {
        match &self.pools.get(usize::from(no.0))?.kind {
            PoolKind::Schedule(schedule) => Some(schedule),
            PoolKind::Deck(_) | PoolKind::Personal(_) => None,
        }
    }

    /// Every schedule with the number of its pool.
    pub fn schedules(&self) -> impl Iterator<Item = (PoolNo, &Schedule)> {
        let pools = self.numbered_pools();
        pools.filter_map(move |(no, _)| Some((no, self.schedule(no)?)))
    }
}
