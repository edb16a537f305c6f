//! Budgets: how much the prizes may be worth that a campaign's users win, and what was won of that.

use super::{money::Money, number::PrizeNo, zone::Day};

/// The largest amount of a budget or of a value in it, in minor units: 2^53 - 1, so that scripts
/// compare sums exactly.
pub const MINOR_MAX: u64 = (1 << 53) - 1;

/// The most that prizes may be worth that are won. Amounts are minor units of the currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Of the budget and of every prize's value.
    pub currency: String,
    /// On a day of the campaign's zone.
    pub per_day: Option<u64>,
    /// In the campaign.
    pub total: Option<u64>,
    /// The value of a unit of each prize, by [`PrizeNo`].
    pub values: Vec<u64>,
}

/// The value of what was won, in minor units of the budget's currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// On the current day.
    pub today: u64,
    /// In all.
    pub total: u64,
}

/// What was won on a day under a budget, in minor units. A later day begins with nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpentDay {
    /// The day of the last such win.
    pub day: Day,
    /// The sum of that day.
    pub amount: u64,
}

impl SpentDay {
    /// What was won on a day. A clock that steps back gives nothing.
    pub fn on(self, today: Day) -> u64 {
        if today > self.day { 0 } else { self.amount }
    }

    /// Notes what was won up to now on a day.
    ///
    /// ```
    /// use tombola::model::{budget::{Spent, SpentDay}, zone::Day};
    /// let mut spent = SpentDay::default();
    /// spent.set(Day(20_000), Spent { today: 750, total: 9_000 });
    /// assert_eq!((spent.on(Day(20_000)), spent.on(Day(20_001))), (750, 0));
    /// ```
    pub fn set(&mut self, today: Day, spent: Spent) {
        self.amount = spent.today;
        self.day = self.day.max(today);
    }
}

impl Spent {
    /// Adds a win.
    pub fn add(&mut self, value: u64) {
        self.today = self.today.saturating_add(value);
        self.total = self.total.saturating_add(value);
    }
}

impl Budget {
    /// The value of a unit of a prize.
    ///
    /// # Panics
    /// If the number is not of this campaign.
    pub fn value(&self, prize: PrizeNo) -> u64 {
        self.values[usize::from(prize.0)]
    }

    /// One more unit of this prize would pass the budget. A prize without a value never does.
    ///
    /// ```
    /// use tombola::model::{PrizeNo, budget::{Budget, Spent}};
    /// let budget = Budget {
    ///     currency: "CNY".into(),
    ///     per_day: Some(1_000),
    ///     total: None,
    ///     values: vec![600, 400, 0],
    /// };
    /// let spent = Spent { today: 600, total: 90_000 };
    /// let held = [0, 1, 2].map(|no| budget.holds(PrizeNo(no), spent));
    /// assert_eq!(held, [true, false, false]);
    /// ```
    pub fn holds(&self, prize: PrizeNo, spent: Spent) -> bool {
        let value = self.value(prize);
        let passes =
            |sum: u64, most: Option<u64>| most.is_some_and(|most| sum.saturating_add(value) > most);
        value > 0 && (passes(spent.today, self.per_day) || passes(spent.total, self.total))
    }

    /// Prizes of which one more unit would pass the budget.
    pub fn held(&self, spent: Spent) -> impl Iterator<Item = PrizeNo> {
        let prizes = (0..).map(PrizeNo).take(self.values.len());
        prizes.filter(move |prize| self.holds(*prize, spent))
    }

    /// The value of all units; `won` returns how many were won of a prize and not revoked.
    pub fn value_of(&self, won: impl Fn(PrizeNo) -> u64) -> u64 {
        let values = (0..).map(PrizeNo).zip(&self.values);
        let values = values.map(|(prize, value)| value.saturating_mul(won(prize)));
        values.fold(0, u64::saturating_add)
    }

    /// An amount of minor units in the budget's currency.
    pub fn money(&self, minor: u64) -> Money {
        Money::of_minor(&self.currency, minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_unit_that_fits_is_given_and_no_other() {
        let budget = |per_day, total| Budget {
            currency: "CNY".into(),
            per_day,
            total,
            values: vec![300],
        };
        let holds = |budget: Budget, today, total| budget.holds(PrizeNo(0), Spent { today, total });
        assert!(!holds(budget(Some(900), None), 600, 9_000));
        assert!(holds(budget(Some(900), None), 601, 0));
        assert!(!holds(budget(None, Some(900)), 9_000, 600));
        assert!(holds(budget(None, Some(900)), 0, 601));
        assert!(holds(budget(Some(900), Some(MINOR_MAX)), 0, u64::MAX));
        let both = budget(Some(900), Some(2_000));
        assert!(holds(both.clone(), 0, 1_701) && holds(both, 900, 900));
    }

    #[test]
    fn a_day_begins_with_nothing_and_a_clock_that_steps_back_gives_nothing() {
        let mut noted = SpentDay::default();
        let mut win = |day, value| {
            let today = noted.on(day);
            let mut spent = Spent { today, total: 0 };
            spent.add(value);
            noted.set(day, spent);
            (noted.day, noted.amount)
        };
        assert_eq!(win(Day(7), 5), (Day(7), 5));
        assert_eq!(win(Day(6), 2), (Day(7), 7));
        assert_eq!(win(Day(8), 1), (Day(8), 1));
    }

    #[test]
    fn what_is_won_is_summed_up_by_its_values() {
        let budget = Budget {
            currency: "CNY".into(),
            per_day: None,
            total: Some(10),
            values: vec![2, 0, u64::MAX],
        };
        assert_eq!(budget.value_of(|prize| [3, 9, 0][usize::from(prize.0)]), 6);
        assert_eq!(budget.value_of(|_| 2), u64::MAX);
        let spent = Spent { today: 0, total: 9 };
        assert_eq!(
            budget.held(spent).collect::<Vec<_>>(),
            [PrizeNo(0), PrizeNo(2)]
        );
    }
}
