//! A draw as one step: replay, state, limits, units, record, memory, ledger.

use std::sync::Arc;

use super::{
    campaign::CampaignData,
    core::{Core, missing},
    ledger::What,
};
use crate::{
    model::{CampaignId, Moment, PoolNo, PrizeNo, RequestId, UserId},
    store::{
        BonusAnswer, DrawAnswer, DrawCommand, Drawn, LedgerId, Refusal, Result, Subject, Unit,
        entry::{Body, DrawEntry},
        rules::{self, Admitted, Made, Outcome, PoolState, Pools, QueueView, Waiting},
    },
};

/// What a request was answered before.
pub(super) enum Remembered {
    Draw(DrawAnswer),
    Bonus(BonusAnswer),
}

impl Core {
    pub(super) fn draw(&mut self, command: DrawCommand) -> Result<Drawn> {
        let now = self.now();
        let remembered = self.remembered(&command.campaign, &command.user, &command.request);
        let remembered = remembered.map_err(|error| error.of_draw(now))?;
        match remembered {
            None => {}
            Some(Remembered::Draw(answer)) if rules::is_same_draw(&answer.entry, &command) => {
                return Ok(Drawn::Done(answer));
            }
            Some(_) => return Err(Refusal::RequestIdReused.into()),
        }
        rules::admit_time(&self.campaign(&command.campaign)?.state.view, &command, now)?;
        self.admit_backlog(now)?;
        let campaign = self
            .campaigns
            .get_mut(&command.campaign)
            .ok_or(Refusal::CampaignNotFound)?;
        let definition = Arc::clone(&campaign.state.view.campaign);
        let known = campaign.users.get(&command.user);
        let (mut record, charge, hour) = rules::admit_user(
            &definition,
            &command,
            known.map(|it| it.record.clone()),
            now,
        )?;
        let barred = rules::barred(&command, campaign.is_blocked(&command.user));
        let admitted = Admitted::new(&command, &record, barred, campaign.spent(now));
        let paused = Arc::clone(&campaign.state.view.paused_prizes);
        let mut made = match rules::draw(&definition, &paused, now, campaign, admitted)? {
            Outcome::Made(made) => made,
            Outcome::NeedFill(need) => return Ok(Drawn::NeedFill(vec![need])),
            Outcome::NeedChance => return Ok(Drawn::NeedChance),
        };
        let running_low = rules::running_low(&paused, now, &*campaign, &made.picks);
        record.charge(charge, hour);
        if definition.counts_bonus_of_day() {
            record.count_bonus_of_day(charge);
        }
        made.keep(&mut record);
        if definition.budget.is_some() {
            campaign.spent_day.set(definition.zone.day(now), made.spent);
        }
        campaign.take(&made)?;
        let entry = Arc::new(DrawEntry {
            version: campaign.state.view.version,
            counts: record.counts(),
            user: command.user.clone(),
            request: command.request.clone(),
            funding: command.funding,
            payment_ref: command.payment_ref,
            consolation_only: command.consolation_only,
            results: made.results,
            segments: definition.known_segments(&command.segments).to_vec(),
        });
        let subject = Subject::Campaign(command.campaign);
        let ledger = self
            .ledger
            .append(now, subject, What::Draw(Arc::clone(&entry)));
        let user = campaign.users.entry(command.user).or_default();
        user.record = record;
        if self.ledger.is_kept() {
            user.draws.insert(command.request, ledger);
        }
        Ok(Drawn::Done(DrawAnswer {
            entry,
            ledger,
            at: now,
            replayed: false,
            campaign: definition,
            running_low,
        }))
    }

    /// What a remembered draw answered.
    pub(super) fn find_draw(
        &mut self,
        campaign: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<DrawAnswer> {
        match self.remembered(campaign, user, request)? {
            Some(Remembered::Draw(answer)) => Ok(answer),
            Some(Remembered::Bonus(_)) | None => Err(Refusal::DrawNotFound.into()),
        }
    }

    /// What this request was answered, unless it is older than the memory.
    pub(super) fn remembered(
        &mut self,
        id: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<Option<Remembered>> {
        if !self.ledger.is_kept() {
            return Ok(None); // no draw is remembered
        }
        let oldest = self.now() - self.request_memory;
        let campaign = self.campaign(id)?;
        let found = campaign.users.get(user);
        let Some(ledger) = found.and_then(|user| user.draws.get(request)) else {
            return Ok(None);
        };
        self.answer_of(campaign, *ledger, oldest)
    }

    fn answer_of(
        &self,
        campaign: &CampaignData,
        ledger: LedgerId,
        oldest: Moment,
    ) -> Result<Option<Remembered>> {
        let record = self.ledger.get(ledger.sequence);
        let record = record.ok_or_else(|| missing(ledger.sequence))?;
        if record.at < oldest {
            return Ok(None);
        }
        Ok(Some(match &record.what {
            What::Draw(entry) => Remembered::Draw(DrawAnswer::replayed(
                Arc::clone(entry),
                ledger,
                record.at,
                campaign.definition(entry.version)?,
            )),
            What::Other(body) => match &**body {
                Body::Bonus(entry) => Remembered::Bonus(BonusAnswer {
                    entry: Arc::new(entry.clone()),
                    ledger,
                    at: record.at,
                    replayed: true,
                    campaign: campaign.definition(entry.version)?,
                }),
                _ => return Err(missing(ledger.sequence)),
            },
        }))
    }
}

impl CampaignData {
    pub(super) fn is_blocked(&self, user: &UserId) -> bool {
        !self.blocked.is_empty() && self.blocked.contains_key(user)
    }

    /// Takes what a draw was given, and counts it.
    fn take(&mut self, made: &Made) -> Result<()> {
        self.state.view.touched = true;
        for pick in &made.picks {
            let pool = &mut self.pools[usize::from(pick.pool.0)];
            pool.queues[pick.queue].take();
            let Some(prize) = pick.prize else { continue };
            if pick.is_forfeited {
                self.state.stock[usize::from(prize.0)].put_back_forfeited(1)?;
                continue;
            }
            self.won[usize::from(prize.0)] += 1;
            if pool.filled_until.is_some() {
                let window = (pick.pool, pick.waiting.unit.window, prize);
                *self.window_wins.entry(window).or_default() += 1;
            }
        }
        for (pool, prize) in &made.given {
            let is_unlimited = self.state.view.campaign.prize(*prize).unlimited;
            let prize = usize::from(prize.0);
            self.state.stock[prize].take_own(1, is_unlimited)?;
            self.won[prize] += 1;
            *self.given_mut(*pool) += 1;
        }
        for result in &made.results {
            self.counts.add(*result);
        }
        Ok(())
    }
}

impl CampaignData {
    /// Units that a personal pool has given, or the campaign's guarantees.
    fn given_mut(&mut self, pool: PoolNo) -> &mut u64 {
        match pool {
            PoolNo::GUARANTEES => &mut self.guaranteed,
            pool => &mut self.pools[usize::from(pool.0)].given,
        }
    }
}

impl Pools for CampaignData {
    fn filled_until(&self, pool: PoolNo) -> Option<Moment> {
        self.pools[usize::from(pool.0)].filled_until
    }

    fn is_dealt_on(&self, pool: PoolNo) -> bool {
        let index = usize::from(pool.0);
        let PoolState::Deck(deck) = &self.state.pools[index] else {
            return false;
        };
        let state = &self.state;
        let stop = deck.stop(
            &self.pools[index].later_round,
            |prize| state.in_stock(prize),
            |prize| state.is_paused(prize),
        );
        stop.is_none()
    }

    fn queue(&self, pool: PoolNo, queue: usize) -> Option<QueueView> {
        let queues = &self.pools[usize::from(pool.0)].queues;
        queues.get(queue).map(|queue| queue.view)
    }

    fn unit(&mut self, pool: PoolNo, queue: usize, index: usize) -> Result<Option<Waiting>> {
        Ok(self.pools[usize::from(pool.0)].queues[queue].get(index))
    }

    fn next_code(&self, prize: PrizeNo) -> u64 {
        let prize = usize::from(prize.0);
        self.state.stock[prize].next_code(self.won[prize])
    }

    fn in_stock(&self, prize: PrizeNo) -> u64 {
        self.state.in_stock(prize)
    }

    fn next_unit(&self, pool: PoolNo) -> Unit {
        Unit {
            window: 0,
            fork: self.state.fork,
            number: match pool {
                PoolNo::GUARANTEES => self.guaranteed,
                pool => self.pools[usize::from(pool.0)].given,
            },
        }
    }
}
