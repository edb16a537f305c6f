//! A draw as one step: replay, state, limits, units, record, memory, ledger. Everything is decided
//! first and written last.

use std::sync::Arc;

use rusqlite::{Connection, params};

use super::{
    job::Command,
    state::CampaignState,
    step::{Step, definition},
    units::{Queue, Waiting},
    users::{is_blocked, load_user, remembered, save_user},
};
use crate::{
    model::{Campaign, Moment, PoolNo, PrizeNo, limits::UserRecord},
    store::{
        DrawAnswer, DrawCommand, Drawn, Need, Refusal, Result, StoreError,
        entry::{Body, DrawEntry, DrawResult, Entry},
        fill::DeckStop,
        rules::{LOW_CARDS, PoolState},
    },
};

impl Command for DrawCommand {
    type Reply = Drawn;

    fn run(&self, step: &mut Step<'_>) -> Result<Drawn> {
        step.with(&self.campaign, |step, state| draw(self, step, state))
    }

    fn draws(&self) -> Option<usize> {
        Some(self.count as usize)
    }
}

fn draw(command: &DrawCommand, step: &mut Step<'_>, state: &mut CampaignState) -> Result<Drawn> {
    let oldest = step.now - step.core.request_memory;
    let name = (&command.user, &command.request);
    if let Some((entry, draw)) = remembered(step.db, state.no, name, oldest)? {
        // Whatever hides the answer, the draw was made.
        return replay(command, step.db, state, &entry, draw).map_err(StoreError::after_write);
    }
    if step.now > command.not_after {
        return Err(Refusal::DeadlineExceeded.into());
    }
    if let Some(expire) = command.expire.filter(|expire| step.now > *expire) {
        return Err(Refusal::Expired(expire).into());
    }
    state.view.admits_draws(step.now)?;

    let campaign = Arc::clone(&state.view.campaign);
    let stored = load_user(step.db, state.no, &command.user)?;
    let is_new = stored.is_none();
    let mut user = stored
        .unwrap_or_default()
        .on(campaign.zone.day(step.now), step.now);
    let charge = user
        .admit(&campaign.limits, command.funding, command.count)
        .map_err(|reached| Refusal::Limit {
            reached,
            retry_at: reached
                .resets
                .then(|| campaign.zone.next_day_start(step.now)),
            now: step.now,
        })?;

    let barred = command.consolation_only || is_blocked(step.db, state, &command.user)?;
    let mut search = Search::new(&campaign, step, state, &user);
    for _ in 0..command.count {
        search.draw_one(barred)?;
    }
    let Search {
        picks,
        results,
        wins,
        needs,
        ..
    } = search;
    if !needs.is_empty() {
        return Ok(Drawn::NeedFill(needs));
    }

    user.charge(charge);
    user.wins = wins;
    let running_low = take(state, &picks, step.now)?;
    count_results(state, &results);
    state.users += u64::from(is_new);
    state.touch();
    save_user(step.db, state.no, &command.user, &user)?;
    let body = Body::Draw(DrawEntry {
        version: state.view.version,
        user: command.user.clone(),
        request: command.request.clone(),
        funding: command.funding,
        payment_ref: command.payment_ref.clone(),
        consolation_only: command.consolation_only,
        results,
        counts: user.counts(),
    });
    let ledger = step.append(state.no, &body)?;
    step.db
        .prepare_cached(
            "INSERT OR REPLACE INTO users (campaign, user, request, sequence) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            state.no,
            command.user.as_str(),
            command.request.as_str(),
            ledger.sequence
        ])?;
    let Body::Draw(entry) = body else {
        return Err(StoreError::corrupt("a draw is a draw"));
    };
    Ok(Drawn::Done(DrawAnswer {
        entry: Arc::new(entry),
        ledger,
        at: step.now,
        replayed: false,
        campaign,
        running_low,
    }))
}

/// The answer of a remembered draw, if this is a retry of it.
fn replay(
    command: &DrawCommand,
    db: &Connection,
    state: &CampaignState,
    entry: &Entry,
    draw: DrawEntry,
) -> Result<Drawn> {
    let same = draw.user == command.user
        && draw.request == command.request
        && draw.results.len() == command.count as usize
        && draw.funding == command.funding
        && draw.payment_ref == command.payment_ref
        && draw.consolation_only == command.consolation_only;
    if !same {
        return Err(Refusal::RequestIdReused.into());
    }
    let campaign = if draw.version == state.view.version {
        Arc::clone(&state.view.campaign)
    } else {
        definition(db, state.no, draw.version).map_err(StoreError::of_recorded_version)?
    };
    draw.check(&campaign)?;
    Ok(Drawn::Done(DrawAnswer {
        entry: Arc::new(draw),
        ledger: entry.id,
        at: entry.at,
        replayed: true,
        campaign,
        running_low: Vec::new(),
    }))
}

/// A unit that a draw will take: the pool, its queue, and the unit.
struct Pick {
    pool: PoolNo,
    queue: usize,
    waiting: Waiting,
}

/// Draws one by one, and takes nothing yet.
struct Search<'a> {
    campaign: &'a Campaign,
    db: &'a Connection,
    now: Moment,
    state: &'a mut CampaignState,
    draws: u64,
    wins: u64,
    picks: Vec<Pick>,
    results: Vec<DrawResult>,
    needs: Vec<Need>,
}

/// What a pool answers.
enum Found {
    Unit(Pick),
    Blank(Pick),
    /// The next pool is tried.
    Nothing,
    /// It must be filled first.
    NeedFill,
}

impl<'a> Search<'a> {
    fn new(
        campaign: &'a Campaign,
        step: &Step<'a>,
        state: &'a mut CampaignState,
        user: &UserRecord,
    ) -> Self {
        Self {
            campaign,
            db: step.db,
            now: step.now,
            state,
            draws: user.draws,
            wins: user.wins,
            picks: Vec::new(),
            results: Vec::new(),
            needs: Vec::new(),
        }
    }

    /// One draw. After the first pool that must be filled nothing more is decided.
    fn draw_one(&mut self, barred: bool) -> Result<()> {
        if !self.needs.is_empty() {
            return Ok(());
        }
        let full = self
            .campaign
            .limits
            .wins_per_user
            .is_some_and(|limit| self.wins >= u64::from(limit));
        let won = if barred || full {
            None
        } else {
            self.search_pools()?
        };
        self.draws += 1;
        let result = match (won, &self.campaign.consolation) {
            (Some(won), _) => won,
            (None, Some(_)) => DrawResult::Consolation,
            (None, None) => DrawResult::Nothing,
        };
        self.results.push(result);
        Ok(())
    }

    fn search_pools(&mut self) -> Result<Option<DrawResult>> {
        for (no, pool) in self.campaign.numbered_pools() {
            if self.draws < u64::from(pool.unlock_after_draws) {
                continue;
            }
            match self.search_pool(no)? {
                Found::Nothing => {}
                Found::NeedFill => return Ok(None),
                Found::Blank(pick) => {
                    self.picks.push(pick);
                    return Ok(None);
                }
                Found::Unit(pick) => return self.win(pick).map(Some),
            }
        }
        Ok(None)
    }

    fn win(&mut self, pick: Pick) -> Result<DrawResult> {
        let prize = self.state.pool(pick.pool).queues[pick.queue].prize;
        let prize = prize.ok_or_else(|| StoreError::corrupt("a blank was won"))?;
        let is_schedule = self.state.pool(pick.pool).is_schedule();
        self.wins += u64::from(self.campaign.prize(prize).counts_as_win);
        let result = DrawResult::Won {
            prize,
            pool: pick.pool,
            unit: pick.waiting.unit,
            release: is_schedule.then(|| Moment::from_micros(pick.waiting.score)),
        };
        self.picks.push(pick);
        Ok(result)
    }

    fn search_pool(&mut self, no: PoolNo) -> Result<Found> {
        let pool = self.state.pool(no);
        let (is_behind, due_before) = if pool.is_schedule() {
            // What is released before `filled_until` is all there, so the first of it may be drawn
            // while a fill goes on.
            let until = pool.filled_until.as_micros();
            (
                self.now >= pool.filled_until,
                until.min(self.now.as_micros() + 1),
            )
        } else {
            (false, i64::MAX)
        };
        if let Some(pick) = self.first_waiting(no)?
            && pick.waiting.score < due_before
        {
            let is_blank = self.state.pool(no).queues[pick.queue].prize.is_none();
            return Ok(if is_blank {
                Found::Blank(pick)
            } else {
                Found::Unit(pick)
            });
        }
        if is_behind {
            self.needs.push(Need { pool: no, cards: 0 });
            return Ok(Found::NeedFill);
        }
        if self.deck_goes_on(no) {
            let drawn = self.picks.iter().filter(|pick| pick.pool == no).count();
            self.needs.push(Need {
                pool: no,
                cards: drawn as u64 + 1,
            });
            return Ok(Found::NeedFill);
        }
        Ok(Found::Nothing)
    }

    /// The unit with the lowest score that no held prize owns and no earlier draw of this command
    /// picked.
    fn first_waiting(&mut self, no: PoolNo) -> Result<Option<Pick>> {
        let campaign = self.state.no;
        let paused = Arc::clone(&self.state.view.paused_prizes);
        let pool = &mut self.state.pools[usize::from(no.0)];
        let mut first: Option<Pick> = None;
        for (index, queue) in pool.queues.iter_mut().enumerate() {
            if queue.waiting == 0 || queue.prize.is_some_and(|prize| paused.contains(&prize)) {
                continue;
            }
            let picked = self
                .picks
                .iter()
                .filter(|pick| pick.pool == no && pick.queue == index)
                .count();
            let Some(waiting) = queue.peek(self.db, campaign, no, picked)? else {
                continue;
            };
            if first.as_ref().is_none_or(|best| waiting < best.waiting) {
                first = Some(Pick {
                    pool: no,
                    queue: index,
                    waiting,
                });
            }
        }
        Ok(first)
    }

    fn deck_goes_on(&mut self, no: PoolNo) -> bool {
        deck_stop(self.state, no).is_none() && !self.state.pool(no).is_schedule()
    }
}

/// Why a deck gives no more cards than wait in it; none where it does, or is no deck.
pub(super) fn deck_stop(state: &CampaignState, no: PoolNo) -> Option<DeckStop> {
    let pool = &state.pools[usize::from(no.0)];
    let PoolState::Deck(deck) = &pool.known else {
        return None;
    };
    let in_stock = |prize: PrizeNo| state.stock[usize::from(prize.0)].units.remaining;
    deck.stop(&pool.later_round, in_stock, |prize| state.is_paused(prize))
}

/// Takes the picked units; tells which decks have just run low, and which schedules gave a unit
/// though they are not filled up to now.
fn take(state: &mut CampaignState, picks: &[Pick], now: Moment) -> Result<Vec<PoolNo>> {
    let mut running_low = Vec::new();
    for pick in picks {
        let pool = state.pool(pick.pool);
        let is_deck = !pool.is_schedule();
        if !is_deck && now >= pool.filled_until && !running_low.contains(&pick.pool) {
            running_low.push(pick.pool);
        }
        let queue: &mut Queue = &mut pool.queues[pick.queue];
        queue.take()?;
        if let Some(prize) = queue.prize {
            state.stock_mut(prize).won += 1;
            if !is_deck {
                *state
                    .window_wins
                    .entry((pick.pool, pick.waiting.unit.window, prize))
                    .or_default() += 1;
            }
        }
        // One draw passes the mark, and it alone asks for more.
        if is_deck
            && available(state, pick.pool) + 1 == LOW_CARDS
            && deck_stop(state, pick.pool).is_none()
        {
            running_low.push(pick.pool);
        }
    }
    Ok(running_low)
}

/// Cards that wait in a deck, those of held prizes aside.
pub(super) fn available(state: &CampaignState, no: PoolNo) -> u64 {
    let is_held = |queue: &&Queue| queue.prize.is_some_and(|prize| state.is_paused(prize));
    let queues = &state.pools[usize::from(no.0)].queues;
    queues
        .iter()
        .filter(|queue| !is_held(queue))
        .map(|queue| queue.waiting)
        .sum()
}

fn count_results(state: &mut CampaignState, results: &[DrawResult]) {
    for result in results {
        match result {
            DrawResult::Won { .. } => state.counts.wins += 1,
            DrawResult::Consolation => state.counts.consolations += 1,
            DrawResult::Nothing => state.counts.nothings += 1,
        }
    }
}
