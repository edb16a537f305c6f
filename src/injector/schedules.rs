//! Scheduled pools: freeze due windows, fill them, follow a new plan, take units back.

use std::sync::Arc;

use super::{
    Injector,
    scattering::{Releases, Roomed, Urgency},
};
use crate::{
    chance,
    metrics::INJECTOR,
    model::{
        Campaign, CampaignId, Moment, PoolId, PoolKind, PoolNo, PrizeNo, Quantities,
        schedule::Unclaimed,
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
enum Goal {
    /// All of it.
    Whole,
    /// What is released by now; or less, if this number of units can be drawn already: those that
    /// are released before any of another fill, of which `before` is the first that may be missing.
    Due { enough: usize, before: Moment },
}

/// The result of putting units in for draws.
enum PutIn {
    /// Draws can go on: enough units are in, or all windows up to now are frozen. With the releases
    /// that were put in last, for others who go on with them.
    Enough(Option<InHand>),
    /// Windows must be frozen, or units taken back, first.
    Lacking,
}

/// The releases that are being put in.
pub(super) type InHand = Arc<Roomed<Releases>>;

impl Injector {
    /// Brings one schedule to its state of now; true if there was something to do.
    pub(super) async fn settle_schedule(&self, id: &CampaignId, pool: PoolNo) -> Result<bool> {
        for round in 0..ROUNDS_MAX {
            let (view, filling) = self.schedule_filling(id, pool).await?;
            if view.has_ended(self.store.clock_hint()) {
                return Ok(round > 0);
            }
            let again = self.put_in(&view, pool, &filling).await?
                || self.take_back(id, pool, &filling).await?
                || self.follow_plan(&view, pool, &filling).await?
                || self.freeze_due(&view, pool, &filling).await?;
            if !again {
                let returned = self.return_unclaimed(&view, pool).await?;
                return Ok(round > 0 || returned);
            }
        }
        Ok(true)
    }

    /// Fills one schedule until this number of draws can take what is released by now. Gives what
    /// was put in last, for others who go on with it.
    pub(super) async fn settle_schedule_until_due(
        &self,
        id: &CampaignId,
        pool: PoolNo,
        draws: usize,
    ) -> Result<Option<InHand>> {
        for _ in 0..ROUNDS_MAX {
            let (view, filling) = self.schedule_filling(id, pool).await?;
            if view.has_ended(self.store.clock_hint()) {
                return Ok(None);
            }
            let is_recalling = !filling.recalling.is_empty();
            let put_in = self.put_in_due(&view, pool, &filling, draws).await?;
            if let PutIn::Enough(in_hand) = put_in
                && !is_recalling
            {
                return Ok(in_hand);
            }
            let again = (is_recalling
                && (self.put_in(&view, pool, &filling).await?
                    || self.take_back(id, pool, &filling).await?))
                || self.follow_plan(&view, pool, &filling).await?
                || self.freeze_due(&view, pool, &filling).await?;
            if !again {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Whether, as of what was read, there is nothing to do.
    pub(super) fn is_settled(
        &self,
        view: &CampaignView,
        pool: PoolNo,
        filling: &ScheduleFilling,
    ) -> bool {
        let now = self.store.clock_hint();
        let follows_plan = |live: &LiveWindow| live.version >= view.version;
        let returns = match &view.campaign.pool(pool).kind {
            PoolKind::Schedule(plan) => plan.unclaimed,
            PoolKind::Deck(_) | PoolKind::Personal(_) => Unclaimed::Keep,
        };
        let is_return_due = match returns {
            Unclaimed::ReturnAfter(after) => filling.oldest.is_some_and(|it| it + after <= now),
            Unclaimed::Keep => false,
        };
        let is_frozen = filling.horizon > now + self.lead || filling.horizon >= view.campaign.end;
        filling.open.is_empty()
            && filling.recalling.is_empty()
            && filling.live.iter().all(follows_plan)
            && is_frozen
            && !is_return_due
    }

    async fn schedule_filling(
        &self,
        id: &CampaignId,
        pool: PoolNo,
    ) -> Result<(CampaignView, ScheduleFilling)> {
        match self.pool_filling(id, pool).await? {
            (view, PoolFilling::Schedule(filling)) => Ok((view, filling)),
            (_, PoolFilling::Deck(_) | PoolFilling::Personal) => {
                let text = format!("{id}: pool {} is no schedule", pool.0);
                Err(StoreError::corrupt(text))
            }
        }
    }

    /// Puts units of open fills into the pool until all that are released by now are in, or enough
    /// for these draws.
    async fn put_in_due(
        &self,
        view: &CampaignView,
        pool: PoolNo,
        filling: &ScheduleFilling,
        draws: usize,
    ) -> Result<PutIn> {
        let are_frozen = filling.horizon > self.store.clock_hint();
        let mut open = filling.open.iter().peekable();
        while let Some(record) = open.next() {
            if record.until > self.store.clock_hint() {
                break;
            }
            let next = open.peek();
            let goal = Goal::Due {
                enough: draws,
                before: next.map_or(Moment::FAR_FUTURE, |next| next.until),
            };
            let releases = self.releases(view, pool, record, Urgency::Needed).await?;
            let is_enough = self
                .put_in_one(view, pool, record, &releases.value, goal)
                .await?;
            // The room of the one is free before the next one is computed.
            if is_enough || (next.is_none() && are_frozen) {
                return Ok(PutIn::Enough(Some(releases)));
            }
        }
        Ok(match filling.open.is_empty() || !are_frozen {
            true => PutIn::Lacking,
            false => PutIn::Enough(None),
        })
    }

    /// Puts the units of open fills into the pool. True if there were any.
    async fn put_in(
        &self,
        view: &CampaignView,
        pool: PoolNo,
        filling: &ScheduleFilling,
    ) -> Result<bool> {
        for record in &filling.open {
            let releases = self.releases(view, pool, record, Urgency::Ahead).await?;
            self.put_in_one(view, pool, record, &releases.value, Goal::Whole)
                .await?;
        }
        Ok(!filling.open.is_empty())
    }

    /// The releases of a fill: those that someone else puts in just now, or computed.
    async fn releases(
        &self,
        view: &CampaignView,
        pool: PoolNo,
        record: &FillRecord,
        urgency: Urgency,
    ) -> Result<InHand> {
        let turn = self.turn(&view.campaign.id, pool);
        let units = record.total();
        if let Some(known) = turn.releases.get(record) {
            if urgency == Urgency::Ahead {
                self.scattering.move_ahead(&known, units).await?;
            }
            return Ok(known);
        }
        let (seed, id) = (
            self.seed(view).of_fork(record.fork),
            view.campaign.pool(pool).id.clone(),
        );
        let fill = record.clone();
        let compute = move || Releases::new(&fill, scatter(&seed, &id, &fill));
        let releases = self.scattering.compute(urgency, units, compute).await?;
        let releases = Arc::new(releases);
        turn.releases.set(&releases);
        Ok(releases)
    }

    /// Puts in units of an open fill. True if the goal is reached before all that are released
    /// by now are in.
    async fn put_in_one(
        &self,
        view: &CampaignView,
        pool: PoolNo,
        record: &FillRecord,
        releases: &Releases,
        goal: Goal,
    ) -> Result<bool> {
        let releases = &releases.units;
        let mut filled = usize::try_from(record.filled).unwrap_or(usize::MAX);
        let before = filled;
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
                Filled::Closed => return Ok(false),
            }
            if let Goal::Due {
                enough,
                before: first_missing,
            } = goal
            {
                if until > self.store.clock_hint() {
                    return Ok(false);
                }
                if filled.saturating_sub(before) >= enough && until <= first_missing {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns released units that nobody took, if the schedule says so. True if there were
    /// any.
    async fn return_unclaimed(&self, view: &CampaignView, pool: PoolNo) -> Result<bool> {
        let PoolKind::Schedule(plan) = &view.campaign.pool(pool).kind else {
            return Ok(false);
        };
        if plan.unclaimed == Unclaimed::Keep {
            return Ok(false);
        }
        let mut any = false;
        loop {
            let sweep = Sweep::Unclaimed { pool };
            let swept = self.store.sweep(&view.campaign.id, sweep).await?;
            any |= !swept.units.is_empty();
            if !swept.more {
                return Ok(any);
            }
        }
    }

    /// Takes back the units of fenced windows. True if there were any.
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
                // If nothing was taken though there is more, units must be put in first.
                if !swept.more || swept.units.is_empty() {
                    break;
                }
            }
        }
        Ok(!filling.recalling.is_empty())
    }

    /// Brings injected windows to a new plan of this pool. True if one was changed.
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

    /// Freezes windows whose time has come. True if there were any.
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
            .shares(
                &self.scattering,
                (self.seed(view), view.nonce),
                campaign,
                (pool, &filling.totals),
                self.store.clock_hint(),
            )
            .await?;
        let windows: Vec<PlannedWindow> = campaign
            .zone
            .windows(filling.horizon, campaign.start, campaign.end)
            .take_while(|window| window.start <= due)
            .take(FREEZE_WINDOWS_MAX)
            .map(|window| {
                let start = window.start.max(filling.horizon);
                // If the campaign's end was moved later, the last hour was filled already: the part
                // of it that is new has no plan of its own.
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
        let planned = command.windows.iter();
        let planned = planned.filter(|window| !window.planned.is_empty());
        let times: Vec<_> = planned.map(|window| (window.start, window.end)).collect();
        if self.store.freeze(command).await? == Step::Done {
            count(&times, view, self.store.clock_hint());
        }
        // Also if another service was faster: there may be more to do in any case.
        Ok(true)
    }
}

/// Counts windows that were frozen by whether that was in time. One that had begun before its
/// campaign was created, or before its plan was changed, could not be.
fn count(windows: &[(Moment, Moment)], view: &CampaignView, now: Moment) {
    let known = view
        .versions
        .last()
        .map_or(Moment::EPOCH, |version| version.at);
    for (start, end) in windows {
        match () {
            () if now < *start => INJECTOR.in_time.inc(),
            () if *start < known => {}
            () if now < *end => INJECTOR.late.inc(),
            () => INJECTOR.missed.inc(),
        }
    }
}

fn scatter(seed: &chance::Seed, pool: &PoolId, record: &FillRecord) -> Vec<chance::Release> {
    chance::scatter(
        seed,
        &chance::Fill {
            pool,
            window_start: record.window_start,
            generation: record.generation,
            from: record.from,
            until: record.window_end,
            granted: &record.granted,
        },
    )
}

/// The approximate number of windows from `start` to `end`.
fn hours_left(start: Moment, end: Moment) -> u64 {
    end.since(start).as_secs().div_ceil(3600).max(1)
}

/// What a new plan gives an injected window, prize by prize; none if the plan is the same, so
/// that a recalled window stays empty.
fn new_quantities(
    before: &Campaign,
    after: &Campaign,
    pool: PoolNo,
    live: &LiveWindow,
) -> Option<Vec<(PrizeNo, u64)>> {
    let old = before.schedule(pool)?;
    let new = after.schedule(pool)?;
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
