//! What can be read of a campaign.

use std::{collections::BTreeMap, ops::Bound};

use super::campaign::{CampaignData, Pool};
use crate::{
    model::{Moment, PoolNo, PrizeNo, UserId},
    store::{
        BlockedUser, BlockedUsers, Filling, HoldNote, LedgerId, Result, Stats, UserDetails,
        UserView, WindowView,
        rules::{self, PoolState},
        view::DeckStats,
    },
};

fn blocked_user(user: &UserId, note: &HoldNote) -> BlockedUser {
    BlockedUser {
        user: user.clone(),
        note: Some(note.clone()),
    }
}

impl CampaignData {
    /// A user's record as it stands now.
    pub(super) fn user(&self, user: &UserId, now: Moment) -> UserView {
        let known = self.users.get(user);
        let record = known.map(|known| known.record.clone()).unwrap_or_default();
        let view = self.state.view.clone();
        let today = view.campaign.zone.day(now);
        UserView {
            view,
            record: record.on(today, now),
            now,
        }
    }

    /// A user's record and block.
    pub(super) fn user_details(&self, user: &UserId, now: Moment) -> UserDetails {
        let note = self.blocked.get(user);
        UserDetails {
            view: self.user(user, now),
            block: note.map(|note| blocked_user(user, note)),
        }
    }

    /// Blocked users by id, after `after`.
    pub(super) fn blocked_users(&self, after: Option<&UserId>, limit: usize) -> BlockedUsers {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let blocked = self
            .blocked
            .range::<UserId, _>((from, Bound::Unbounded))
            .take(limit);
        BlockedUsers {
            users: blocked
                .map(|(user, note)| blocked_user(user, note))
                .collect(),
            total: self.blocked.len() as u64,
        }
    }

    /// How far the pools are filled.
    pub(super) fn filling(&self, now: Moment) -> Result<Filling> {
        let paused = &self.state.view.paused_prizes;
        rules::filling(&self.load(now, &[]), |no| {
            let queues = self.pools[usize::from(no.0)].queues.iter();
            rules::cards_available(paused, queues.map(|queue| queue.view))
        })
    }

    /// Where every unit is.
    pub(super) fn stats(&self, now: Moment, (head, entries): (LedgerId, u64)) -> Stats {
        let state = &self.state;
        let stock = state.stock.iter().zip(&self.won);
        let mut prizes: Vec<_> = stock.map(|(stock, won)| stock.stats(*won)).collect();
        let mut pools_agree = true;
        let mut decks = Vec::new();
        for (no, (known, pool)) in (0..).map(PoolNo).zip(state.pools.iter().zip(&self.pools)) {
            let mut cards_waiting = 0;
            for queue in &pool.queues {
                let waiting = queue.view.waiting;
                let unplaced = queue.view.prize.map_or(0, |prize| known.unplaced(prize));
                pools_agree &= waiting == queue.len() + unplaced;
                cards_waiting += waiting;
                if let Some(prize) = queue.view.prize {
                    let stats = &mut prizes[usize::from(prize.0)];
                    stats.waiting += waiting;
                    stats.released += queue.due(now);
                }
            }
            match known {
                PoolState::Schedule(schedule) => {
                    for (prize, units) in &schedule.returned {
                        prizes[usize::from(prize.0)].released += units;
                    }
                }
                PoolState::Personal => {}
                PoolState::Deck(deck) => decks.push(DeckStats {
                    pool: no,
                    round: deck.round,
                    cards_left: deck.remaining.iter().map(|kind| kind.cards).sum(),
                    cards_waiting,
                    stopped: state.deck_stop(no),
                    lacking: state.deck_lacking(deck),
                }),
            }
        }
        Stats {
            view: state.view.clone(),
            now,
            head,
            entries,
            prizes,
            pools_agree,
            draws: self.counts,
            spent_day: self.spent_day,
            users: self.users.len() as u64,
            decks,
        }
    }

    /// Frozen windows of a pool that end after `after`, by start.
    pub(super) fn windows(
        &self,
        no: PoolNo,
        after: Moment,
        limit: usize,
        now: Moment,
    ) -> Result<Vec<WindowView>> {
        let index = usize::from(no.0);
        let (Some(pool), Some(PoolState::Schedule(schedule))) =
            (self.pools.get(index), self.state.pools.get(index))
        else {
            return Ok(Vec::new());
        };
        let windows: BTreeMap<_, _> = pool.past.iter().chain(&schedule.windows).collect();
        let windows = windows.into_iter().filter(|(_, window)| window.end > after);
        windows
            .take(limit)
            .map(|(start, window)| {
                window.view(no, *start, |prize| {
                    Ok(self.won_and_due(no, pool, *start, prize, now))
                })
            })
            .collect()
    }

    /// Units of a window that were won, and those that are released and wait.
    fn won_and_due(
        &self,
        no: PoolNo,
        pool: &Pool,
        start: Moment,
        prize: PrizeNo,
        now: Moment,
    ) -> (u64, u64) {
        let won = self.window_wins.get(&(no, start.as_seconds(), prize));
        let queue = pool.queue(Some(prize));
        let due = queue.map_or(0, |queue| queue.due_of(start, now));
        (won.copied().unwrap_or(0), due)
    }
}
