//! The campaigns of the store: where the units of their prizes are, their draws and their decks.
//! Every service reads the same numbers from the store, so dashboards take one service's, not the
//! sum.

use std::{
    collections::BTreeSet,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use prometheus::IntGaugeVec;

use super::{OTHER, gauges};

/// The most series of campaigns. Those for which there is no room are summed up under [`OTHER`].
const SERIES_MAX: usize = 2_000;

/// The campaigns of the store.
pub(crate) static CAMPAIGNS: LazyLock<Campaigns> = LazyLock::new(|| Campaigns {
    prize_units: gauges(
        "tombola_prize_units",
        "Units of a prize by where they are; the states of a prize add up to its stock",
        &["campaign", "prize", "state"],
    ),
    released_units: gauges(
        "tombola_prize_released_units",
        "Units of a prize that were released so far",
        &["campaign", "prize"],
    ),
    unlimited: gauges(
        "tombola_prize_unlimited",
        "1 for a prize of which there is always enough",
        &["campaign", "prize"],
    ),
    overdue_units: gauges(
        "tombola_campaign_overdue_units",
        "Units that schedules have released in the last 24 hours and nobody has won",
        &["campaign"],
    ),
    draws: gauges(
        "tombola_campaign_draws",
        "Draws so far by what they gave",
        &["campaign", "outcome"],
    ),
    users: gauges(
        "tombola_campaign_users",
        "Users who have drawn or were granted draws",
        &["campaign"],
    ),
    deck_cards: gauges(
        "tombola_deck_cards",
        "Cards of a deck's round by where they are",
        &["campaign", "pool", "state"],
    ),
    deck_round: gauges(
        "tombola_deck_round",
        "The round of a deck, from 1",
        &["campaign", "pool"],
    ),
    deck_stopped: gauges(
        "tombola_deck_stopped",
        "1 if a deck deals no more cards, else 0",
        &["campaign", "pool"],
    ),
    budget: gauges(
        "tombola_campaign_budget_minor_units",
        "The budget of a campaign on a day and in all, in minor units of its currency",
        &["campaign", "period"],
    ),
    budget_won: gauges(
        "tombola_campaign_budget_won_minor_units",
        "What was won of the budget of a campaign, in minor units of its currency",
        &["campaign", "period"],
    ),
    budget_holds: gauges(
        "tombola_campaign_budget_held_prizes",
        "Prizes that are held since one more unit would pass the budget",
        &["campaign"],
    ),
    named: Mutex::default(),
});

/// One figure of a campaign.
#[derive(Clone, Debug)]
pub(crate) enum Figure {
    /// Units of this prize in this state.
    Units(String, &'static str, u64),
    /// Units of this prize that were released.
    Released(String, u64),
    /// This prize is unlimited.
    Unlimited(String),
    /// Units that were released lately and wait.
    Overdue(u64),
    /// Draws with this outcome.
    Draws(&'static str, u64),
    /// Users.
    Users(u64),
    /// Cards of this pool in this state.
    Cards(String, &'static str, u64),
    /// The round of this pool.
    Round(String, u64),
    /// Whether this pool has stopped.
    Stopped(String, bool),
    /// The budget of this period, and what was won of it.
    Budget(&'static str, u64, u64),
    /// Prizes that the budget holds.
    BudgetHolds(u64),
}

/// The figures of a campaign.
#[derive(Clone, Debug)]
pub(crate) struct CampaignFigures {
    pub(crate) id: String,
    pub(crate) figures: Vec<Figure>,
}

/// The gauges of campaigns.
pub(crate) struct Campaigns {
    prize_units: IntGaugeVec,
    released_units: IntGaugeVec,
    unlimited: IntGaugeVec,
    overdue_units: IntGaugeVec,
    draws: IntGaugeVec,
    users: IntGaugeVec,
    deck_cards: IntGaugeVec,
    deck_round: IntGaugeVec,
    deck_stopped: IntGaugeVec,
    budget: IntGaugeVec,
    budget_won: IntGaugeVec,
    budget_holds: IntGaugeVec,
    /// Campaigns with series of their own. They keep them as long as they exist.
    named: Mutex<BTreeSet<String>>,
}

impl Campaigns {
    /// Keeps the gauges as they are while the value lives, so that they are read as a whole.
    pub(super) fn hold(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces all figures.
    pub(crate) fn set(&self, all: &[CampaignFigures]) {
        let mut named = self.hold();
        for family in self.families() {
            family.reset();
        }
        named.retain(|id| all.iter().any(|campaign| campaign.id == *id));
        let (known, new): (Vec<_>, Vec<_>) = all.iter().partition(|one| named.contains(&one.id));
        let mut series = 0;
        for campaign in known.into_iter().chain(new) {
            let count = campaign.figures.len();
            let fits = series + count <= SERIES_MAX;
            if fits {
                series += count;
                named.insert(campaign.id.clone());
            } else {
                named.remove(&campaign.id);
            }
            for figure in &campaign.figures {
                self.add(fits.then_some(&*campaign.id), figure);
            }
        }
    }

    /// Adds a figure of this campaign, or of one without series of its own.
    fn add(&self, campaign: Option<&str>, figure: &Figure) {
        let id = campaign.unwrap_or(OTHER);
        let named = |name| if campaign.is_some() { name } else { OTHER };
        let (family, labels, value): (_, &[&str], _) = match figure {
            Figure::Units(prize, state, units) => (
                &self.prize_units,
                &[id, named(prize.as_str()), state],
                *units,
            ),
            Figure::Released(prize, units) => {
                (&self.released_units, &[id, named(prize.as_str())], *units)
            }
            // A sum of prizes without a name is none.
            Figure::Unlimited(_) if campaign.is_none() => return,
            Figure::Unlimited(prize) => (&self.unlimited, &[id, prize], 1),
            Figure::Overdue(units) => (&self.overdue_units, &[id], *units),
            Figure::Draws(outcome, draws) => (&self.draws, &[id, outcome], *draws),
            Figure::Users(users) => (&self.users, &[id], *users),
            Figure::Cards(pool, state, cards) => {
                (&self.deck_cards, &[id, named(pool.as_str()), state], *cards)
            }
            // A sum of rounds says nothing.
            Figure::Round(..) if campaign.is_none() => return,
            Figure::Round(pool, round) => (&self.deck_round, &[id, pool], *round),
            // Sums of several currencies say nothing.
            Figure::Budget(..) if campaign.is_none() => return,
            Figure::Budget(period, budget, won) => {
                let won = i64::try_from(*won).unwrap_or(i64::MAX);
                self.budget_won.with_label_values(&[id, period]).add(won);
                (&self.budget, &[id, period], *budget)
            }
            Figure::BudgetHolds(prizes) => (&self.budget_holds, &[id], *prizes),
            Figure::Stopped(pool, stopped) => (
                &self.deck_stopped,
                &[id, named(pool.as_str())],
                u64::from(*stopped),
            ),
        };
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        family.with_label_values(labels).add(value);
    }

    fn families(&self) -> [&IntGaugeVec; 12] {
        [
            &self.prize_units,
            &self.released_units,
            &self.unlimited,
            &self.overdue_units,
            &self.draws,
            &self.users,
            &self.deck_cards,
            &self.deck_round,
            &self.deck_stopped,
            &self.budget,
            &self.budget_won,
            &self.budget_holds,
        ]
    }
}

#[cfg(test)]
mod tests {
    use prometheus::core::Collector as _;

    use super::*;

    fn campaign(id: &str, prizes: usize) -> CampaignFigures {
        let figure = |prize| Figure::Units(format!("p{prize}"), "left", 1);
        CampaignFigures {
            id: id.into(),
            figures: (0..prizes).map(figure).collect(),
        }
    }

    /// By campaign: its series, and their sum.
    fn found(id: &str) -> (usize, i64) {
        let families = CAMPAIGNS.prize_units.collect();
        let series = families.iter().flat_map(|family| family.get_metric());
        let of_campaign = series.filter(|series| {
            let mut labels = series.get_label().iter();
            labels.any(|label| label.name() == "campaign" && label.value() == id)
        });
        let values: Vec<_> = of_campaign
            .map(|one| one.get_gauge().get_value() as i64)
            .collect();
        (values.len(), values.iter().sum())
    }

    #[test]
    fn series_are_bounded_and_a_campaign_keeps_its_own() {
        CAMPAIGNS.set(&[campaign("a", 1_200), campaign("b", 700), campaign("c", 300)]);
        assert_eq!(found("a"), (1_200, 1_200));
        assert_eq!(found("b"), (700, 700));
        assert_eq!((found("c"), found(OTHER)), ((0, 0), (1, 300)));
        // An earlier campaign comes: those with series keep them.
        CAMPAIGNS.set(&[
            campaign("_", 900),
            campaign("a", 1_200),
            campaign("b", 700),
            campaign("c", 300),
        ]);
        assert_eq!((found("a").0, found("b").0), (1_200, 700));
        assert_eq!(found(OTHER), (1, 1_200));
        // One of them is gone.
        CAMPAIGNS.set(&[campaign("b", 700), campaign("c", 300)]);
        assert_eq!((found("a"), found(OTHER)), ((0, 0), (0, 0)));
        assert_eq!(found("c"), (300, 300));
        CAMPAIGNS.set(&[]);
    }
}
