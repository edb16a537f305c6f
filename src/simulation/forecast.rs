//! The runs of a simulation, summed up: means, and how far the runs lie apart.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use serde::Serialize;

use super::{
    crowd::Crowd,
    run::{PrizeRun, PrizeWindow, Run, windows},
    users::UserSums,
};
use crate::model::{Campaign, Moment, Prize, PrizeNo, money::NANOS_PER_UNIT};

/// A number over all runs: its mean, and the range of nine in ten runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// One run in twenty has less (the 5th percentile, by nearest rank).
    pub low: f64,
    /// One run in twenty has more (the 95th percentile).
    pub high: f64,
}

/// What a campaign will probably bring.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// The campaign.
    pub campaign_id: String,
    /// Its time zone, in which days and hours are.
    pub time_zone: String,
    /// How often it was played through.
    pub seeds: u32,
    /// The users of the simulation.
    pub users: u64,
    /// Draws that were made.
    pub draws: Spread,
    /// Draws that a limit refused, by the reason that callers see.
    pub refused: BTreeMap<&'static str, Spread>,
    /// Draws that gave the consolation prize.
    pub consolations: Spread,
    /// Draws that gave nothing.
    pub nothings: Spread,
    /// Users who drew.
    pub drawers: Spread,
    /// Users who won at least one unit.
    pub winners: Spread,
    /// Users to whom a guarantee gave a unit.
    pub guaranteed: Spread,
    /// Users who were refused a draw by a limit, or won as many units as `winsPerUser` allows.
    pub limited: Spread,
    /// Of these, users who won as many units as `winsPerUser` allows; none without such a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_wins_limit: Option<Spread>,
    /// Days on which the budget held a prize that could have been won; none without a budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_days: Option<Spread>,
    /// What the won units are worth, by currency.
    pub costs: Vec<Cost>,
    /// By prize, in the campaign's order.
    pub prizes: Vec<PrizeForecast>,
    /// By local day.
    pub days: Vec<Span>,
    /// By local hour.
    pub hours: Vec<Span>,
}

/// What won units are worth, in units of a currency.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// ISO 4217.
    pub currency: String,
    /// In all.
    pub total: Spread,
    /// For a day of the campaign, part days counted in part.
    pub per_day: Spread,
    /// For a draw that was made.
    pub per_draw: Spread,
}

/// A day or an hour.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// Its first moment in local time, e.g. `2026-12-01T20:00+08:00`.
    pub start: String,
    /// Draws that were made.
    pub draws: Spread,
    /// Units won of all prizes.
    pub won: Spread,
    /// What they are worth, by currency, on average.
    pub cost: BTreeMap<String, f64>,
    /// Of a day: the share of runs in which the budget was reached on it; none without a budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_reached: Option<f64>,
}

/// One prize.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrizeForecast {
    /// The prize.
    pub prize_id: String,
    /// Its stock; 0 if it is unlimited.
    pub stock: u64,
    /// There is no end of it.
    pub unlimited: bool,
    /// Units released.
    pub released: Spread,
    /// Units won.
    pub won: Spread,
    /// Units that nobody has in the end.
    pub left: Spread,
    /// The share of runs in which nothing is left.
    pub runs_out: f64,
    /// When the last unit was won in these runs: the mean, in local time.
    pub runs_out_time: Option<String>,
    /// One of these runs in twenty runs out earlier (the 5th percentile).
    pub runs_out_time_low: Option<String>,
    /// One of these runs in twenty runs out later (the 95th percentile).
    pub runs_out_time_high: Option<String>,
    /// Users who won as many units as `perUser` allows in all; none without such a cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_cap: Option<Spread>,
    /// Users who did so on any day; none without a cap of a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_daily_cap: Option<Spread>,
    /// Hours at whose end released units waited for someone.
    pub unclaimed_hours: Spread,
    /// By hour, as [`Forecast::hours`].
    pub hours: Vec<PrizeHour>,
}

/// One prize in one hour.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrizeHour {
    /// Units released.
    pub released: Spread,
    /// Units won.
    pub won: Spread,
    /// Units that waited at its end.
    pub unclaimed: Spread,
}

impl Spread {
    /// The spread of these numbers, one for each run.
    ///
    /// ```
    /// use tombola::simulation::forecast::Spread;
    /// let spread = Spread::of((1..=20).map(f64::from));
    /// assert_eq!((spread.low, spread.mean, spread.high), (1.0, 10.5, 19.0));
    /// ```
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Self {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        if numbers.is_empty() {
            return Self::default();
        }
        numbers.sort_unstable_by(f64::total_cmp);
        let count = numbers.len();
        let rank = |share: f64| numbers[((share * count as f64).ceil() as usize).max(1) - 1];
        Self {
            mean: numbers.iter().sum::<f64>() / count as f64,
            low: rank(0.05),
            high: rank(0.95),
        }
    }
}

impl Forecast {
    pub(super) fn of(campaign: &Campaign, crowd: &Crowd, runs: &[Run]) -> Self {
        let spread = |of: &dyn Fn(&Run) -> f64| Spread::of(runs.iter().map(of));
        let limits: BTreeSet<&str> = runs
            .iter()
            .flat_map(|run| run.refused.keys().copied())
            .collect();
        let refused =
            |limit: &str| spread(&|run| run.refused.get(limit).copied().unwrap_or(0) as f64);
        let hours: Vec<Vec<usize>> = (0..windows(campaign).count())
            .map(|index| vec![index])
            .collect();
        Self {
            campaign_id: campaign.id.to_string(),
            time_zone: campaign.zone.name().into(),
            seeds: u32::try_from(runs.len()).unwrap_or(u32::MAX),
            users: crowd.users.get(),
            draws: spread(&|run| run.draws as f64),
            refused: limits
                .iter()
                .map(|limit| (*limit, refused(limit)))
                .collect(),
            consolations: spread(&|run| run.consolations as f64),
            nothings: spread(&|run| run.nothings as f64),
            drawers: spread(&|run| run.users.drawers as f64),
            winners: spread(&|run| run.users.winners as f64),
            guaranteed: spread(&|run| run.users.guaranteed as f64),
            limited: spread(&|run| run.users.limited as f64),
            at_wins_limit: campaign
                .all_limits()
                .any(|limits| limits.wins_per_user.is_some())
                .then(|| spread(&|run| run.users.at_wins_limit as f64)),
            budget_days: campaign
                .budget
                .is_some()
                .then(|| spread(&|run| run.budget_days.len() as f64)),
            costs: costs(campaign, runs),
            prizes: campaign
                .numbered_prizes()
                .map(|(no, prize)| PrizeForecast::of(campaign, (no, prize), runs))
                .collect(),
            days: with_budget(campaign, runs, spans(campaign, runs, &days(campaign))),
            hours: spans(campaign, runs, &hours),
        }
    }
}

/// The indexes of the windows of each local day.
fn days(campaign: &Campaign) -> Vec<Vec<usize>> {
    let mut days: Vec<(Date, Vec<usize>)> = Vec::new();
    for (index, window) in windows(campaign).enumerate() {
        let date = window.local_hour.date();
        match days.last_mut() {
            Some((last, indexes)) if *last == date => indexes.push(index),
            _ => days.push((date, vec![index])),
        }
    }
    days.into_iter().map(|(_, indexes)| indexes).collect()
}

/// Sums over the windows of each span.
fn spans(campaign: &Campaign, runs: &[Run], spans: &[Vec<usize>]) -> Vec<Span> {
    let starts: Vec<Moment> = windows(campaign).map(|window| window.start).collect();
    let won = |run: &Run, indexes: &[usize]| -> f64 {
        let prizes = run.prizes.iter();
        prizes.map(|prize| units(prize, indexes)).sum()
    };
    let span = |indexes: &Vec<usize>| Span {
        start: campaign.zone.local(starts[indexes[0]]),
        draws: Spread::of(runs.iter().map(|run| {
            let draws = indexes
                .iter()
                .map(|index| f64::from(run.draws_by_window[*index]));
            draws.sum()
        })),
        won: Spread::of(runs.iter().map(|run| won(run, indexes))),
        cost: mean_cost(campaign, runs, indexes),
        budget_reached: None,
    };
    spans.iter().map(span).collect()
}

/// The days with the share of runs in which the budget was reached on each.
fn with_budget(campaign: &Campaign, runs: &[Run], mut spans: Vec<Span>) -> Vec<Span> {
    if campaign.budget.is_none() {
        return spans;
    }
    let starts = windows(campaign).map(|window| window.start);
    let starts: Vec<Moment> = starts.collect();
    for (span, indexes) in spans.iter_mut().zip(days(campaign)) {
        let day = campaign.zone.day(starts[indexes[0]]);
        let reached = runs.iter().filter(|run| run.budget_days.contains(&day));
        span.budget_reached = Some(reached.count() as f64 / runs.len().max(1) as f64);
    }
    spans
}

/// Units of a prize that were won in these windows.
fn units(prize: &PrizeRun, indexes: &[usize]) -> f64 {
    let won = indexes
        .iter()
        .map(|index| f64::from(prize.windows[*index].won));
    won.sum()
}

/// The worth of a unit in units of its currency.
fn worth(prize: &Prize) -> Option<(&str, f64)> {
    let value = prize.value.as_ref()?;
    let units = value.nanos as f64 / f64::from(NANOS_PER_UNIT);
    Some((value.currency.as_str(), units))
}

/// What was won in these windows is worth, by currency, on average.
fn mean_cost(campaign: &Campaign, runs: &[Run], indexes: &[usize]) -> BTreeMap<String, f64> {
    let mut costs = BTreeMap::new();
    for (no, prize) in campaign.numbered_prizes() {
        let Some((currency, worth)) = worth(prize) else {
            continue;
        };
        let won = runs
            .iter()
            .map(|run| units(&run.prizes[usize::from(no.0)], indexes));
        let mean = won.sum::<f64>() / runs.len().max(1) as f64;
        *costs.entry(currency.to_owned()).or_default() += mean * worth;
    }
    costs
}

fn costs(campaign: &Campaign, runs: &[Run]) -> Vec<Cost> {
    let days = campaign.end.since(campaign.start).as_secs_f64() / 86_400.0;
    let currencies: BTreeSet<&str> = campaign
        .prizes
        .iter()
        .filter_map(|prize| worth(prize).map(|(currency, _)| currency))
        .collect();
    let cost = |currency: &&str| {
        let total = |run: &Run| -> f64 {
            let prizes = campaign.prizes.iter().zip(&run.prizes);
            let costs = prizes.filter_map(|(prize, run)| {
                let (_, worth) = worth(prize).filter(|(its, _)| its == currency)?;
                let won: f64 = run.windows.iter().map(|window| f64::from(window.won)).sum();
                Some(won * worth)
            });
            costs.sum()
        };
        Cost {
            currency: (*currency).to_owned(),
            total: Spread::of(runs.iter().map(total)),
            per_day: Spread::of(runs.iter().map(|run| total(run) / days)),
            per_draw: Spread::of(
                runs.iter()
                    .map(|run| total(run) / (run.draws.max(1) as f64)),
            ),
        }
    };
    currencies.iter().map(cost).collect()
}

impl PrizeForecast {
    fn of(campaign: &Campaign, (no, prize): (PrizeNo, &Prize), all: &[Run]) -> Self {
        let runs = all.iter().map(|run| &run.prizes[usize::from(no.0)]);
        let runs: Vec<&PrizeRun> = runs.collect();
        let spread = |of: &dyn Fn(&PrizeRun) -> f64| Spread::of(runs.iter().map(|run| of(run)));
        let sum = |run: &PrizeRun, of: fn(&PrizeWindow) -> u32| -> f64 {
            run.windows.iter().map(|window| f64::from(of(window))).sum()
        };
        let cap = prize.per_user.unwrap_or_default();
        let users = |of: fn(&UserSums) -> &BTreeMap<PrizeNo, u64>| {
            let reached = |run: &Run| of(&run.users).get(&no).copied().unwrap_or(0) as f64;
            Spread::of(all.iter().map(reached))
        };
        let ends: Vec<Moment> = runs.iter().filter_map(|run| run.ran_out).collect();
        let end = Spread::of(ends.iter().map(|end| end.as_micros() as f64));
        let ended = |micros: f64| {
            let second = Moment::from_micros((micros / 1e6).round() as i64 * 1_000_000);
            (!ends.is_empty()).then(|| campaign.zone.local(second))
        };
        Self {
            prize_id: prize.id.to_string(),
            stock: prize.stock,
            unlimited: prize.unlimited,
            released: spread(&|run| sum(run, |window| window.released)),
            won: spread(&|run| sum(run, |window| window.won)),
            left: spread(&|run| run.left as f64),
            runs_out: ends.len() as f64 / runs.len().max(1) as f64,
            runs_out_time: ended(end.mean),
            runs_out_time_low: ended(end.low),
            runs_out_time_high: ended(end.high),
            at_cap: cap.total.map(|_| users(|sums| &sums.at_cap)),
            at_daily_cap: cap.per_day.map(|_| users(|sums| &sums.at_daily_cap)),
            unclaimed_hours: spread(&|run| {
                run.windows
                    .iter()
                    .filter(|window| window.unclaimed > 0)
                    .count() as f64
            }),
            hours: (0..windows(campaign).count())
                .map(|index| {
                    let of = |of: fn(&PrizeWindow) -> u32| {
                        spread(&|run| f64::from(of(&run.windows[index])))
                    };
                    PrizeHour {
                        released: of(|window| window.released),
                        won: of(|window| window.won),
                        unclaimed: of(|window| window.unclaimed),
                    }
                })
                .collect(),
        }
    }
}
