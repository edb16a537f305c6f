//! Whether a version's stock suffices for what is used already and for what its plan still asks
//! for.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{desk::compute, secrets::totals, status::CallError};
use crate::{
    model::{
        Campaign, Moment, Pool, PoolKind, PoolNo, PrizeNo, Problems, Quantities,
        schedule::{Missed, Schedule},
        summary::{Dealt, planned_units},
        text::grouped_digits,
        zone::Window,
    },
    store::{
        Filling, Store,
        fill::{DeckFilling, PoolFilling, ScheduleFilling},
    },
};

/// The most windows read at once.
const WINDOWS_MAX: usize = 1_000;

/// What the windows of a pool before its horizon got of prizes planned by `total`.
#[derive(Clone, Debug, Default)]
struct Shared {
    /// By the shares now in force.
    planned: Quantities,
    /// Off stock, less what was recalled.
    placed: Quantities,
}

/// A campaign that has begun.
pub(super) struct Begun {
    filling: Filling,
    shared: BTreeMap<PoolNo, Shared>,
}

impl Begun {
    /// What a campaign that has begun has used, as far as the stock of a new version depends on it.
    pub(super) async fn read(
        store: &dyn Store,
        campaign: &Campaign,
        filling: &Filling,
    ) -> crate::store::Result<Self> {
        let mut shared = BTreeMap::new();
        for (no, schedule) in campaign.schedules() {
            if let Some(PoolFilling::Schedule(filled)) = filling.pools.get(usize::from(no.0))
                && !schedule.total.is_empty()
            {
                shared.insert(no, read_shared(store, campaign, no, filled).await?);
            }
        }
        Ok(Self {
            filling: filling.clone(),
            shared,
        })
    }

    /// The new version leaves pools and end as they are. A version that plans nothing new is
    /// not refused because of what was withdrawn or dealt meanwhile.
    fn asks_for_nothing_new(&self, campaign: &Campaign) -> bool {
        let before = &self.filling.view.campaign;
        before.pools == campaign.pools && before.end == campaign.end
    }
}

/// Refuses a campaign, or a new version of one that has begun, if its stock is short.
pub(super) async fn check(
    campaign: &Arc<Campaign>,
    begun: Option<&Arc<Begun>>,
    now: Moment,
) -> Result<(), CallError> {
    let (campaign, begun) = (Arc::clone(campaign), begun.cloned());
    Ok(compute(move || problems(&campaign, begun.as_deref(), now)).await??)
}

/// Units that a campaign has used and still asks for, hours that passed and later rounds of decks
/// aside.
pub(super) fn needed(campaign: &Campaign, begun: Option<&Begun>, now: Moment) -> Quantities {
    let Some(begun) = begun else {
        return planned_units(campaign, running_hour(campaign, now));
    };
    let mut needed = begun.filling.used.clone();
    for coming in coming(campaign, Some(begun), now) {
        for (prize, units) in coming.units {
            let sum = needed.entry(prize).or_default();
            *sum = sum.saturating_add(units);
        }
    }
    needed
}

/// How far the decks of a campaign are dealt.
pub(super) fn dealt(begun: Option<&Begun>) -> BTreeMap<PoolNo, Dealt> {
    let pools = begun.map(|begun| begun.filling.pools.as_slice());
    let pools = (0..).map(PoolNo).zip(pools.unwrap_or_default());
    let decks = pools.filter_map(|(no, pool)| match pool {
        PoolFilling::Deck(deck) => Some((no, deck)),
        PoolFilling::Schedule(_) | PoolFilling::Personal => None,
    });
    decks
        .map(|(no, deck)| {
            let dealt = Dealt {
                round: deck.round,
                remaining: deck.remaining.clone(),
            };
            (no, dealt)
        })
        .collect()
}

async fn read_shared(
    store: &dyn Store,
    campaign: &Campaign,
    pool: PoolNo,
    filled: &ScheduleFilling,
) -> crate::store::Result<Shared> {
    let mut shared = Shared::default();
    let mut after = Moment::EPOCH;
    loop {
        let windows = store
            .windows(&campaign.id, pool, after, WINDOWS_MAX)
            .await?;
        for window in windows
            .iter()
            .filter(|window| window.start < filled.horizon)
        {
            for (prize, units) in &window.prizes {
                if window.start >= filled.totals.from {
                    *shared.planned.entry(*prize).or_default() += units.planned;
                }
                let placed = units.injected.saturating_sub(units.recalled);
                *shared.placed.entry(*prize).or_default() += placed;
            }
        }
        match windows.last() {
            Some(last) if windows.len() == WINDOWS_MAX => after = last.end,
            _ => return Ok(shared),
        }
    }
}

fn problems(campaign: &Campaign, begun: Option<&Begun>, now: Moment) -> Result<(), Problems> {
    let mut problems = Problems::default();
    if begun.is_some_and(|begun| begun.asks_for_nothing_new(campaign)) {
        return Ok(());
    }
    let used = begun.map(|begun| &begun.filling.used);
    let coming = coming(campaign, begun, now);
    let secret = secret(campaign, begun);
    for (no, prize) in campaign.numbered_prizes() {
        let used = used.and_then(|used| used.get(&no)).copied().unwrap_or(0);
        let parts: Vec<_> = coming
            .iter()
            .filter_map(|coming| Some((coming, *coming.units.get(&no)?)))
            .collect();
        let asked: u128 = parts.iter().map(|(_, units)| u128::from(*units)).sum();
        let needed = asked + u128::from(used);
        if !prize.has_fixed_stock() || asked == 0 || needed <= u128::from(prize.stock) {
            continue;
        }
        let mut message = format!(
            "stock {} needed, {} given",
            group(needed),
            group(prize.stock.into())
        );
        if used > 0 && !secret.contains(&no) {
            message += &format!(" ({} used already)", group(used.into()));
        }
        let parts: Vec<String> = parts
            .into_iter()
            .map(|(coming, units)| coming.shown(campaign, units))
            .collect();
        message += &format!(
            ": for {}, {}; give {} more, or plan less",
            prize.id,
            parts.join(" and "),
            group(needed - u128::from(prize.stock))
        );
        problems.add(format!("prizes[{}].stock", no.0), message);
    }
    problems.or(())
}

fn group(units: u128) -> String {
    grouped_digits(&units.to_string())
}

/// Prizes of which nobody may know whether their hour has come.
fn secret(campaign: &Campaign, begun: Option<&Begun>) -> BTreeSet<PrizeNo> {
    let before = begun.map(|begun| begun.filling.view.campaign.as_ref());
    let versions = before.into_iter().chain([campaign]);
    versions
        .flat_map(|version| {
            let pools = version.numbered_pools();
            pools.flat_map(|(no, _)| totals(version, no))
        })
        .collect()
}

/// Units that a pool is still to take off stock.
struct Coming {
    pool: PoolNo,
    units: Quantities,
    /// The first of its hours that still follow the plan; none for a deck, or if no hour is
    /// left.
    from: Option<Window>,
}

impl Coming {
    /// For how much of a prize, and when, for people.
    fn shown(&self, campaign: &Campaign, units: u64) -> String {
        let (pool, units) = (&campaign.pool(self.pool).id, group(units.into()));
        let hours = match (&campaign.pool(self.pool).kind, self.from) {
            (PoolKind::Deck(_), _) => return format!("{units} cards in pool {pool}"),
            (_, Some(window)) => format!(
                " from {} to {}",
                campaign.zone.local(window.start),
                campaign.zone.local(campaign.end)
            ),
            (_, None) => String::new(),
        };
        format!("{units} in the hours of pool {pool}{hours}")
    }
}

/// What is still to be taken off stock, pool by pool.
fn coming(campaign: &Campaign, begun: Option<&Begun>, now: Moment) -> Vec<Coming> {
    let of_pool = |(no, pool): (PoolNo, &Pool)| {
        let filled = begun.and_then(|begun| begun.filling.pools.get(usize::from(no.0)));
        let (units, from) = match (&pool.kind, filled, begun) {
            (PoolKind::Schedule(schedule), Some(PoolFilling::Schedule(filled)), Some(begun)) => {
                let before = begun.filling.view.campaign.as_ref();
                let shared = begun.shared.get(&no);
                let from = first_unfilled(campaign, schedule, filled, now);
                let plan = (no, schedule, from);
                (of_begun(campaign, before, plan, filled, shared), from)
            }
            (PoolKind::Schedule(schedule), _, _) => {
                // Its schedule begins with the hour that runs.
                let from = running_hour(campaign, now);
                let hour = campaign.zone.window_at(from, campaign.start, campaign.end);
                (schedule.sum(&campaign.zone, from, campaign.end), hour)
            }
            (PoolKind::Deck(_), Some(PoolFilling::Deck(deck)), _) => (of_deck(deck), None),
            (PoolKind::Deck(deck), _, _) => (deck.cards.clone(), None),
            // What users will draw is not planned.
            (PoolKind::Personal(_), _, _) => (Quantities::new(), None),
        };
        Coming {
            pool: no,
            units,
            from,
        }
    };
    campaign.numbered_pools().map(of_pool).collect()
}

/// What a deck still asks for: the rest of its first round. Later rounds are dealt for as long as
/// there is stock.
fn of_deck(deck: &DeckFilling) -> Quantities {
    let remaining = deck.remaining.iter().filter(|_| deck.round == 1);
    remaining
        .filter_map(|kind| Some((kind.prize?, kind.cards)))
        .collect()
}

/// The start of the hour that runs, or of the campaign.
pub(super) fn running_hour(campaign: &Campaign, now: Moment) -> Moment {
    let window = campaign.zone.window_at(now, campaign.start, campaign.end);
    window.map_or(campaign.start, |window| window.start)
}

/// The first hour that follows the plan of a schedule that was filled up to its horizon.
fn first_unfilled(
    campaign: &Campaign,
    schedule: &Schedule,
    filled: &ScheduleFilling,
    now: Moment,
) -> Option<Window> {
    let from = match schedule.missed {
        Missed::Skip => filled.horizon.max(running_hour(campaign, now)),
        Missed::Spread | Missed::Release => filled.horizon,
    };
    // If the campaign's end was moved later, the last hour was filled already: the part of it that
    // is new has no plan of its own.
    let mut windows = campaign.zone.windows(from, campaign.start, campaign.end);
    windows.find(|window| window.start >= from)
}

/// What a schedule that was filled up to its horizon still asks for.
fn of_begun(
    campaign: &Campaign,
    before: &Campaign,
    (no, schedule, from): (PoolNo, &Schedule, Option<Window>),
    filled: &ScheduleFilling,
    shared: Option<&Shared>,
) -> Quantities {
    let mut coming = from.map_or_else(Quantities::new, |window| {
        schedule.sum(&campaign.zone, window.start, campaign.end)
    });
    coming.retain(|prize, _| !schedule.total.contains_key(prize));
    let mut add = |prize: PrizeNo, units: u64| {
        let sum = coming.entry(prize).or_default();
        *sum = sum.saturating_add(units);
    };
    let old = before.schedule(no);
    let is_shared_anew =
        before.end != campaign.end || old.is_none_or(|old| old.total != schedule.total);
    let units = |quantities: &Quantities, prize| quantities.get(&prize).copied().unwrap_or(0);
    for (prize, total) in &schedule.total {
        let planned = shared.map_or(0, |shared| units(&shared.planned, *prize));
        let placed = shared.map_or(0, |shared| units(&shared.placed, *prize));
        let left = if is_shared_anew {
            total.saturating_sub(placed)
        } else {
            units(&filled.totals.remaining, *prize).saturating_sub(planned)
        };
        add(*prize, left);
    }
    for (prize, carried) in &filled.carry {
        let is_total = schedule.total.contains_key(prize)
            || old.is_some_and(|old| old.total.contains_key(prize));
        if !(is_total && is_shared_anew) {
            add(*prize, *carried);
        }
    }
    if old.is_none_or(|old| !old.has_same_hours(schedule)) {
        for live in &filled.live {
            let window = campaign
                .zone
                .window_at(live.start, campaign.start, campaign.end)
                .filter(|window| window.start == live.start);
            let planned = window.map(|window| schedule.hourly(&window));
            for (prize, planned) in planned.into_iter().flatten() {
                let target = planned.saturating_add(units(&live.carried, prize));
                add(prize, target.saturating_sub(units(&live.injected, prize)));
            }
        }
    }
    coming
}

#[cfg(test)]
#[path = "stock_tests.rs"]
mod tests;
