//! What users won of prizes that have caps, counted from the ledger's entries alone.

use std::collections::BTreeMap;

use tombola::model::{Campaign, Moment, PrizeNo, UserId, caps::PrizeCounts, zone::Day};

/// Wins of prizes while they had caps.
#[derive(Default)]
pub struct CappedWins {
    days: BTreeMap<(UserId, PrizeNo, Day), u32>,
    in_all: BTreeMap<(UserId, PrizeNo), u64>,
}

impl CappedWins {
    /// The user has won as many units of a prize as its cap allows.
    pub fn is_reached(
        &self,
        user: &UserId,
        at: Moment,
        campaign: &Campaign,
        prize: PrizeNo,
    ) -> bool {
        let Some(cap) = campaign.prize(prize).per_user else {
            return false;
        };
        let day = campaign.zone.day(at);
        let today = self.days.get(&(user.clone(), prize, day));
        let in_all = self.in_all.get(&(user.clone(), prize));
        cap.per_day
            .is_some_and(|most| today.copied().unwrap_or(0) >= most)
            || cap
                .total
                .is_some_and(|most| in_all.copied().unwrap_or(0) >= most.into())
    }

    /// Counts a win of a prize, if it has a cap, which must not be reached yet (P5).
    pub fn count(&mut self, user: &UserId, at: Moment, campaign: &Campaign, prize: PrizeNo) {
        if campaign.prize(prize).per_user.is_none() {
            return;
        }
        let is_reached = self.is_reached(user, at, campaign, prize);
        assert!(!is_reached, "P5: {user} has too many of prize {}", prize.0);
        let today = self
            .days
            .entry((user.clone(), prize, campaign.zone.day(at)));
        *today.or_default() += 1;
        *self.in_all.entry((user.clone(), prize)).or_default() += 1;
    }

    /// All wins of a user, as of a day.
    pub fn of(&self, user: &UserId, day: Day) -> PrizeCounts {
        let own = self.in_all.iter().filter(|((whose, _), _)| whose == user);
        own.map(|((_, prize), in_all)| {
            let today = self.days.get(&(user.clone(), *prize, day));
            (*prize, today.copied().unwrap_or(0), *in_all)
        })
        .collect()
    }
}
