//! A draw as one step: replay, state, limits, units, record, memory, ledger. Everything is decided
//! first and written last.

use std::sync::Arc;

use rusqlite::Connection;

use super::{
    job::Command,
    state::CampaignState,
    step::{Step, definition},
    units::Queue,
    users::{is_blocked, record_of},
};
use crate::{
    model::{Moment, PoolNo, PrizeNo},
    store::{
        DrawAnswer, DrawCommand, Drawn, Refusal, Result, StoreError, Unit,
        entry::{Body, DrawEntry, Entry},
        fill::DeckStop,
        rules::{self, Admitted, Outcome, Pick, PoolState, Pools, QueueView, Waiting},
    },
};

impl Command for Arc<DrawCommand> {
    type Reply = Drawn;

    fn run(&self, step: &mut Step<'_>) -> Result<Drawn> {
        let drawn = step.with(&self.campaign, |step, state| draw(self, step, state));
        drawn.map_err(|error| error.of_draw(step.now))
    }

    fn draws(&self) -> Option<usize> {
        Some(self.count as usize)
    }

    fn may_be_refused(&self) -> bool {
        true
    }
}

fn draw(command: &DrawCommand, step: &mut Step<'_>, state: &mut CampaignState) -> Result<Drawn> {
    let name = (&command.user, &command.request);
    let known = step.user_row(state.no, &command.user)?;
    if let Some(entry) = step.remembered(state.no, name, known.as_deref())? {
        // Whatever hides the answer, the draw was made.
        return replay(command, step.db, state, entry).map_err(StoreError::after_write);
    }
    rules::admit_time(&state.view, command, step.now)?;
    step.admit_backlog()?;

    let campaign = Arc::clone(&state.view.campaign);
    let stored = known.as_deref().map(record_of).transpose()?;
    let is_new = stored.is_none();
    let (mut user, charge, hour) = rules::admit_user(&campaign, command, stored, step.now)?;

    let barred = rules::barred(command, is_blocked(step.db, state, &command.user)?);
    let admitted = Admitted::new(command, &user, barred, state.spent(step.now));
    let paused = Arc::clone(&state.view.paused_prizes);
    let mut pools = DbPools {
        db: step.db,
        state,
        fork: step.core.fork,
    };
    let mut made = match rules::draw(&campaign, &paused, step.now, &mut pools, admitted)? {
        Outcome::Made(made) => made,
        Outcome::NeedFill(need) => return Ok(Drawn::NeedFill(vec![need])),
        Outcome::NeedChance => return Ok(Drawn::NeedChance),
    };
    let running_low = rules::running_low(&paused, step.now, &pools, &made.picks);

    user.charge(charge, hour);
    if campaign.counts_bonus_of_day() {
        user.count_bonus_of_day(charge);
    }
    if campaign.budget.is_some() {
        state.spent_day.set(campaign.zone.day(step.now), made.spent);
    }
    made.keep(&mut user);
    take(state, &made.picks)?;
    take_own(state, &made.given)?;
    for result in &made.results {
        state.counts.add(*result);
    }
    state.users += u64::from(is_new);
    state.touch();
    let body = Body::Draw(DrawEntry {
        version: state.view.version,
        user: command.user.clone(),
        request: command.request.clone(),
        funding: command.funding,
        payment_ref: command.payment_ref.clone(),
        consolation_only: command.consolation_only,
        results: made.results,
        counts: user.counts(),
        segments: campaign.known_segments(&command.segments).to_vec(),
    });
    let ledger = step.append(state, &body)?;
    let before = known.and_then(|columns| columns.latest);
    step.save_draw(state.no, name, &user, before, ledger)?;
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
    entry: Entry,
) -> Result<Drawn> {
    let Body::Draw(draw) = entry.body else {
        return Err(Refusal::RequestIdReused.into());
    };
    if !rules::is_same_draw(&draw, command) {
        return Err(Refusal::RequestIdReused.into());
    }
    let campaign = if draw.version == state.view.version {
        Arc::clone(&state.view.campaign)
    } else {
        definition(db, state.no, draw.version).map_err(StoreError::of_recorded_version)?
    };
    draw.check(&campaign)?;
    let (draw, id) = (Arc::new(draw), entry.id);
    Ok(Drawn::Done(DrawAnswer::replayed(
        draw, id, entry.at, campaign,
    )))
}

/// A campaign's pools in the database.
struct DbPools<'a> {
    db: &'a Connection,
    state: &'a mut CampaignState,
    /// The mark of the current fork.
    fork: u32,
}

impl Pools for DbPools<'_> {
    fn filled_until(&self, pool: PoolNo) -> Option<Moment> {
        let pool = &self.state.pools[usize::from(pool.0)];
        pool.is_schedule().then_some(pool.filled_until)
    }

    fn is_dealt_on(&self, pool: PoolNo) -> bool {
        let is_deck = !self.state.pools[usize::from(pool.0)].is_schedule();
        is_deck && deck_stop(self.state, pool).is_none()
    }

    fn queue(&self, pool: PoolNo, queue: usize) -> Option<QueueView> {
        let queues = &self.state.pools[usize::from(pool.0)].queues;
        queues.get(queue).map(Queue::view)
    }

    fn unit(&mut self, pool: PoolNo, queue: usize, index: usize) -> Result<Option<Waiting>> {
        let campaign = self.state.no;
        self.state.pool(pool).queues[queue].peek(self.db, campaign, pool, index)
    }

    fn next_code(&self, prize: PrizeNo) -> u64 {
        let stock = &self.state.stock[usize::from(prize.0)];
        stock.units.next_code(stock.won)
    }

    fn in_stock(&self, prize: PrizeNo) -> u64 {
        self.state.in_stock(prize)
    }

    fn next_unit(&self, pool: PoolNo) -> Unit {
        Unit {
            window: 0,
            fork: self.fork,
            number: self.state.given(pool),
        }
    }
}

/// Why a deck gives no more cards than wait in it; none where it does, or is no deck.
pub(super) fn deck_stop(state: &CampaignState, no: PoolNo) -> Option<DeckStop> {
    let pool = &state.pools[usize::from(no.0)];
    let PoolState::Deck(deck) = &pool.known else {
        return None;
    };
    let in_stock = |prize: PrizeNo| state.in_stock(prize);
    deck.stop(&pool.later_round, in_stock, |prize| state.is_paused(prize))
}

/// Takes the units off stock that personal pools and guarantees give.
fn take_own(state: &mut CampaignState, given: &[(PoolNo, PrizeNo)]) -> Result<()> {
    for (pool, prize) in given {
        let is_unlimited = state.view.campaign.prize(*prize).unlimited;
        let stock = state.stock_mut(*prize);
        stock.units.take_own(1, is_unlimited)?;
        stock.won += 1;
        *state.given_mut(*pool) += 1;
        // These units are numbered in one window.
        *state.window_wins.entry((*pool, 0, *prize)).or_default() += 1;
    }
    Ok(())
}

/// Takes the picked units.
fn take(state: &mut CampaignState, picks: &[Pick]) -> Result<()> {
    for pick in picks {
        let pool = state.pool(pick.pool);
        let is_schedule = pool.is_schedule();
        pool.queues[pick.queue].take()?;
        let Some(prize) = pick.prize else { continue };
        let stock = state.stock_mut(prize);
        if pick.is_forfeited {
            stock.units.put_back_forfeited(1)?;
            continue;
        }
        stock.won += 1;
        if is_schedule {
            let window = (pick.pool, pick.waiting.unit.window, prize);
            *state.window_wins.entry(window).or_default() += 1;
        }
    }
    Ok(())
}
