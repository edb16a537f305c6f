//! Scheduled pools: freeze due windows, fill them, follow a new plan, take units back.

use super::Injector;
use crate::{
    chance,
    model::{
        Campaign, CampaignId, Moment, PoolKind, PoolNo, PrizeNo, campaign::Quantities,
        schedule::Schedule,
    },
    store::{
        AdjustCommand, CampaignView, FillCommand, Filled, FreezeCommand, Result, Step, StoreError,
        Sweep,
        fill::{
            CHUNK_UNITS_MAX, FREEZE_WINDOWS_MAX, FillRecord, LiveWindow, PlannedWindow,
            PoolFilling, ScheduleFilling,
        },
    },
};

/// How often the state may have moved on before a fill is given up until the next tick.
const ROUNDS_MAX: usize = 10_000;

/// How much of an open fill is put into its pool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// All of it.
    Whole,
    /// What is released by now; a draw waits for it.
    UntilDue,
}

impl Injector {
    /// Brings one schedule to where it should be now.
    pub(super) async fn settle_schedule(&self, id: &CampaignId, pool: PoolNo) -> Result<()> {
        self.settle_schedule_as(id, pool, Pace::Whole).await
    }

    /// Brings one schedule so far that what is released by now can be drawn.
    pub(super) async fn settle_schedule_until_due(
        &self,
        id: &CampaignId,
        pool: PoolNo,
    ) -> Result<()> {
        self.settle_schedule_as(id, pool, Pace::UntilDue).await
    }

    async fn settle_schedule_as(&self, id: &CampaignId, pool: PoolNo, pace: Pace) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            let (view, filling) = match self.pool_filling(id, pool).await? {
                (view, PoolFilling::Schedule(filling)) => (view, filling),
                (_, PoolFilling::Deck(_)) => {
                    let text = format!("{id}: pool {} is no schedule", pool.0);
                    return Err(StoreError::corrupt(text));
                }
            };
            if view.has_ended(self.store.clock_hint()) {
                return Ok(());
            }
            if pace == Pace::UntilDue && self.put_in_due(&view, pool, &filling).await? {
                return Ok(());
            }
            let again = self.put_in(&view, pool, &filling).await?
                || self.take_back(id, pool, &filling).await?
                || self.follow_plan(&view, pool, &filling).await?
                || self.freeze_due(&view, pool, &filling).await?;
            if !again {
                while self.store.sweep(id, Sweep::Unclaimed { pool }).await?.more {}
                return Ok(());
            }
        }
        Ok(())
    }

    /// Puts units of open fills into the pool until all that are released by now are in. True where nothing else is needed for
    /// draws to go on: the windows up to now are frozen.
    async fn put_in_due(
        &self,
        view: &CampaignView,
        pool: PoolNo,
        filling: &ScheduleFilling,
    ) -> Result<bool> {
        for record in &filling.open {
            self.put_in_one(view, pool, record, Pace::UntilDue).await?;
        }
        let is_recalling = !filling.recalling.is_empty();
        Ok(!filling.open.is_empty() && !is_recalling && filling.horizon > self.store.clock_hint())
    }

    /// Puts the units of open fills into the pool. True where there were any.
    async fn put_in(
        &self,
        view: &CampaignView,
        pool: PoolNo,
        filling: &ScheduleFilling,
    ) -> Result<bool> {
        for record in &filling.open {
            // Where the semaphore were closed there would be nothing to wait for.
            let _permit = self.scattering.acquire().await.ok();
            self.put_in_one(view, pool, record, Pace::Whole).await?;
        }
        Ok(!filling.open.is_empty())
    }

    async fn put_in_one(
        &self,
        view: &CampaignView,
        pool: PoolNo,
        record: &FillRecord,
        pace: Pace,
    ) -> Result<()> {
        let releases = chance::scatter(
            &self.seed(view).of_fork(record.fork),
            &chance::Fill {
                pool: &view.campaign.pool(pool).id,
                window_start: record.window_start,
                generation: record.generation,
                from: record.from,
                until: record.window_end,
                granted: &record.granted,
            },
        );
        let mut filled = usize::try_from(record.filled).unwrap_or(usize::MAX);
        while filled < releases.len() {
            let next = releases.len().min(filled + CHUNK_UNITS_MAX);
            let until = releases
                .get(next)
                .map_or(record.window_end, |release| release.at);
            let command = FillCommand {
                campaign: view.campaign.id.clone(),
                pool,
                window: record.window_start,
                generation: record.generation,
                filled: filled as u64,
                units: releases[filled..next].to_vec(),
                until,
            };
            match self.store.fill(command).await? {
                Filled::Reached(reached) => filled = usize::try_from(reached).unwrap_or(usize::MAX),
                Filled::Closed => return Ok(()),
            }
            if pace == Pace::UntilDue && until > self.store.clock_hint() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes back the units of fenced windows. True where there were any.
    async fn take_back(
        &self,
        id: &CampaignId,
        pool: PoolNo,
        filling: &ScheduleFilling,
    ) -> Result<bool> {
        for &window in &filling.recalling {
            let sweep = Sweep::Recall { pool, window };
            loop {
                let swept = self.store.sweep(id, sweep).await?;
                // Where nothing was taken though there is more, units must be put in first: look again.
                if !swept.more || swept.units.is_empty() {
                    break;
                }
            }
        }
        Ok(!filling.recalling.is_empty())
    }

    /// Brings injected windows to a new plan of this pool. True where one was changed.
    async fn follow_plan(
        &self,
        view: &CampaignView,
        pool: PoolNo,
        filling: &ScheduleFilling,
    ) -> Result<bool> {
        let mut changed = false;
        for live in &filling.live {
            if live.version >= view.version {
                continue;
            }
            let before = self.store.version(&view.campaign.id, live.version).await?;
            let Some(planned) = new_quantities(&before, &view.campaign, pool, live) else {
                continue;
            };
            let command = AdjustCommand {
                campaign: view.campaign.id.clone(),
                version: view.version,
                pool,
                window: live.start,
                planned,
            };
            changed |= self.store.adjust(command).await? == Step::Done;
        }
        Ok(changed)
    }

    /// Freezes windows whose time has come. True where there were any.
    async fn freeze_due(
        &self,
        view: &CampaignView,
        pool: PoolNo,
        filling: &ScheduleFilling,
    ) -> Result<bool> {
        let campaign = &view.campaign;
        let PoolKind::Schedule(schedule) = &campaign.pool(pool).kind else {
            return Ok(false);
        };
        let due = self.store.clock_hint() + self.lead;
        if filling.horizon > due || filling.horizon >= campaign.end {
            return Ok(false);
        }
        let shares = self
            .totals
            .shares(&self.seed(view), campaign, pool, &filling.totals);
        let windows: Vec<PlannedWindow> = campaign
            .zone
            .windows(filling.horizon, campaign.start, campaign.end)
            .take_while(|window| window.start <= due)
            .take(FREEZE_WINDOWS_MAX)
            .map(|window| {
                let start = window.start.max(filling.horizon);
                // What an end that came later adds to an hour that was already filled has no plan of its own.
                let mut planned = if start == window.start {
                    schedule.hourly(&window)
                } else {
                    Quantities::new()
                };
                if let Some(share) = shares.get(&start) {
                    planned.extend(share);
                }
                PlannedWindow {
                    start,
                    end: window.end,
                    planned,
                    windows_left: hours_left(start, campaign.end),
                }
            })
            .collect();
        if windows.is_empty() {
            return Ok(false);
        }
        let command = FreezeCommand {
            campaign: campaign.id.clone(),
            version: view.version,
            pool,
            windows,
        };
        // Where someone else was faster there is as much reason to look again.
        self.store.freeze(command).await.map(|_| true)
    }
}

/// Windows from `start` to `end`, about.
fn hours_left(start: Moment, end: Moment) -> u64 {
    end.since(start).as_secs().div_ceil(3600).max(1)
}

/// What a new plan gives an injected window, prize by prize; none where the plan is the same, so that a recalled window stays
/// empty.
fn new_quantities(
    before: &Campaign,
    after: &Campaign,
    pool: PoolNo,
    live: &LiveWindow,
) -> Option<Vec<(PrizeNo, u64)>> {
    let old = schedule_of(before, pool)?;
    let new = schedule_of(after, pool)?;
    if old.has_same_hours(new) {
        return None;
    }
    let window = after
        .zone
        .window_at(live.start, after.start, after.end)
        .filter(|window| window.start == live.start)?;
    let mut planned: Vec<(PrizeNo, u64)> = new.hourly(&window).into_iter().collect();
    for prize in live.planned.keys() {
        let is_planned = planned.iter().any(|(known, _)| known == prize);
        let is_total = old.total.contains_key(prize) || new.total.contains_key(prize);
        if !is_planned && !is_total {
            planned.push((*prize, 0));
        }
    }
    Some(planned)
}

fn schedule_of(campaign: &Campaign, pool: PoolNo) -> Option<&Schedule> {
    match &campaign.pools.get(usize::from(pool.0))?.kind {
        PoolKind::Schedule(schedule) => Some(schedule),
        PoolKind::Deck(_) => None,
    }
}
