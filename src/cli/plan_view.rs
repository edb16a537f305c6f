//! A plan as a table: consecutive equal hours are one line, consecutive equal days one block.

use std::collections::BTreeMap;

use super::{
    output::{Side, Table, counted},
    phrases::{caps, limit_of_wins, listed, percent},
};
use crate::{
    model::{convert::shown_money, text::grouped},
    proto::{CardCount, DeckPlan, PersonalPlan, PlanSummary, PlannedHour, PrizePlan},
};

/// Consecutive hours with equal releases. The start of the first and the start of the last hour
/// name them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    /// `YYYY-MM-DD`.
    date: String,
    /// `HH:MM`.
    first: String,
    last: String,
    last_date: String,
    units: BTreeMap<String, u64>,
}

impl Run {
    fn of(hour: &PlannedHour) -> Self {
        let local = hour.local_start.as_str();
        let date = local.get(..10).unwrap_or(local).to_owned();
        let time = local.get(11..16).unwrap_or_default().to_owned();
        let prizes = hour.prizes.iter();
        Self {
            last_date: date.clone(),
            date,
            last: time.clone(),
            first: time,
            units: prizes
                .map(|prize| (prize.prize_id.clone(), prize.units))
                .collect(),
        }
    }

    /// `11-20 00:00 … 19:00`
    fn hours(&self, with_year: bool) -> String {
        let from = format!("{} {}", day(&self.date, with_year), self.first);
        match (self.date == self.last_date, self.first == self.last) {
            (true, true) => from,
            (true, false) => format!("{from} … {}", self.last),
            (false, _) => format!("{from} … {} {}", day(&self.last_date, with_year), self.last),
        }
    }
}

/// A date, with its year if `with_year`.
fn day(date: &str, with_year: bool) -> &str {
    if with_year {
        date
    } else {
        date.get(5..).unwrap_or(date)
    }
}

/// Joins consecutive equal hours; with `by_day` no run crosses midnight.
fn runs(hours: &[&PlannedHour], by_day: bool) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut end = None;
    for hour in hours {
        let next = Run::of(hour);
        match runs.last_mut() {
            Some(run)
                if run.units == next.units
                    && end == hour.start_time
                    && !(by_day && run.last_date != next.date) =>
            {
                run.last = next.first;
                run.last_date = next.date;
            }
            _ => runs.push(next),
        }
        end = hour.end_time;
    }
    runs
}

/// Consecutive days with equal hours: the first day, the last day, and the runs of one of them.
struct Days {
    from: String,
    to: String,
    runs: Vec<Run>,
}

fn alike(one: &[Run], other: &[Run]) -> bool {
    let hours = |run: &Run| (run.first.clone(), run.last.clone(), run.units.clone());
    one.iter().map(hours).eq(other.iter().map(hours))
}

fn next_day(date: &str) -> Option<String> {
    let date: jiff::civil::Date = date.parse().ok()?;
    Some(date.tomorrow().ok()?.to_string())
}

fn days(hours: &[&PlannedHour]) -> Vec<Days> {
    let mut by_date: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for run in runs(hours, true) {
        by_date.entry(run.date.clone()).or_default().push(run);
    }
    let mut days: Vec<Days> = Vec::new();
    for (date, runs) in by_date {
        match days.last_mut() {
            Some(before)
                if alike(&before.runs, &runs) && next_day(&before.to).as_ref() == Some(&date) =>
            {
                before.to = date;
            }
            _ => days.push(Days {
                from: date.clone(),
                to: date,
                runs,
            }),
        }
    }
    days
}

/// The lines of one pool: the label of the hours, and the run.
fn lines(hours: &[&PlannedHour], with_year: bool) -> Vec<(String, Run)> {
    let by_hour = runs(hours, false);
    let by_day = days(hours);
    if by_hour.len() <= by_day.iter().map(|days| days.runs.len()).sum() {
        return by_hour
            .into_iter()
            .map(|run| (run.hours(with_year), run))
            .collect();
    }
    let mut lines = Vec::new();
    for Days { from, to, runs } in by_day {
        for run in runs {
            let hours = if from == to {
                run.hours(with_year)
            } else {
                let (from, to) = (day(&from, with_year), day(&to, with_year));
                format!("{from} … {to} daily {} … {}", run.first, run.last)
            };
            lines.push((hours, run));
        }
    }
    lines
}

/// The table of one pool: a row per run, a column per prize, units per hour.
fn pool_table(hours: &[&PlannedHour]) -> Table {
    let year = |hour: &&PlannedHour| hour.local_start.get(..4).map(str::to_owned);
    let with_year = hours.first().map(year) != hours.last().map(year);
    let lines = lines(hours, with_year);
    let mut prizes: Vec<&str> = Vec::new();
    for (_, run) in &lines {
        for id in run.units.keys() {
            if !prizes.contains(&id.as_str()) {
                prizes.push(id);
            }
        }
    }
    let columns = prizes.iter().map(|&id| (id, Side::Right));
    let mut table = Table::new(
        [("first … last hour", Side::Left)]
            .into_iter()
            .chain(columns),
    );
    for (hours, run) in &lines {
        let units = prizes.iter().map(|&id| match run.units.get(id) {
            Some(&units) if units > 0 => format!("{} each", grouped(units)),
            _ => "-".into(),
        });
        table.row([hours.clone()].into_iter().chain(units));
    }
    table
}

/// Stock and value of each prize.
fn prize_table(prizes: &[PrizePlan]) -> String {
    use Side::{Left, Right};
    let rounds = prizes.iter().any(|prize| prize.per_round > 0);
    let value = prizes.iter().any(|prize| prize.stock_value.is_some());
    let mut columns = vec![
        ("prize", Left),
        ("stock needed", Right),
        ("given", Right),
        ("spare", Right),
    ];
    if rounds {
        columns.push(("in each round of a deck", Right));
    }
    if value {
        columns.extend([("value needed", Right), ("value given", Right)]);
    }
    let mut table = Table::new(columns);
    for prize in prizes {
        let (given, spare) = match prize.stock.checked_sub(prize.planned) {
            _ if prize.unlimited => ("unlimited".into(), "-".into()),
            _ if prize.codes => ("codes".into(), "-".into()),
            Some(spare) => (grouped(prize.stock), grouped(spare)),
            None => {
                let short = grouped(prize.planned - prize.stock);
                (grouped(prize.stock), format!("{short} short"))
            }
        };
        let mut row = vec![prize.prize_id.clone(), grouped(prize.planned), given, spare];
        if rounds {
            row.push(grouped(prize.per_round));
        }
        if value {
            row.extend([
                shown_money(prize.planned_value.as_ref()),
                shown_money(prize.stock_value.as_ref()),
            ]);
        }
        table.row(row);
    }
    table.render()
}

/// How far stock brings a deck that is dealt anew, and which odds it does not have exactly.
fn deck(plan: &DeckPlan) -> Vec<String> {
    let rounded = plan.rounded.iter();
    let mut lines: Vec<String> = rounded.map(|card| self::rounded(plan, card)).collect();
    // Without anything lacking it ends by itself.
    if !plan.lacking.is_empty() {
        let at_most = if plan.shares_stock { "at most " } else { "" };
        let left_over = match listed(&plan.left_over) {
            listed if listed.is_empty() => "nothing is left over".into(),
            listed => format!("{listed} left over"),
        };
        lines.push(format!(
            "pool {}: stock pays for {at_most}{} of {}, then the deck stops: {} more would pay for \
             another round; {left_over}",
            plan.pool_id,
            counted(plan.rounds, "round"),
            counted(plan.size, "card"),
            listed(&plan.lacking),
        ));
    }
    lines
}

/// How far stock brings the draws of a personal pool.
fn personal(plan: &PersonalPlan) -> String {
    let at_most = if plan.shares_stock { "at most " } else { "" };
    if plan.per_user.is_empty() {
        let shared = if plan.shares_stock {
            ", and another such pool takes of it too"
        } else {
            ""
        };
        return format!(
            "pool {}: chance decides how many each user takes of {} in stock{shared}",
            plan.pool_id,
            listed(&plan.stock)
        );
    }
    format!(
        "pool {}: each user's round takes {}: the stock lasts for {at_most}{}",
        plan.pool_id,
        listed(&plan.per_user),
        counted(plan.users, "user"),
    )
}

/// The odds that a prize has instead of those that were written.
fn rounded(plan: &DeckPlan, card: &CardCount) -> String {
    format!(
        "pool {}: {} of {} is no whole number of cards: {} gets {} of {}, which is {}",
        plan.pool_id,
        card.written_odds,
        counted(card.size, "card"),
        card.prize_id,
        grouped(card.cards),
        grouped(card.size),
        percent(card.cards, card.size)
    )
}

/// The whole plan for people: a table for each pool with a schedule, then the sums, then how far
/// decks and personal pools go, then what the limit of wins and caps mean.
pub(super) fn plan(plan: &PlanSummary) -> String {
    let mut pools: Vec<(&str, Vec<&PlannedHour>)> = Vec::new();
    for hour in &plan.hours {
        match pools.iter_mut().find(|(id, _)| *id == hour.pool_id) {
            Some((_, hours)) => hours.push(hour),
            None => pools.push((&hour.pool_id, vec![hour])),
        }
    }
    let mut parts = Vec::new();
    for (pool, hours) in pools {
        parts.push(format!(
            "pool {pool}, units in each hour\n{}",
            pool_table(&hours).render()
        ));
    }
    if plan.hours_omitted > 0 {
        let omitted = counted(u64::from(plan.hours_omitted), "hour");
        parts.push(format!("… and {omitted} more, not listed"));
    }
    if !plan.prizes.is_empty() {
        parts.push(prize_table(&plan.prizes));
    }
    let decks: Vec<String> = plan.decks.iter().flat_map(deck).collect();
    let personal = plan.personal.iter().map(personal);
    let decks: Vec<String> = decks.into_iter().chain(personal).collect();
    if !decks.is_empty() {
        parts.push(decks.join("\n"));
    }
    parts.extend(limit_of_wins(
        plan.wins_per_user,
        &plan.prizes_beyond_limit,
        !plan.decks.is_empty(),
    ));
    parts.extend(caps(&plan.capped_prizes, !plan.decks.is_empty()));
    parts.join("\n\n")
}

#[cfg(test)]
#[path = "plan_view_tests.rs"]
mod tests;
