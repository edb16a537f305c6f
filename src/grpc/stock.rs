//! Whether a version's stock suffices for what is used already and for what its plan still asks for.

use std::collections::{BTreeMap, BTreeSet};

use super::{desk::compute, schedule::schedules, secrets::totals, status::CallError};
use crate::{
    model::{
        Campaign, Moment, PoolKind, PoolNo, PrizeNo, Problems,
        campaign::Quantities,
        schedule::{Missed, Schedule},
        text::grouped_digits,
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
struct Begun {
    filling: Filling,
    shared: BTreeMap<PoolNo, Shared>,
}

/// Refuses a campaign of which nothing exists yet, where its stock is short.
pub(super) async fn check_new(campaign: &Campaign, now: Moment) -> Result<(), CallError> {
    let campaign = campaign.clone();
    Ok(compute(move || problems(&campaign, None, now)).await??)
}

/// Refuses a new version of a campaign that has begun, where its stock is short.
pub(super) async fn check_begun(
    store: &dyn Store,
    campaign: &Campaign,
    filling: &Filling,
    now: Moment,
) -> Result<(), CallError> {
    let (before, campaign) = (&filling.view.campaign, campaign.clone());
    // What asks for nothing new is not held against what was withdrawn or dealt meanwhile.
    if before.pools == campaign.pools && before.end == campaign.end {
        return Ok(());
    }
    let mut shared = BTreeMap::new();
    for (no, schedule) in schedules(&campaign) {
        if let Some(PoolFilling::Schedule(filled)) = filling.pools.get(usize::from(no.0))
            && !schedule.total.is_empty()
        {
            shared.insert(no, read_shared(store, &campaign, no, filled).await?);
        }
    }
    let begun = Begun {
        filling: filling.clone(),
        shared,
    };
    Ok(compute(move || problems(&campaign, Some(&begun), now)).await??)
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
    let used = begun.map(|begun| &begun.filling.used);
    let coming = coming(campaign, begun, now);
    let secret = secret(campaign, begun);
    let mut problems = Problems::default();
    for (no, prize) in campaign.numbered_prizes() {
        let used = used.and_then(|used| used.get(&no)).copied().unwrap_or(0);
        let coming = coming.get(&no).copied().unwrap_or(0);
        let needed = coming + u128::from(used);
        if coming == 0 || needed <= u128::from(prize.stock) {
            continue;
        }
        let group = |units: u128| grouped_digits(&units.to_string());
        let mut message = format!(
            "stock {} needed, {} given",
            group(needed),
            group(prize.stock.into())
        );
        if used > 0 && !secret.contains(&no) {
            message += &format!(" ({} used already)", group(used.into()));
        }
        problems.add(format!("prizes[{}].stock", no.0), message);
    }
    problems.or(())
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

/// Units that are still to be taken off stock.
fn coming(campaign: &Campaign, begun: Option<&Begun>, now: Moment) -> BTreeMap<PrizeNo, u128> {
    let mut coming = BTreeMap::new();
    for (no, pool) in campaign.numbered_pools() {
        let filled = begun.and_then(|begun| begun.filling.pools.get(usize::from(no.0)));
        let units = match (&pool.kind, filled, begun) {
            (PoolKind::Schedule(schedule), Some(PoolFilling::Schedule(filled)), Some(begun)) => {
                let before = begun.filling.view.campaign.as_ref();
                let shared = begun.shared.get(&no);
                of_begun(campaign, before, (no, schedule), filled, shared, now)
            }
            (PoolKind::Schedule(schedule), _, _) => {
                // Its schedule begins with the hour that runs.
                let from = running_hour(campaign, now);
                schedule.sum(&campaign.zone, from, campaign.end)
            }
            (PoolKind::Deck(_), Some(PoolFilling::Deck(deck)), _) => of_deck(deck),
            (PoolKind::Deck(deck), _, _) => deck.cards.clone(),
        };
        for (prize, units) in units {
            *coming.entry(prize).or_insert(0) += u128::from(units);
        }
    }
    coming
}

/// What a deck still asks for: the rest of its first round. Later rounds are dealt for as long as there is stock.
fn of_deck(deck: &DeckFilling) -> Quantities {
    let remaining = deck.remaining.iter().filter(|_| deck.round == 1);
    remaining
        .filter_map(|kind| Some((kind.prize?, kind.cards)))
        .collect()
}

/// The start of the hour that runs, or of the campaign.
fn running_hour(campaign: &Campaign, now: Moment) -> Moment {
    let window = campaign.zone.window_at(now, campaign.start, campaign.end);
    window.map_or(campaign.start, |window| window.start)
}

/// What a schedule that was filled up to its horizon still asks for.
fn of_begun(
    campaign: &Campaign,
    before: &Campaign,
    (no, schedule): (PoolNo, &Schedule),
    filled: &ScheduleFilling,
    shared: Option<&Shared>,
    now: Moment,
) -> Quantities {
    let from = match schedule.missed {
        Missed::Skip => filled.horizon.max(running_hour(campaign, now)),
        Missed::Spread | Missed::Release => filled.horizon,
    };
    // What an end that came later adds to an hour that was already filled has no plan of its own.
    let mut windows = campaign.zone.windows(from, campaign.start, campaign.end);
    let from = windows.find(|window| window.start >= from);
    let mut coming = from.map_or_else(Quantities::new, |window| {
        schedule.sum(&campaign.zone, window.start, campaign.end)
    });
    coming.retain(|prize, _| !schedule.total.contains_key(prize));
    let mut add = |prize: PrizeNo, units: u64| {
        let sum = coming.entry(prize).or_default();
        *sum = sum.saturating_add(units);
    };
    let old = before
        .pools
        .get(usize::from(no.0))
        .and_then(|pool| match &pool.kind {
            PoolKind::Schedule(schedule) => Some(schedule),
            PoolKind::Deck(_) => None,
        });
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
