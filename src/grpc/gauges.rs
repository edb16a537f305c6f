//! The gauges of the store: where the units of each campaign are, what waits to be settled, memory
//! and clock. They are read when the metrics are asked for, and kept for some seconds, however many
//! ask.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::{Duration, SystemTime},
};

use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};
use tracing::warn;

use super::{ledger_stats::ledger_stats, stats::prize_stats, views};
use crate::{
    metrics::{CAMPAIGNS, CampaignFigures, Figure, STORE},
    model::{PoolKind, PrizeNo},
    proto,
    store::{
        Result, Stats, Store, StoreError,
        view::{CampaignView, Lifecycle},
    },
};

/// How long what was read is good.
const FRESH_TIME: Duration = Duration::from_secs(5);
/// Campaigns are good for this many times the time that reading them took. A store counts the units
/// that wait, which takes long where millions do, and draws need the same cores.
const FRESH_TIMES: u32 = 50;
const FRESH_TIME_MAX: Duration = Duration::from_secs(30);
/// How long reading may take; Prometheus waits for ten seconds.
const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// The hours of schedules whose units are looked at; a time change adds one, and one is to come.
const OVERDUE_TIME: Duration = Duration::from_secs(24 * 3600);
const OVERDUE_WINDOWS_MAX: usize = 28;
/// Campaigns that are read at once.
const PAGE: usize = 100;

/// Reads the gauges of a store.
#[derive(Clone, Default)]
pub struct Gauges(Arc<Reading>);

#[derive(Default)]
struct Reading {
    /// None before the store is open; gone once the service has stopped.
    store: OnceLock<Weak<dyn Store>>,
    /// Until when the last reading of clock, ledger and memory is good.
    fresh_until: Mutex<Option<Instant>>,
    /// Until when that of campaigns is.
    campaigns_fresh_until: Mutex<Option<Instant>>,
}

impl Gauges {
    /// From now on, they are those of this store.
    pub fn open(&self, store: &Arc<dyn Store>) {
        drop(self.0.store.set(Arc::downgrade(store))); // a service opens one store
    }

    /// Reads them, unless they were read just now. If the store does not answer, they stay as they
    /// are.
    pub(crate) async fn refresh(&self) {
        let Some(store) = self.0.store.get().and_then(Weak::upgrade) else {
            return;
        };
        // At the same time: whoever asks waits no longer if the store does not answer either.
        let shared = read(&self.0.fresh_until, read_shared(&*store), |_| FRESH_TIME);
        let campaigns = read_campaigns(&*store);
        let campaigns = read(&self.0.campaigns_fresh_until, campaigns, fresh_time);
        tokio::join!(shared, campaigns);
    }
}

/// Reads gauges, unless what was read last is good still. How long they are good depends on how
/// long reading takes.
async fn read(
    fresh_until: &Mutex<Option<Instant>>,
    reading: impl Future<Output = Result<()>>,
    fresh_time: fn(Duration) -> Duration,
) {
    let mut fresh_until = fresh_until.lock().await;
    let begun = Instant::now();
    if fresh_until.is_some_and(|until| begun < until) {
        return;
    }
    let read = timeout(READ_TIME_MAX, reading).await;
    let now = Instant::now();
    *fresh_until = Some(now + fresh_time(now - begun));
    match read {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!("the gauges of the store are not read: {error}"),
        Err(_) => warn!("the gauges of the store are not read: it does not answer"),
    }
}

/// How long campaigns that were read in this time are good.
fn fresh_time(reading: Duration) -> Duration {
    (reading * FRESH_TIMES).clamp(FRESH_TIME, FRESH_TIME_MAX)
}

async fn read_shared(store: &dyn Store) -> Result<()> {
    let skew = clock_skew_s(store).await?;
    let ledger = ledger_stats(store).await?;
    set_ledger(&ledger);
    STORE.clock_skew_s.set(skew);
    Ok(())
}

async fn read_campaigns(store: &dyn Store) -> Result<()> {
    let mut campaigns = Vec::new();
    let mut after = None;
    loop {
        let page = store.campaigns(after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.campaign.id.to_string());
        for view in &page {
            if view.lifecycle == Lifecycle::Closed {
                continue;
            }
            match figures(store, view).await {
                Ok(figures) => campaigns.push(figures),
                // Its data have left the store meanwhile.
                Err(StoreError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    CAMPAIGNS.set(&campaigns);
    STORE.read_at_s.set(since_epoch_s(SystemTime::now()));
    Ok(())
}

/// How far the store's clock is ahead of this machine's; 0 on a test clock.
async fn clock_skew_s(store: &dyn Store) -> Result<f64> {
    let before = SystemTime::now();
    let now = store.now().await?;
    if store.info().test_clock {
        return Ok(0.0);
    }
    let now = now.as_micros() as f64 / 1e6;
    let (before, after) = (since_epoch_s(before), since_epoch_s(SystemTime::now()));
    // The store read its clock somewhere in between.
    Ok(now - now.clamp(before, after.max(before)))
}

fn since_epoch_s(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |time| time.as_secs_f64())
}

fn set_ledger(ledger: &proto::LedgerStats) {
    let entries = i64::try_from(ledger.unsettled_entries).unwrap_or(i64::MAX);
    STORE.unsettled_entries.set(entries);
    let bytes = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
    STORE.memory_used_bytes.set(bytes(ledger.memory_used_bytes));
    STORE.memory_max_bytes.set(bytes(ledger.memory_max_bytes));
    let age_s = |age: &prost_types::Duration| age.seconds as f64 + f64::from(age.nanos) / 1e9;
    STORE
        .unsettled_age_s
        .set(ledger.lag.as_ref().map_or(0.0, age_s));
}

async fn figures(store: &dyn Store, view: &CampaignView) -> Result<CampaignFigures> {
    let stats = store.stats(&view.campaign.id).await?;
    let mut figures = Vec::new();
    for (no, prize) in (0..).map(PrizeNo).zip(&stats.prizes) {
        let prize = prize_stats(no, prize, &stats);
        for (state, units) in [
            ("left", prize.left),
            ("waiting", prize.waiting),
            ("held", prize.held),
            ("won", prize.won),
            ("withdrawn", prize.withdrawn),
        ] {
            figures.push(Figure::Units(prize.prize_id.clone(), state, units));
        }
    }
    for (no, prize) in (0..).map(PrizeNo).zip(&stats.prizes) {
        let definition = view.campaign.prize(no);
        let id = definition.id.to_string();
        if definition.unlimited {
            figures.push(Figure::Unlimited(id.clone()));
        }
        figures.push(Figure::Released(id, prize.released));
    }
    figures.push(Figure::Overdue(overdue_units(store, &stats).await?));
    for (outcome, draws) in [
        ("win", stats.draws.wins),
        ("consolation", stats.draws.consolations),
        ("nothing", stats.draws.nothings),
    ] {
        figures.push(Figure::Draws(outcome, draws));
    }
    figures.push(Figure::Users(stats.users));
    add_decks(&stats, &mut figures);
    add_budget(&stats, &mut figures);
    Ok(CampaignFigures {
        id: view.campaign.id.to_string(),
        figures,
    })
}

/// Units that schedules have released within [`OVERDUE_TIME`] and that nobody has won.
async fn overdue_units(store: &dyn Store, stats: &Stats) -> Result<u64> {
    let campaign = &stats.view.campaign;
    let after = stats.now - OVERDUE_TIME;
    let mut overdue = 0;
    for (no, pool) in campaign.numbered_pools() {
        if let PoolKind::Schedule(_) = pool.kind {
            let windows = store
                .windows(&campaign.id, no, after, OVERDUE_WINDOWS_MAX)
                .await?;
            let units = windows.iter().flat_map(|window| &window.prizes);
            let waiting =
                units.map(|(_, units)| units.released.saturating_sub(units.won + units.returned));
            overdue += waiting.sum::<u64>();
        }
    }
    Ok(overdue)
}

fn add_decks(stats: &Stats, figures: &mut Vec<Figure>) {
    for deck in &stats.decks {
        let pool = views::pool_id(&stats.view.campaign, deck.pool);
        figures.push(Figure::Cards(pool.clone(), "left", deck.cards_left));
        figures.push(Figure::Cards(pool.clone(), "waiting", deck.cards_waiting));
        figures.push(Figure::Round(pool.clone(), deck.round));
        figures.push(Figure::Stopped(pool, deck.stopped.is_some()));
    }
}

fn add_budget(stats: &Stats, figures: &mut Vec<Figure>) {
    let Some(budget) = &stats.view.campaign.budget else {
        return;
    };
    let spent = stats.spent();
    for (period, most, won) in [
        ("day", budget.per_day, spent.today),
        ("total", budget.total, spent.total),
    ] {
        figures.extend(most.map(|most| Figure::Budget(period, most, won)));
    }
    let held = budget.held(spent).count() as u64;
    figures.push(Figure::BudgetHolds(held));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn campaigns_are_read_as_seldom_as_that_is_slow() {
        let milliseconds = Duration::from_millis;
        assert_eq!(fresh_time(milliseconds(1)), FRESH_TIME);
        assert_eq!(fresh_time(milliseconds(200)), milliseconds(10_000));
        assert_eq!(fresh_time(READ_TIME_MAX), FRESH_TIME_MAX);
    }
}
