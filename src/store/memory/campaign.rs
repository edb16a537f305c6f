//! A campaign: what rules see of it, and what they do not: units, users, wins, past windows.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use foldhash::fast::RandomState as QuickHash;

use super::{
    ledger::{Ledger, What},
    queue::Queue,
};
use crate::{
    model::{
        Campaign, Moment, PoolKind, PoolNo, PrizeNo, RequestId, UserId,
        budget::{Spent, SpentDay},
        deck::CardCount,
        limits::UserRecord,
    },
    store::{
        Delivery, HoldNote, LedgerId, Refusal, Result, Subject, Unit,
        rules::{self, Changes, Placed, PoolState, State, Waiting, Window},
        view::DrawCounts,
    },
};

/// A campaign.
pub(super) struct CampaignData {
    /// As rules see it, with the windows that they always see.
    pub(super) state: State,
    /// By pool.
    pub(super) pools: Vec<Pool>,
    /// Units that the campaign's guarantees have given.
    pub(super) guaranteed: u64,
    /// Units won, by prize.
    pub(super) won: Vec<u64>,
    /// Units won, by pool, window (in seconds) and prize.
    pub(super) window_wins: HashMap<(PoolNo, i64, PrizeNo), u64>,
    pub(super) users: HashMap<UserId, User, QuickHash>,
    /// Who is blocked, and who blocked them.
    pub(super) blocked: BTreeMap<UserId, HoldNote>,
    /// Ledger entries of operations, by the request that they answer.
    pub(super) operations: HashMap<RequestId, LedgerId>,
    /// What became of wins.
    pub(super) deliveries: HashMap<(PoolNo, Unit), Delivery>,
    /// Encrypted codes, by prize and block.
    pub(super) codes: BTreeMap<(PrizeNo, u64), Vec<u8>>,
    pub(super) counts: DrawCounts,
    /// What was won under a budget.
    pub(super) spent_day: SpentDay,
    /// When the injector has something to do next.
    pub(super) due: Option<Moment>,
    /// Since when nothing has happened to it, if it is closed.
    pub(super) closed: Option<Moment>,
    /// By version, from 1.
    definitions: Vec<Arc<Campaign>>,
}

/// What is kept of a user.
#[derive(Default)]
pub(super) struct User {
    pub(super) record: UserRecord,
    /// Ledger entries of draws and of callers' grants, by request.
    pub(super) draws: HashMap<RequestId, LedgerId>,
}

/// What rules do not see of a pool.
pub(super) struct Pool {
    /// Of a schedule: every unit released before this moment is in its queues.
    pub(super) filled_until: Option<Moment>,
    /// Of a deck: the cards of every later round.
    pub(super) later_round: Vec<CardCount>,
    /// By prize; a deck's blanks come first.
    pub(super) queues: Vec<Queue>,
    /// Windows by start that rules see only if they ask for them.
    pub(super) past: BTreeMap<Moment, Window>,
    /// Of a personal pool: units that were won.
    pub(super) given: u64,
}

impl Pool {
    fn new(campaign: &Campaign, no: PoolNo) -> Self {
        let later_round = match &campaign.pool(no).kind {
            PoolKind::Deck(deck) => deck.later_round(|prize| campaign.prize(prize).grand),
            PoolKind::Schedule(_) | PoolKind::Personal(_) => Vec::new(),
        };
        Self {
            filled_until: None,
            later_round,
            queues: Vec::new(),
            past: BTreeMap::new(),
            given: 0,
        }
    }

    /// The queue of a prize, or of blanks, which is made if there is none.
    fn queue_mut(&mut self, prize: Option<PrizeNo>) -> &mut Queue {
        let index = self
            .queues
            .binary_search_by_key(&prize, |queue| queue.view.prize);
        let index = index.unwrap_or_else(|index| {
            self.queues.insert(index, Queue::new(prize));
            index
        });
        &mut self.queues[index]
    }

    /// The queue of a prize, or of blanks, if there is one.
    pub(super) fn queue(&self, prize: Option<PrizeNo>) -> Option<&Queue> {
        let index = self
            .queues
            .binary_search_by_key(&prize, |queue| queue.view.prize);
        index.ok().map(|index| &self.queues[index])
    }
}

impl CampaignData {
    /// A campaign of which nothing is written yet.
    pub(super) fn new(state: &State) -> Self {
        let mut state = state.clone();
        state.changes = Changes::default();
        Self {
            state,
            pools: Vec::new(),
            guaranteed: 0,
            won: Vec::new(),
            window_wins: HashMap::new(),
            users: HashMap::default(),
            blocked: BTreeMap::new(),
            operations: HashMap::new(),
            deliveries: HashMap::new(),
            codes: BTreeMap::new(),
            counts: DrawCounts::default(),
            spent_day: SpentDay::default(),
            due: None,
            closed: None,
            definitions: Vec::new(),
        }
    }

    /// What was won of the budget; nothing if there is none.
    pub(super) fn spent(&self, now: Moment) -> Spent {
        rules::spent(&self.state.view.campaign, self.spent_day, now, |prize| {
            let prize = usize::from(prize.0);
            self.state.stock[prize].still_won(self.won[prize])
        })
    }

    /// The definition of a version.
    pub(super) fn definition(&self, version: u32) -> Result<Arc<Campaign>> {
        let index = usize::try_from(version)
            .ok()
            .and_then(|no| no.checked_sub(1));
        let found = index.and_then(|index| self.definitions.get(index));
        Ok(Arc::clone(found.ok_or(Refusal::VersionNotFound(version))?))
    }

    /// The campaign as a rule sees it, with the windows that it asks for.
    pub(super) fn load(&self, now: Moment, asked: &[(PoolNo, Moment)]) -> State {
        let mut state = self.state.clone();
        state.now = now;
        for known in &mut state.pools {
            if let PoolState::Schedule(schedule) = known {
                schedule.windows.retain(|_, window| is_seen(window, now));
            }
        }
        self.add_windows(&mut state, asked);
        state
    }

    /// Brings further windows to the state; those that do not exist stay away.
    pub(super) fn add_windows(&self, state: &mut State, asked: &[(PoolNo, Moment)]) {
        for (no, start) in asked {
            let index = usize::from(no.0);
            let known = self.state.pools.get(index);
            let (Some(pool), Some(PoolState::Schedule(known))) = (self.pools.get(index), known)
            else {
                continue;
            };
            let found = known.windows.get(start).or_else(|| pool.past.get(start));
            if let (Some(window), Some(PoolState::Schedule(schedule))) =
                (found, state.pools.get_mut(index))
            {
                schedule.windows.insert(*start, window.clone());
            }
        }
    }

    /// Writes the campaign as a rule has left it; the last entry of the ledger.
    pub(super) fn save(
        &mut self,
        mut state: State,
        ledger: &mut Ledger,
    ) -> Result<Option<LedgerId>> {
        let changes = std::mem::take(&mut state.changes);
        self.due = rules::due(&state);
        if self.due.is_some() {
            self.closed = None;
        } else if self.closed.is_none() || !changes.entries.is_empty() {
            self.closed = Some(state.now);
        }
        if changes.is_anew {
            self.state.pools.clear();
            self.pools.clear();
            self.window_wins.clear();
            self.won.clear();
        }
        if changes.is_new_version {
            self.definitions.push(Arc::clone(&state.view.campaign));
        }
        self.won.resize(state.stock.len(), 0);
        self.save_pools(&mut state);
        self.state = state;
        self.move_units(&changes)?;
        for change in changes.users {
            self.users.entry(change.user).or_default().record = change.after;
        }
        self.blocked.extend(changes.blocked);
        for user in &changes.unblocked {
            self.blocked.remove(user);
        }
        if let Some((prize, blocks)) = changes.codes {
            let blocks = blocks.into_iter();
            let blocks = blocks.map(|block| ((prize, block.index), block.bytes));
            self.codes.extend(blocks);
        }
        if let Some((pool, unit, delivery)) = changes.delivery {
            self.deliveries.insert((pool, unit), delivery);
        }
        let id = &self.state.view.campaign.id;
        let mut last = None;
        for body in changes.entries {
            let subject = Subject::Campaign(id.clone());
            last = Some(ledger.append(self.state.now, subject, What::Other(Box::new(body))));
        }
        if let (Some(request), Some(entry)) = (changes.request, last) {
            self.operations.insert(request, entry);
        }
        Ok(last)
    }

    /// Puts windows aside that rules do not see any more, and notes how far schedules are filled.
    fn save_pools(&mut self, state: &mut State) {
        let campaign = &state.view.campaign;
        for (no, known) in (0..).map(PoolNo).zip(&mut state.pools) {
            let index = usize::from(no.0);
            if index >= self.pools.len() {
                self.pools.push(Pool::new(campaign, no));
            }
            let PoolState::Schedule(schedule) = known else {
                continue;
            };
            let pool = &mut self.pools[index];
            let before = match self.state.pools.get_mut(index) {
                Some(PoolState::Schedule(before)) => std::mem::take(&mut before.windows),
                _ => BTreeMap::new(),
            };
            // Those that the rule did not see are as they were.
            for (start, window) in before {
                schedule.windows.entry(start).or_insert(window);
            }
            pool.filled_until = Some(schedule.filled_until());
            schedule.windows.retain(|start, window| {
                let is_seen = is_seen(window, state.now);
                if is_seen {
                    pool.past.remove(start);
                } else {
                    pool.past.insert(*start, window.clone());
                }
                is_seen
            });
        }
    }

    fn move_units(&mut self, changes: &Changes) -> Result<()> {
        for ((pool, prize), units) in &changes.waiting {
            self.queue_mut(*pool, *prize).count(*units)?;
        }
        for placed in &changes.units_in {
            let queue = self.queue_mut(placed.pool, placed.prize);
            queue.insert(waiting(placed))?;
        }
        for placed in &changes.units_out {
            let queue = self.queue_mut(placed.pool, placed.prize);
            queue.remove(&waiting(placed))?;
        }
        Ok(())
    }

    fn queue_mut(&mut self, pool: PoolNo, prize: Option<PrizeNo>) -> &mut Queue {
        self.pools[usize::from(pool.0)].queue_mut(prize)
    }
}

/// Rules see the window without asking for it.
fn is_seen(window: &Window, now: Moment) -> bool {
    window.end > now || window.is_open()
}

fn waiting(placed: &Placed) -> Waiting {
    Waiting {
        score: placed.score,
        unit: placed.unit,
    }
}
