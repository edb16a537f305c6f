//! A campaign as it was validated: what can be won, when, by whom, how often.
//!
//! Made by [`super::convert`] only.

use std::collections::BTreeMap;

use super::{
    deck::Deck,
    id::{CampaignId, PoolId, PrizeId},
    limits::DrawLimits,
    moment::Moment,
    money::Money,
    number::{PoolNo, PrizeNo},
    schedule::Schedule,
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
    /// What a draw gives that wins nothing else.
    pub consolation: Option<Consolation>,
    /// What can be won, by [`PrizeNo`].
    pub prizes: Vec<Prize>,
    /// Where units come from, by [`PoolNo`], in the order in which a draw tries them.
    pub pools: Vec<Pool>,
    /// `GetOdds` shows the plan hour by hour.
    pub publish_hours: bool,
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
    /// Units given to the campaign.
    pub stock: u64,
    /// Left out of decks that are dealt anew.
    pub grand: bool,
    /// The worth of a unit.
    pub value: Option<Money>,
    /// Counts against the limit of wins.
    pub counts_as_win: bool,
    /// For callers.
    pub attributes: Attributes,
}

/// Where units come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Unique in the campaign.
    pub id: PoolId,
    /// Draws a user must have made before this pool is tried.
    pub unlock_after_draws: u32,
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

    /// Every pool with its number.
    pub fn numbered_pools(&self) -> impl Iterator<Item = (PoolNo, &Pool)> {
        (0..).map(PoolNo).zip(&self.pools)
    }
}
