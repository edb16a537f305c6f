//! Which units a draw gives: that of a guarantee that is due, else pool by pool in the campaign's
//! order, the first unit that is due.
//!
//! A prize that the user may not have now (the user has reached the limit of wins, or the cap of
//! the prize, or it would pass the campaign's budget) is held for this user in schedules, so
//! another prize's unit is given. In a deck its card is drawn as it would be for anybody, and is
//! forfeited: the cards of others never depend on who drew. A pool of which the user may have no
//! prize at all is passed over, and so is one that is for users in other segments, or that is not
//! open to this user.
//!
//! The same for every store but Redis, whose script `draw.lua` decides it in the same way. A store
//! shows its pools as [`Pools`]. Nothing leaves them before the whole command is decided.

use std::mem;

use crate::{
    chance::UserChance,
    model::{
        Campaign, Moment, PoolKind, PoolNo, PrizeNo, SegmentId,
        budget::{Budget, Spent},
        caps::PrizeCounts,
        limits::{DrawLimits, UserRecord},
        personal::Progress,
    },
    store::{Cause, DrawCommand, DrawResult, Need, Result, Unit},
};

use super::{deal::LOW_CARDS, own::OwnDraw};

/// A unit that waits in a queue. The order is that of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) struct Waiting {
    /// The moment of release in microseconds, or a card's position.
    pub(in crate::store) score: i64,
    pub(in crate::store) unit: Unit,
}

/// What a draw must know of a queue besides its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct QueueView {
    /// None for the blanks of a deck.
    pub(in crate::store) prize: Option<PrizeNo>,
    /// The number of units off stock for this queue and neither won nor taken back.
    pub(in crate::store) waiting: u64,
}

/// A campaign's pools as a draw sees them. A pool has a queue for each prize, known by its index.
pub(in crate::store) trait Pools {
    /// Of a schedule: every unit released before this moment is in its queues. None for a deck.
    fn filled_until(&self, pool: PoolNo) -> Option<Moment>;

    /// More cards are dealt once those that wait are drawn. False for a schedule.
    fn is_dealt_on(&self, pool: PoolNo) -> bool;

    /// The queue of this index; none after the last one.
    fn queue(&self, pool: PoolNo, queue: usize) -> Option<QueueView>;

    /// The unit of this index in a queue, from 0; none after the last one.
    fn unit(&mut self, pool: PoolNo, queue: usize, index: usize) -> Result<Option<Waiting>>;

    /// The index of the code that the next win of a prize gets.
    fn next_code(&self, prize: PrizeNo) -> u64;

    /// Units of a prize that can be taken off stock.
    fn in_stock(&self, prize: PrizeNo) -> u64;

    /// The next unit of a personal pool, or of the guarantees.
    fn next_unit(&self, pool: PoolNo) -> Unit;
}

/// What a command asks for that limits have admitted.
#[derive(Clone, Debug)]
pub(in crate::store) struct Admitted<'a> {
    /// The number of draws to make.
    pub(in crate::store) count: u32,
    /// Those that the user is in.
    pub(in crate::store) segments: &'a [SegmentId],
    /// Why the pools are not touched; none if they are.
    pub(in crate::store) barred: Option<Cause>,
    /// Draws of the user before this command.
    pub(in crate::store) draws: u64,
    /// Those of the day.
    pub(in crate::store) draws_today: u64,
    /// Wins of the user before this command.
    pub(in crate::store) wins: u64,
    /// The same of prizes while they had caps.
    pub(in crate::store) prizes: PrizeCounts,
    /// What was won of the campaign's budget before this command; nothing if it has none.
    pub(in crate::store) spent: Spent,
    /// How far the user is in personal pools and guarantees.
    pub(in crate::store) progress: Progress,
    /// The user's own chance, if the command has it.
    pub(in crate::store) chance: Option<&'a UserChance>,
}

impl<'a> Admitted<'a> {
    /// What a command asks for, for a user with this record of today.
    pub(in crate::store) fn new(
        command: &'a DrawCommand,
        record: &UserRecord,
        barred: Option<Cause>,
        spent: Spent,
    ) -> Self {
        Self {
            count: command.count,
            segments: &command.segments,
            barred,
            draws: record.draws,
            draws_today: record.draws_today(),
            wins: record.wins,
            prizes: record.prizes.clone(),
            spent,
            progress: record.progress.clone(),
            chance: command.chance.as_deref(),
        }
    }
}

/// A unit that leaves its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Pick {
    pub(in crate::store) pool: PoolNo,
    /// The index of the queue, of which the unit is the first one left.
    pub(in crate::store) queue: usize,
    /// None for a blank.
    pub(in crate::store) prize: Option<PrizeNo>,
    pub(in crate::store) waiting: Waiting,
    /// The user may not have the prize: the unit goes back to stock.
    pub(in crate::store) is_forfeited: bool,
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum Outcome {
    Made(Made),
    /// Nothing may be taken before this pool is filled further.
    NeedFill(Need),
    /// A personal pool is reached, and the command has no chance for it.
    NeedChance,
}

/// The draws of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Made {
    /// One for each draw.
    pub(in crate::store) results: Vec<DrawResult>,
    /// The units to take, blanks included, each queue's from its first unit on.
    pub(in crate::store) picks: Vec<Pick>,
    /// The pool and the prize of each unit that personal pools and guarantees take off stock.
    pub(in crate::store) given: Vec<(PoolNo, PrizeNo)>,
    /// Wins of the user after this command.
    pub(in crate::store) wins: u64,
    /// The same of prizes while they had caps.
    pub(in crate::store) prizes: PrizeCounts,
    /// What was won of the campaign's budget after this command; nothing if it has none.
    pub(in crate::store) spent: Spent,
    /// How far the user is in personal pools and guarantees after this command.
    pub(in crate::store) progress: Progress,
}

impl Made {
    /// Moves what the draws have made of a user's record there.
    pub(in crate::store) fn keep(&mut self, record: &mut UserRecord) {
        record.wins = self.wins;
        record.prizes = mem::take(&mut self.prizes);
        record.progress = mem::take(&mut self.progress);
    }
}

/// Decides a command's draws one after another.
pub(in crate::store) fn draw(
    campaign: &Campaign,
    paused: &[PrizeNo],
    now: Moment,
    pools: &mut impl Pools,
    admitted: Admitted<'_>,
) -> Result<Outcome> {
    let mut search = Search {
        campaign,
        paused,
        now,
        pools,
        limits: campaign.limits_of(admitted.segments),
        closed: campaign.pools_closed_to(admitted.segments).collect(),
        capped: campaign.capped_prizes().map(|(prize, _)| prize).collect(),
        budget: campaign.budget.as_ref(),
        chance: admitted.chance,
        made: Made {
            wins: admitted.wins,
            prizes: admitted.prizes,
            spent: admitted.spent,
            progress: admitted.progress,
            ..Made::default()
        },
    };
    for number in 0..u64::from(admitted.count) {
        if let Some(cause) = admitted.barred {
            search.give_without(cause);
            continue;
        }
        let found = match search.guaranteed() {
            Some(draw) => Found::Own(draw),
            None => search.pools_in_turn(admitted.draws + number, admitted.draws_today + number)?,
        };
        match found {
            Found::NeedFill(need) => return Ok(Outcome::NeedFill(need)),
            Found::NeedChance => return Ok(Outcome::NeedChance),
            Found::Unit(pick) => search.take(pick),
            Found::Own(draw) => search.take_own(draw),
            Found::Nothing if search.has_all_wins() => search.give_without(Cause::WinsLimit),
            Found::Nothing if search.has_reached_any_cap() => search.give_without(Cause::PrizeCap),
            Found::Nothing if search.has_reached_budget() => search.give_without(Cause::Budget),
            Found::Nothing => search.give_without(Cause::NothingDue),
        }
        search.count_guarantees();
    }
    Ok(Outcome::Made(search.made))
}

/// Pools to fill beside the draws: decks that have just run low, and schedules that gave a unit
/// though they are not filled up to now. To be asked before the units are taken.
pub(in crate::store) fn running_low(
    paused: &[PrizeNo],
    now: Moment,
    pools: &impl Pools,
    picks: &[Pick],
) -> Vec<PoolNo> {
    let mut low: Vec<PoolNo> = Vec::new();
    for pick in picks {
        if low.contains(&pick.pool) {
            continue;
        }
        let is_low = match pools.filled_until(pick.pool) {
            Some(filled_until) => now >= filled_until,
            None => {
                // One draw passes the mark, and it alone asks for more.
                let queues = (0..).map_while(|queue| pools.queue(pick.pool, queue));
                let before = cards_available(paused, queues);
                let drawn = picks.iter().filter(|other| other.pool == pick.pool).count() as u64;
                (LOW_CARDS..LOW_CARDS + drawn).contains(&before) && pools.is_dealt_on(pick.pool)
            }
        };
        if is_low {
            low.push(pick.pool);
        }
    }
    low
}

/// Cards that wait in a deck of these queues, those of paused prizes aside.
pub(in crate::store) fn cards_available(
    paused: &[PrizeNo],
    queues: impl Iterator<Item = QueueView>,
) -> u64 {
    queues
        .filter(|queue| !is_paused(paused, queue.prize))
        .map(|queue| queue.waiting)
        .sum()
}

fn is_paused(paused: &[PrizeNo], prize: Option<PrizeNo>) -> bool {
    prize.is_some_and(|prize| paused.contains(&prize))
}

/// What the pools give.
pub(super) enum Found {
    /// A unit, or a blank.
    Unit(Pick),
    /// What a personal pool or a guarantee gives.
    Own(OwnDraw),
    /// No pool has anything.
    Nothing,
    NeedFill(Need),
    NeedChance,
}

/// The draws of a command, one by one.
pub(super) struct Search<'a, P> {
    pub(super) campaign: &'a Campaign,
    pub(super) paused: &'a [PrizeNo],
    now: Moment,
    pub(super) pools: &'a mut P,
    limits: &'a DrawLimits,
    /// Pools that are for users in other segments.
    closed: Vec<PoolNo>,
    /// Prizes that have a cap.
    capped: Vec<PrizeNo>,
    budget: Option<&'a Budget>,
    pub(super) chance: Option<&'a UserChance>,
    pub(super) made: Made,
}

impl<P: Pools> Search<'_, P> {
    /// The user may have a unit of this prize now.
    pub(super) fn may_have(&self, prize: PrizeNo) -> bool {
        let has_all = self.campaign.prize(prize).counts_as_win && self.has_all_wins();
        !has_all && !self.has_reached_cap(prize) && !self.passes_budget(prize)
    }

    /// One more unit of this prize would pass the budget.
    pub(super) fn passes_budget(&self, prize: PrizeNo) -> bool {
        let passes = |budget: &Budget| budget.holds(prize, self.made.spent);
        self.budget.is_some_and(passes)
    }

    /// There is a prize of which one more unit would pass the budget.
    fn has_reached_budget(&self) -> bool {
        let spent = self.made.spent;
        self.budget
            .is_some_and(|budget| budget.held(spent).next().is_some())
    }

    /// The user has won as many units of this prize as a user may.
    fn has_reached_cap(&self, prize: PrizeNo) -> bool {
        let cap = self.campaign.prize(prize).per_user;
        cap.is_some_and(|cap| cap.is_reached(self.made.prizes.of(prize)))
    }

    /// There is a prize of which the user has won as many units as a user may.
    fn has_reached_any_cap(&self) -> bool {
        self.capped.iter().any(|prize| self.has_reached_cap(*prize))
    }

    /// The user has as many wins as the campaign allows.
    fn has_all_wins(&self) -> bool {
        let limit = self.limits.wins_per_user;
        limit.is_some_and(|limit| self.made.wins >= u64::from(limit))
    }

    /// The user may have a prize of this pool now.
    fn may_have_any(&self, no: PoolNo) -> bool {
        if !self.has_all_wins() && !self.has_reached_any_cap() && !self.has_reached_budget() {
            return true;
        }
        match &self.campaign.pool(no).kind {
            PoolKind::Deck(deck) => deck.cards.keys().any(|prize| self.may_have(*prize)),
            // Units of an earlier plan may be of prizes that are not planned any more.
            PoolKind::Schedule(plan) => self.campaign.numbered_prizes().any(|(prize, _)| {
                self.may_have(prize) && (plan.plans(prize) || self.has_queue(no, prize))
            }),
            PoolKind::Personal(personal) => personal.prizes().any(|prize| self.may_have(prize)),
        }
    }

    fn has_queue(&self, pool: PoolNo, prize: PrizeNo) -> bool {
        let mut queues = (0..).map_while(|queue| self.pools.queue(pool, queue));
        queues.any(|queue| queue.prize == Some(prize))
    }

    /// The first unit that a pool gives to a user who has drawn so many times, and on the day.
    fn pools_in_turn(&mut self, draws: u64, draws_today: u64) -> Result<Found> {
        for (no, pool) in self.campaign.numbered_pools() {
            let is_open = pool.is_open_after(draws, draws_today, self.made.wins)
                && !self.closed.contains(&no);
            if !is_open || !self.may_have_any(no) {
                continue;
            }
            let found = match &pool.kind {
                PoolKind::Personal(personal) => self.own(no, personal),
                PoolKind::Schedule(_) | PoolKind::Deck(_) => self.pool(no)?,
            };
            match found {
                Found::Nothing => {}
                found => return Ok(found),
            }
        }
        Ok(Found::Nothing)
    }

    fn pool(&mut self, no: PoolNo) -> Result<Found> {
        let filled_until = self.pools.filled_until(no);
        // What is released before `filled_until` is all there, so the first unit of it may be drawn
        // while a fill goes on.
        let due_before = filled_until.map_or(i64::MAX, |until| {
            until.as_micros().min(self.now.as_micros() + 1)
        });
        if let Some(pick) = self.first_waiting(no)?
            && pick.waiting.score < due_before
        {
            return Ok(Found::Unit(pick));
        }
        let cards = match filled_until {
            Some(until) if self.now >= until => 0,
            None if self.pools.is_dealt_on(no) => self.picked(no, None) as u64 + 1,
            _ => return Ok(Found::Nothing),
        };
        Ok(Found::NeedFill(Need { pool: no, cards }))
    }

    /// The unit with the lowest score that is of no held prize and that no earlier draw of this
    /// command picked.
    fn first_waiting(&mut self, pool: PoolNo) -> Result<Option<Pick>> {
        let is_deck = self.pools.filled_until(pool).is_none();
        let mut first: Option<Pick> = None;
        for queue in 0.. {
            let Some(QueueView { prize, waiting }) = self.pools.queue(pool, queue) else {
                break;
            };
            let is_denied = prize.is_some_and(|prize| !self.may_have(prize));
            if waiting == 0 || is_paused(self.paused, prize) || (is_denied && !is_deck) {
                continue;
            }
            let picked = self.picked(pool, Some(queue));
            let Some(waiting) = self.pools.unit(pool, queue, picked)? else {
                continue;
            };
            if first.is_none_or(|best| waiting < best.waiting) {
                first = Some(Pick {
                    pool,
                    queue,
                    prize,
                    waiting,
                    is_forfeited: is_denied,
                });
            }
        }
        Ok(first)
    }

    /// Units that earlier draws of this command picked of a pool, or of one of its queues.
    fn picked(&self, pool: PoolNo, queue: Option<usize>) -> usize {
        let picks = self.made.picks.iter().filter(|pick| pick.pool == pool);
        picks
            .filter(|pick| queue.is_none_or(|queue| pick.queue == queue))
            .count()
    }

    /// A unit is won or forfeited, or a blank drawn.
    fn take(&mut self, pick: Pick) {
        self.made.picks.push(pick);
        let (pool, unit) = (pick.pool, pick.waiting.unit);
        let Some(prize) = pick.prize else {
            return self.give_without(Cause::Blank { pool, unit });
        };
        if pick.is_forfeited {
            return self.give_without(Cause::Forfeited { prize, pool, unit });
        }
        let is_scheduled = self.pools.filled_until(pool).is_some();
        let code = self.campaign.prize(prize).codes;
        let code = code.then(|| self.next_code(prize));
        self.count_win(prize);
        self.made.results.push(DrawResult::Won {
            prize,
            pool,
            unit,
            release: is_scheduled.then(|| Moment::from_micros(pick.waiting.score)),
            code,
            guarantee: None,
        });
    }

    /// Counts a win against the user's limits.
    pub(super) fn count_win(&mut self, prize: PrizeNo) {
        let definition = self.campaign.prize(prize);
        self.made.wins += u64::from(definition.counts_as_win);
        if definition.per_user.is_some() {
            self.made.prizes.add(prize);
        }
        if let Some(budget) = self.budget {
            self.made.spent.add(budget.value(prize));
        }
    }

    /// The index of the code that a win gets after the wins of this command.
    fn next_code(&self, won: PrizeNo) -> u64 {
        let made = self.made.results.iter();
        let earlier = made.filter(|result| match result {
            DrawResult::Won { prize, .. } => *prize == won,
            DrawResult::NotWon { .. } => false,
        });
        self.pools.next_code(won) + earlier.count() as u64
    }

    /// No unit is won.
    pub(super) fn give_without(&mut self, cause: Cause) {
        self.made.results.push(DrawResult::NotWon {
            consolation: self.campaign.consolation.is_some(),
            cause,
        });
    }
}
