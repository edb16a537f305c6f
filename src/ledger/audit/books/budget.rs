//! What was won of a campaign's budget, by its entries.

use super::{Books, Faults};
use crate::{
    ledger::audit::findings::Check,
    model::{Campaign, Moment, PrizeNo, budget::Spent},
};

impl Books {
    /// What was won of the campaign's budget before an entry of this moment; nothing if it has
    /// none.
    pub(super) fn spent(&mut self, campaign: &Campaign, at: Moment) -> Spent {
        let Some(budget) = &campaign.budget else {
            return Spent::default();
        };
        let today = self.today(at);
        let won = |prize| self.prizes.get(&prize).map_or(0, |sums| sums.won);
        Spent {
            today: self.spent_day.on(today),
            total: budget.value_of(won),
        }
    }

    /// Says if a win passes the budget, and counts it. To be called before the win is booked.
    pub(super) fn spend(
        &mut self,
        campaign: &Campaign,
        prize: PrizeNo,
        at: Moment,
        faults: &mut Faults,
    ) {
        let Some(budget) = &campaign.budget else {
            return;
        };
        let Some(definition) = campaign.prizes.get(usize::from(prize.0)) else {
            return; // it is found where units are counted
        };
        let mut spent = self.spent(campaign, at);
        if budget.holds(prize, spent) {
            let bound = |most: Option<u64>| {
                most.map_or_else(|| "none".into(), |most| budget.money(most).to_string())
            };
            let text = format!(
                "a unit of {} for {} passes the budget: {} were won that day and {} in all, and \
                 the budget is {} a day and {} in all",
                definition.id,
                budget.money(budget.value(prize)),
                budget.money(spent.today),
                budget.money(spent.total),
                bound(budget.per_day),
                bound(budget.total)
            );
            faults.push((Check::Limits, text));
        }
        spent.add(budget.value(prize));
        let today = self.today(at);
        self.spent_day.set(today, spent);
    }
}
