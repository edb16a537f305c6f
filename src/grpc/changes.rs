//! What a new plan changes, hour by hour: before, after, and what is already injected.

use std::collections::{BTreeMap, BTreeSet};

use super::{secrets::totals, views};
use crate::{
    model::{
        Campaign, Moment, PoolNo, PrizeNo, Quantities, convert::moment_to_proto,
        schedule::Schedule, zone::Window,
    },
    proto,
    store::{
        Filling,
        fill::{LiveWindow, PoolFilling},
    },
};

/// The most changes of windows in an answer.
const CHANGES_MAX: usize = 1_000;

/// Changes of windows, and how many were left out.
#[derive(Default)]
pub(super) struct WindowChanges {
    pub(super) listed: Vec<proto::WindowChange>,
    pub(super) omitted: u32,
}

impl WindowChanges {
    fn add(&mut self, change: impl FnOnce() -> proto::WindowChange) {
        if self.listed.len() < CHANGES_MAX {
            self.listed.push(change());
        } else {
            self.omitted = self.omitted.saturating_add(1);
        }
    }
}

/// Two versions of one schedule. Prizes keep their numbers between them, or nothing is injected
/// yet.
struct Plans<'a> {
    campaign: &'a Campaign,
    pool: PoolNo,
    before: &'a Schedule,
    after: &'a Schedule,
    /// Prizes of which nobody may know the hour.
    secret: BTreeSet<PrizeNo>,
}

/// How the hours of every schedule change that are injected and have not ended.
pub(super) fn of_injected(before: &Campaign, after: &Campaign, filling: &Filling) -> WindowChanges {
    let mut changes = WindowChanges::default();
    for (no, _) in after.numbered_pools() {
        let live = live(filling, no);
        if let Some(plans) = plans(before, after, no) {
            for live in live.values() {
                let window = before.zone.window_at(live.start, before.start, before.end);
                if let Some(window) = window {
                    plans.compare(&window, Some(live), &mut changes);
                }
            }
        }
    }
    changes
}

/// How the hours of one schedule change that have not ended.
pub(super) fn of_pool(
    before: &Campaign,
    after: &Campaign,
    pool: PoolNo,
    filling: &Filling,
    now: Moment,
) -> WindowChanges {
    let mut changes = WindowChanges::default();
    let live = live(filling, pool);
    if let Some(plans) = plans(before, after, pool) {
        for window in after.zone.windows(now, after.start, after.end) {
            plans.compare(&window, live.get(&window.start).copied(), &mut changes);
        }
    }
    changes
}

fn live(filling: &Filling, pool: PoolNo) -> BTreeMap<Moment, &LiveWindow> {
    match filling.pools.get(usize::from(pool.0)) {
        Some(PoolFilling::Schedule(schedule)) => schedule
            .live
            .iter()
            .map(|live| (live.start, live))
            .collect(),
        Some(PoolFilling::Deck(_) | PoolFilling::Personal) | None => BTreeMap::new(),
    }
}

fn plans<'a>(before: &'a Campaign, after: &'a Campaign, pool: PoolNo) -> Option<Plans<'a>> {
    let mut secret = totals(before, pool);
    secret.extend(totals(after, pool));
    Some(Plans {
        campaign: after,
        pool,
        before: before.schedule(pool)?,
        after: after.schedule(pool)?,
        secret,
    })
}

impl Plans<'_> {
    fn compare(&self, window: &Window, live: Option<&LiveWindow>, changes: &mut WindowChanges) {
        let (before, after) = (self.before.hourly(window), self.after.hourly(window));
        if before == after {
            return;
        }
        let prizes: BTreeSet<PrizeNo> = before.keys().chain(after.keys()).copied().collect();
        let units = |quantities: &Quantities, no| quantities.get(&no).copied().unwrap_or(0);
        for no in prizes {
            let (before, after) = (units(&before, no), units(&after, no));
            let injected = live.filter(|_| !self.secret.contains(&no));
            let injected = injected.map_or(0, |live| units(&live.injected, no));
            if before != after {
                changes.add(|| proto::WindowChange {
                    pool_id: views::pool_id(self.campaign, self.pool),
                    start_time: Some(moment_to_proto(window.start)),
                    end_time: Some(moment_to_proto(window.end)),
                    prize_id: self.campaign.prize(no).id.to_string(),
                    before,
                    after,
                    injected,
                });
            }
        }
    }
}
