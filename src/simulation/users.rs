//! What a run knows of its users: who drew, who won, and who reached a limit or a cap.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    model::{
        Campaign, PrizeNo,
        limits::{Quota, Quotas},
    },
    store::{DrawAnswer, DrawResult},
};

/// The users of a run, by number.
pub(super) struct Users {
    seen: Vec<Seen>,
    /// By prize with a cap: users who have reached it.
    at_cap: BTreeMap<PrizeNo, AtCap>,
    limits_wins: bool,
}

/// Users who have won as many units of a prize as a user may.
#[derive(Default)]
struct AtCap {
    in_all: BTreeSet<usize>,
    /// On any day.
    on_a_day: BTreeSet<usize>,
}

/// What is known of a user.
#[derive(Clone, Copy, Default)]
struct Seen {
    has_drawn: bool,
    has_won: bool,
    is_guaranteed: bool,
    is_refused: bool,
    has_all_wins: bool,
}

/// How many users there were of each sort.
#[derive(Clone, Debug, Default)]
pub(super) struct UserSums {
    /// Users who drew.
    pub(super) drawers: u64,
    /// Users who won at least one unit.
    pub(super) winners: u64,
    /// Users to whom a guarantee gave a unit.
    pub(super) guaranteed: u64,
    /// Users who were refused a draw by a limit, or won as many units as `winsPerUser` allows.
    pub(super) limited: u64,
    /// Of these, users who won as many units as `winsPerUser` allows.
    pub(super) at_wins_limit: u64,
    /// By prize with a cap: users who reached the cap in all.
    pub(super) at_cap: BTreeMap<PrizeNo, u64>,
    /// By prize with a cap: users who reached the cap of a day on any day.
    pub(super) at_daily_cap: BTreeMap<PrizeNo, u64>,
}

impl Users {
    pub(super) fn new(campaign: &Campaign, users: u64) -> Self {
        let mut limits = campaign.all_limits();
        let capped = campaign.capped_prizes();
        Self {
            seen: vec![Seen::default(); users as usize],
            at_cap: capped.map(|(no, _)| (no, AtCap::default())).collect(),
            limits_wins: limits.any(|limits| limits.wins_per_user.is_some()),
        }
    }

    /// Notes a draw that was made.
    pub(super) fn drew(&mut self, user: u64, answer: &DrawAnswer) {
        let index = user as usize;
        let seen = &mut self.seen[index];
        // A limit of no wins is reached before the first win.
        let mut may_reach = !seen.has_drawn;
        seen.has_drawn = true;
        for result in &answer.entry.results {
            if let DrawResult::Won { guarantee, .. } = result {
                seen.has_won = true;
                seen.is_guaranteed |= guarantee.is_some();
                may_reach = true;
            }
        }
        if may_reach && (self.limits_wins || !self.at_cap.is_empty()) {
            self.note_quotas(index, &answer.quotas());
        }
    }

    /// Notes a draw that a limit refused.
    pub(super) fn refused(&mut self, user: u64) {
        self.seen[user as usize].is_refused = true;
    }

    fn note_quotas(&mut self, index: usize, quotas: &Quotas) {
        let is_used_up = |quota: &Quota| quota.remaining() == Some(0);
        self.seen[index].has_all_wins |= is_used_up(&quotas.wins_total);
        for prize in &quotas.prizes {
            let at_cap = self.at_cap.entry(prize.prize).or_default();
            if is_used_up(&prize.total) {
                at_cap.in_all.insert(index);
            }
            if is_used_up(&prize.today) {
                at_cap.on_a_day.insert(index);
            }
        }
    }

    pub(super) fn sums(&self) -> UserSums {
        let count = |is: fn(&Seen) -> bool| self.seen.iter().filter(|seen| is(seen)).count() as u64;
        let by_prize = |of: fn(&AtCap) -> &BTreeSet<usize>| {
            let prizes = self.at_cap.iter();
            prizes
                .map(|(prize, users)| (*prize, of(users).len() as u64))
                .collect()
        };
        UserSums {
            drawers: count(|seen| seen.has_drawn),
            winners: count(|seen| seen.has_won),
            guaranteed: count(|seen| seen.is_guaranteed),
            limited: count(|seen| seen.is_refused || seen.has_all_wins),
            at_wins_limit: count(|seen| seen.has_all_wins),
            at_cap: by_prize(|users| &users.in_all),
            at_daily_cap: by_prize(|users| &users.on_a_day),
        }
    }
}
