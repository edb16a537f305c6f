//! What was won of a campaign's budget.
//!
//! The sum of all wins is not kept: it follows from how many units of each prize were won and not
//! revoked, which is counted anyway. So a revoked win gives its value back, and a budget that is
//! set later counts what was won before. Only the sum of the day is kept.

use crate::model::{
    Campaign, Moment, PrizeNo,
    budget::{Spent, SpentDay},
};

use super::state::Stock;

/// What was won of the budget at a moment; nothing if there is none. `won` returns how many units
/// of a prize were won and not revoked.
pub(in crate::store) fn spent(
    campaign: &Campaign,
    day: SpentDay,
    now: Moment,
    won: impl Fn(PrizeNo) -> u64,
) -> Spent {
    campaign
        .budget
        .as_ref()
        .map_or_else(Spent::default, |budget| Spent {
            today: day.on(campaign.zone.day(now)),
            total: budget.value_of(won),
        })
}

impl Stock {
    /// Units that are won and not revoked, of those that were ever won.
    pub(in crate::store) fn still_won(&self, won: u64) -> u64 {
        won.saturating_sub(self.revoked)
    }
}
