//! What was won of a campaign's budget, counted from the entries (P5). It does not use the rules of
//! the crate, so that it does not repeat their mistakes.

use tombola::model::{Campaign, Moment, PrizeNo};

use super::Book;

impl Book {
    /// One more unit of a prize would pass the budget.
    pub(super) fn is_over_budget(&self, at: Moment, campaign: &Campaign, prize: PrizeNo) -> bool {
        let Some(budget) = &campaign.budget else {
            return false;
        };
        let value = |no: usize| u128::from(budget.values[no]);
        let more = value(prize.0.into());
        let today = self.spent.get(&campaign.zone.day(at)).copied();
        let won = self.prizes.iter();
        let total: u128 = won
            .map(|(prize, stats)| value(prize.0.into()) * u128::from(stats.won))
            .sum();
        let passes = |sum: u128, most: Option<u64>| most.is_some_and(|most| sum > most.into());
        more > 0
            && (passes(today.unwrap_or(0) + more, budget.per_day)
                || passes(total + more, budget.total))
    }

    /// A prize would pass the budget.
    pub(super) fn is_any_over_budget(&self, at: Moment, campaign: &Campaign) -> bool {
        let mut prizes = campaign.numbered_prizes();
        prizes.any(|(prize, _)| self.is_over_budget(at, campaign, prize))
    }

    /// Counts a win, which must not pass the budget. To be called before it is booked.
    pub(super) fn spend(&mut self, at: Moment, campaign: &Campaign, prize: PrizeNo) {
        let Some(budget) = &campaign.budget else {
            return;
        };
        let is_over = self.is_over_budget(at, campaign, prize);
        assert!(!is_over, "P5: prize {} passes the budget at {at}", prize.0);
        let today = self.spent.entry(campaign.zone.day(at)).or_default();
        *today += u128::from(budget.values[usize::from(prize.0)]);
    }
}
