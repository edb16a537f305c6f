//! The gauges of campaigns. One that cannot be read is counted and named in the log, and keeps its
//! place among those with series of their own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::{Instant, timeout};

use super::{FRESH_TIME, Failures, Rounds, since_epoch_s};
use crate::{
    grpc::{stats::prize_stats, views},
    metrics::{CAMPAIGNS, CampaignFigures, Figure, STORE},
    model::{Campaign, CampaignId, PoolKind, PrizeNo},
    store::{
        Result, Stats, Store, StoreError,
        view::{CampaignView, Lifecycle},
    },
};

/// Campaigns are good for this many times the time that reading them took. A store counts the units
/// that wait, which takes long where millions do, and draws need the same cores.
const FRESH_TIMES: u32 = 50;
const FRESH_TIME_MAX: Duration = Duration::from_secs(30);
/// The hours of schedules whose units are looked at; a time change adds one, and one is to come.
const OVERDUE_TIME: Duration = Duration::from_secs(24 * 3600);
const OVERDUE_WINDOWS_MAX: usize = 28;
/// Ids that are read at once.
const PAGE: usize = 100;

/// What is known of campaigns, and when they are read next.
#[derive(Default)]
pub(super) struct CampaignReading {
    fresh_until: Option<Instant>,
    known: BTreeMap<CampaignId, Known>,
    failures: Failures,
}

/// What never changes of a campaign.
#[derive(Clone)]
struct Known {
    partition: u32,
    created_us: i64,
    /// The first version.
    first: Arc<Campaign>,
}

/// What a reading has found.
#[derive(Default)]
struct Found {
    /// Partitions that were read to their end.
    partitions: BTreeSet<u32>,
    campaigns: BTreeMap<CampaignId, (Known, Vec<Figure>)>,
    /// Campaigns that could not be read.
    failed: BTreeSet<CampaignId>,
}

impl CampaignReading {
    /// Reads them, unless what was read last is good still. If no partition can be read, they stay
    /// as they are.
    pub(super) async fn read(&mut self, store: &dyn Store) {
        let begun = Instant::now();
        if self.fresh_until.is_some_and(|until| begun < until) {
            return;
        }
        let (rounds, mut found) = (Rounds::begin(store), Found::default());
        for partition in rounds.partitions() {
            let reading = self.read_partition(store, partition, &mut found);
            let read = timeout(rounds.time(partition), reading).await;
            let what = format_args!("campaigns of partition {partition}");
            match read {
                Ok(Ok(())) => drop(found.partitions.insert(partition)),
                Ok(Err(error)) => self.failures.add(what, error),
                Err(_) => self.failures.add(what, "no answer in time"),
            }
        }
        if !found.partitions.is_empty() {
            self.set(found);
        }
        self.failures.log();
        let now = Instant::now();
        self.fresh_until = Some(now + fresh_time(now - begun));
    }

    /// Reads the campaigns of a partition. One that fails does not keep the others from being read,
    /// unless the partition is away.
    async fn read_partition(
        &mut self,
        store: &dyn Store,
        partition: u32,
        found: &mut Found,
    ) -> Result<()> {
        let mut after: Option<CampaignId> = None;
        loop {
            let ids = store.campaign_ids(partition, after.as_ref(), PAGE).await?;
            let Some(last) = ids.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            for id in ids {
                match self.read_campaign(store, partition, &id).await {
                    Ok(Some(campaign)) => drop(found.campaigns.insert(id, campaign)),
                    // It is closed, or its data have left the store meanwhile.
                    Ok(None) | Err(StoreError::Refused(_)) => {}
                    Err(error @ StoreError::Unavailable { .. }) => return Err(error),
                    Err(error) => {
                        self.failures.add(format_args!("campaign {id}"), error);
                        found.failed.insert(id);
                    }
                }
            }
        }
    }

    async fn read_campaign(
        &self,
        store: &dyn Store,
        partition: u32,
        id: &CampaignId,
    ) -> Result<Option<(Known, Vec<Figure>)>> {
        let view = store.campaign(id).await?;
        if view.lifecycle == Lifecycle::Closed {
            return Ok(None);
        }
        let first = match self.known.get(id) {
            Some(known) => Arc::clone(&known.first),
            None if view.version == 1 => Arc::clone(&view.campaign),
            None => store.version(id, 1).await?,
        };
        let figures = figures(store, &view, &first).await?;
        let created = view.versions.first().map(|version| version.at);
        let known = Known {
            partition,
            created_us: created.unwrap_or(first.start).as_micros(),
            first,
        };
        Ok(Some((known, figures)))
    }

    /// Sets the gauges. Campaigns that are known and could not be read have no figures.
    fn set(&mut self, found: Found) {
        let is_unread = |id: &CampaignId, known: &Known| {
            let is_missing = !found.partitions.contains(&known.partition);
            found.failed.contains(id) || is_missing && !found.campaigns.contains_key(id)
        };
        self.known.retain(|id, known| is_unread(id, known));
        let strangers = found.failed.iter();
        let strangers = strangers.filter(|id| !self.known.contains_key(*id)).count();
        let unreadable = self.known.len() + strangers;
        let figures_of = |id: &CampaignId, known: &Known, figures| CampaignFigures {
            id: id.to_string(),
            created_us: known.created_us,
            reserved: first_series(&known.first),
            figures,
        };
        let mut all: Vec<_> = self
            .known
            .iter()
            .map(|(id, known)| figures_of(id, known, Vec::new()))
            .collect();
        for (id, (known, figures)) in found.campaigns {
            all.push(figures_of(&id, &known, figures));
            self.known.insert(id, known);
        }
        CAMPAIGNS.set(&all);
        let unreadable = i64::try_from(unreadable).unwrap_or(i64::MAX);
        STORE.campaigns_unreadable.set(unreadable);
        let now = since_epoch_s(SystemTime::now());
        STORE.campaigns_read_at_s.set(now);
    }
}

/// How long campaigns that were read in this time are good.
fn fresh_time(reading: Duration) -> Duration {
    (reading * FRESH_TIMES).clamp(FRESH_TIME, FRESH_TIME_MAX)
}

/// The figures of a campaign, those of its first version first.
async fn figures(store: &dyn Store, view: &CampaignView, first: &Campaign) -> Result<Vec<Figure>> {
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
    figures.sort_by_key(|figure| is_added(figure, first));
    Ok(figures)
}

/// Whether this is a figure of something that a later version has added.
fn is_added(figure: &Figure, first: &Campaign) -> bool {
    match figure {
        Figure::Units(prize, ..) | Figure::Released(prize, _) | Figure::Unlimited(prize) => {
            !first.prizes.iter().any(|known| known.id.as_str() == prize)
        }
        Figure::Cards(pool, ..) | Figure::Round(pool, _) | Figure::Stopped(pool, _) => {
            !first.pools.iter().any(|known| known.id.as_str() == pool)
        }
        Figure::Budget(..) | Figure::BudgetHolds(_) => first.budget.is_none(),
        Figure::Overdue(_) | Figure::Draws(..) | Figure::Users(_) => false,
    }
}

/// The series of a campaign with this first version. So it never changes.
fn first_series(first: &Campaign) -> usize {
    let unlimited = first.prizes.iter().filter(|prize| prize.unlimited).count();
    let decks = first.pools.iter();
    let decks = decks.filter(|pool| matches!(pool.kind, PoolKind::Deck(_)));
    let budget = first.budget.as_ref().map_or(0, |budget| {
        let periods = [budget.per_day.is_some(), budget.total.is_some()];
        1 + 2 * periods.into_iter().filter(|is_set| *is_set).count()
    });
    // Five states and the released units of each prize; overdue units, outcomes and users.
    6 * first.prizes.len() + unlimited + 4 * decks.count() + budget + 5
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
    use crate::grpc::gauges::READ_TIME_MAX;

    #[test]
    fn campaigns_are_read_as_seldom_as_that_is_slow() {
        let milliseconds = Duration::from_millis;
        assert_eq!(fresh_time(milliseconds(1)), FRESH_TIME);
        assert_eq!(fresh_time(milliseconds(200)), milliseconds(10_000));
        assert_eq!(fresh_time(READ_TIME_MAX), FRESH_TIME_MAX);
    }
}
