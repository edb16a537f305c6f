//! The campaigns of the store: where the units of their prizes are, their draws and their decks.
//! Every service reads the same numbers from the store, so dashboards take one service's, not the
//! sum.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use prometheus::IntGaugeVec;

use super::{OTHER, gauges};

/// The most series of campaigns. What finds no room is summed up under [`OTHER`].
const SERIES_MAX: usize = 2_000;

/// How many of them are reserved: the first campaigns whose first versions fit have series of their
/// own. The others are for what later versions add.
const RESERVED_MAX: usize = 1_500;

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
    whole: Mutex::default(),
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
    /// When its first version came into force, in microseconds of Unix time.
    pub(crate) created_us: i64,
    /// The series of its first version.
    pub(crate) reserved: usize,
    /// Those of its first version first.
    pub(crate) figures: Vec<Figure>,
}

impl Figure {
    /// The series that it takes.
    fn series(&self) -> usize {
        match self {
            Self::Budget(..) => 2,
            _ => 1,
        }
    }
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
    /// Held while the gauges are read or changed.
    whole: Mutex<()>,
}

impl Campaigns {
    /// Keeps the gauges as they are while the value lives, so that they are read as a whole.
    pub(super) fn hold(&self) -> MutexGuard<'_, ()> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces all figures.
    ///
    /// Which campaigns have series of their own depends only on when each was created and on its
    /// first version, which never change: so all services agree, also after a restart, and a
    /// campaign keeps its series while it exists. Those that are created later come after it, and
    /// once one has found no room, none that comes later has any.
    pub(crate) fn set(&self, all: &[CampaignFigures]) {
        let _whole = self.hold();
        for family in self.families() {
            family.reset();
        }
        let mut ordered: Vec<_> = all.iter().collect();
        ordered.sort_by_key(|campaign| (campaign.created_us, &campaign.id));
        let (mut reserved, mut added) = (RESERVED_MAX, SERIES_MAX - RESERVED_MAX);
        let mut has_room = true;
        for campaign in ordered {
            has_room = has_room && take(&mut reserved, campaign.reserved);
            let mut own = campaign.reserved;
            for figure in &campaign.figures {
                let series = figure.series();
                let fits = has_room && (take(&mut own, series) || take(&mut added, series));
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

/// Takes this much of a room, if it has as much.
fn take(room: &mut usize, series: usize) -> bool {
    let left = room.checked_sub(series);
    *room = left.unwrap_or(*room);
    left.is_some()
}

#[cfg(test)]
mod tests {
    use prometheus::core::Collector as _;

    use super::*;

    /// A campaign with so many prizes in its first version, and others since.
    fn campaign(id: &str, created_us: i64, first: usize, added: usize) -> CampaignFigures {
        let figure = |prize| Figure::Units(format!("p{prize}"), "left", 1);
        CampaignFigures {
            id: id.into(),
            created_us,
            reserved: first,
            figures: (0..first + added).map(figure).collect(),
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
    fn series_are_bounded_and_go_by_the_order_of_creation() {
        let z = campaign("z", 1, 900, 0);
        let b = campaign("b", 2, 500, 0);
        let a = campaign("a", 3, 200, 0);
        let small = campaign("small", 4, 10, 0);
        // Whatever order a store lists them in, and whatever was set before.
        for order in [[&a, &b, &small, &z], [&z, &small, &b, &a]] {
            CAMPAIGNS.set(&order.map(Clone::clone));
            assert_eq!((found("z"), found("b")), ((900, 900), (500, 500)));
            // One that comes later gets no room that an earlier one has not found: it would lose it
            // again.
            assert_eq!((found("a"), found("small")), ((0, 0), (0, 0)));
            assert_eq!(found(OTHER), (1, 210));
        }
        // One of them is gone: those that had series keep them, others follow.
        CAMPAIGNS.set(&[a.clone(), b.clone(), small.clone()]);
        assert_eq!(found("b"), (500, 500));
        assert_eq!((found("a"), found("small")), ((200, 200), (10, 10)));
        // One that could not be read keeps its room.
        let unread = CampaignFigures {
            figures: Vec::new(),
            ..z.clone()
        };
        CAMPAIGNS.set(&[a.clone(), b.clone(), small.clone(), unread]);
        assert_eq!((found("z"), found("b")), ((0, 0), (500, 500)));
        assert_eq!((found("a"), found("small")), ((0, 0), (0, 0)));
        // A version that adds prizes takes no series from others, and keeps its own.
        let grown = campaign("z", 1, 900, 600);
        CAMPAIGNS.set(&[campaign("b", 2, 500, 100), a, small, grown]);
        assert_eq!((found("z"), found("b")), ((1_400, 1_400), (500, 500)));
        assert_eq!(found(OTHER), (1, 100 + 100 + 210));
        CAMPAIGNS.set(&[]);
    }
}
