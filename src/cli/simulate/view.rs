//! A forecast as tables and a chart of letters.

use super::super::output::{Side, Table, counted};
use crate::{
    model::text::grouped,
    simulation::forecast::{Forecast, PrizeForecast, Span, Spread},
};

/// The most bars of the chart.
const BARS_MAX: usize = 31;
/// The length of the longest bar, in columns.
const BAR_WIDTH: f64 = 40.0;

/// Renders a forecast: what comes out in all, by prize, and over time.
pub(super) fn render(forecast: &Forecast, by_hour: bool) -> String {
    let mut parts = vec![headline(forecast), prizes(forecast)];
    let spans = match by_hour || forecast.days.len() < 2 {
        true => &forecast.hours,
        false => &forecast.days,
    };
    parts.push(over_time(spans));
    if by_hour {
        parts.extend(forecast.prizes.iter().map(|prize| hours(forecast, prize)));
    }
    parts.push(chart(spans));
    parts.join("\n\n")
}

/// A mean and the range of nine in ten runs, e.g. `1,200 (1,150–1,260)`.
fn whole(spread: Spread) -> String {
    let number = |number: f64| grouped(number.round().max(0.0) as u64);
    ranged(spread, number)
}

fn ranged(spread: Spread, number: impl Fn(f64) -> String) -> String {
    let (low, high) = (number(spread.low), number(spread.high));
    match low == high && low == number(spread.mean) {
        true => low,
        false => format!("{} ({low}–{high})", number(spread.mean)),
    }
}

/// Money with two digits, e.g. `1,200.50`.
fn money(amount: f64) -> String {
    let cents = (amount * 100.0).round().max(0.0) as u64;
    format!("{}.{:02}", grouped(cents / 100), cents % 100)
}

/// A share as a percentage.
fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn headline(forecast: &Forecast) -> String {
    let mut lines = vec![format!(
        "{}: {}, {}; the mean of all runs, and the range of nine in ten",
        forecast.campaign_id,
        counted(forecast.users, "user"),
        counted(forecast.seeds.into(), "run")
    )];
    let mut line = |name: &str, text: String| lines.push(format!("{name:<24}{text}"));
    line("draws", whole(forecast.draws));
    if forecast.draws.high == 0.0 && !forecast.refused.is_empty() {
        let advice = "a limit refuses every draw: give users free or paid draws that it allows";
        line("", advice.into());
    }
    for (limit, refused) in &forecast.refused {
        line(&format!("refused {limit}"), whole(*refused));
    }
    if forecast.consolations.high > 0.0 {
        line("consolation prizes", whole(forecast.consolations));
    }
    if forecast.nothings.high > 0.0 {
        line("draws without anything", whole(forecast.nothings));
    }
    let of_all = |spread: Spread| {
        let share = percent(spread.mean / forecast.users as f64);
        format!("{}, {share} of all", whole(spread))
    };
    line("users who draw", of_all(forecast.drawers));
    line("users who win", of_all(forecast.winners));
    if forecast.guaranteed.high > 0.0 {
        line("users with a guarantee", of_all(forecast.guaranteed));
    }
    line("users at a limit", of_all(forecast.limited));
    if let Some(users) = forecast.at_wins_limit {
        line("  of winsPerUser", of_all(users));
    }
    if let Some(days) = forecast.budget_days {
        line("days at the budget", whole(days));
    }
    for cost in &forecast.costs {
        line(
            &format!("cost in {}", cost.currency),
            ranged(cost.total, money),
        );
        line("  a day", ranged(cost.per_day, money));
        line(
            "  a draw",
            ranged(cost.per_draw, |amount| format!("{amount:.4}")),
        );
    }
    lines.join("\n")
}

/// When a prize runs out: the mean, and the range to the minute if the runs differ.
pub(super) fn end(prize: &PrizeForecast) -> String {
    let Some(mean) = &prize.runs_out_time else {
        return "-".into();
    };
    let minute = |time: &Option<String>| {
        let time = time.as_ref().and_then(|time| time.get(5..16));
        time.unwrap_or_default().replace('T', " ")
    };
    let (low, high) = (
        minute(&prize.runs_out_time_low),
        minute(&prize.runs_out_time_high),
    );
    match low == high {
        true => mean.clone(),
        false => format!("{mean} ({low}–{high})"),
    }
}

/// Whether a prize has a cap for each user.
pub(super) fn has_caps(forecast: &Forecast) -> bool {
    let mut prizes = forecast.prizes.iter();
    prizes.any(|prize| prize.at_cap.or(prize.at_daily_cap).is_some())
}

/// Users at the cap of a prize, e.g. `12 (10–14), 30 on a day`; none without a cap.
pub(super) fn at_cap(prize: &PrizeForecast, number: fn(Spread) -> String) -> Option<String> {
    let on_a_day = |users| format!("{} on a day", number(users));
    let parts = [prize.at_cap.map(number), prize.at_daily_cap.map(on_a_day)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn prizes(forecast: &Forecast) -> String {
    let columns = [
        ("prize", Side::Left),
        ("stock", Side::Right),
        ("released", Side::Right),
        ("won", Side::Right),
        ("left", Side::Right),
        ("runs out", Side::Right),
        ("on average at", Side::Left),
        ("hours unclaimed", Side::Right),
    ];
    let has_caps = has_caps(forecast);
    let of_caps = has_caps.then_some(("users at its cap", Side::Right));
    let mut table = Table::new(columns.into_iter().chain(of_caps));
    for prize in &forecast.prizes {
        let cells = [
            prize.prize_id.clone(),
            match prize.unlimited {
                true => "unlimited".into(),
                false => grouped(prize.stock),
            },
            whole(prize.released),
            whole(prize.won),
            whole(prize.left),
            percent(prize.runs_out),
            end(prize),
            whole(prize.unclaimed_hours),
        ];
        let at_cap = has_caps.then(|| at_cap(prize, whole).unwrap_or_else(|| "-".into()));
        table.row(cells.into_iter().chain(at_cap));
    }
    table.render()
}

fn over_time(spans: &[Span]) -> String {
    let has_budget = spans.iter().any(|span| span.budget_reached.is_some());
    let columns = [
        ("from", Side::Left),
        ("draws", Side::Right),
        ("won", Side::Right),
        ("cost", Side::Right),
    ];
    let of_budget = has_budget.then_some(("budget reached in", Side::Right));
    let mut table = Table::new(columns.into_iter().chain(of_budget));
    for span in spans {
        let costs = span.cost.iter();
        let costs: Vec<String> = costs
            .map(|(currency, cost)| format!("{currency} {}", money(*cost)))
            .collect();
        let cells = [
            span.start.clone(),
            whole(span.draws),
            whole(span.won),
            costs.join(" + "),
        ];
        table.row(cells.into_iter().chain(span.budget_reached.map(percent)));
    }
    table.render()
}

/// The hours of a prize in which something happens.
fn hours(forecast: &Forecast, prize: &PrizeForecast) -> String {
    let mut table = Table::new([
        (prize.prize_id.as_str(), Side::Left),
        ("released", Side::Right),
        ("won", Side::Right),
        ("unclaimed at its end", Side::Right),
    ]);
    for (span, hour) in forecast.hours.iter().zip(&prize.hours) {
        if [hour.released, hour.won, hour.unclaimed]
            .iter()
            .all(|it| it.mean == 0.0)
        {
            continue;
        }
        table.row([
            span.start.clone(),
            whole(hour.released),
            whole(hour.won),
            whole(hour.unclaimed),
        ]);
    }
    match table.is_empty() {
        true => format!("{}: nothing is released or won", prize.prize_id),
        false => table.render(),
    }
}

/// Bars of the units won, for the whole campaign: several spans share a bar if there are many.
fn chart(spans: &[Span]) -> String {
    let each = spans.len().div_ceil(BARS_MAX).max(1);
    let bars: Vec<(&str, f64)> = spans
        .chunks(each)
        .map(|spans| {
            let won = spans.iter().map(|span| span.won.mean);
            (spans[0].start.as_str(), won.sum())
        })
        .collect();
    let most = bars.iter().map(|(_, won)| *won).fold(0.0, f64::max);
    if most <= 0.0 {
        return "nothing is won".into();
    }
    let mut lines = vec!["units won".to_owned()];
    lines.extend(bars.iter().map(|(start, won)| {
        let bar = "█".repeat((won / most * BAR_WIDTH).round() as usize);
        format!("{start}  {bar} {}", grouped(won.round() as u64))
    }));
    lines.join("\n")
}

/// Renders what becomes different with each value: in all, and how much is won of each prize.
pub(super) fn compare(path: &str, forecasts: &[(String, Forecast)]) -> String {
    let has_guarantees = forecasts
        .iter()
        .any(|(_, forecast)| forecast.guaranteed.high > 0.0);
    let guaranteed = has_guarantees.then_some(("users with a guarantee", Side::Right));
    let has_caps = forecasts.iter().any(|(_, forecast)| has_caps(forecast));
    let of_caps = has_caps.then_some(("users at a cap", Side::Left));
    let columns = [
        (path, Side::Right),
        ("draws", Side::Right),
        ("won", Side::Right),
        ("users who win", Side::Right),
    ];
    let more = [
        ("users at a limit", Side::Right),
        ("cost", Side::Left),
        ("runs out", Side::Left),
    ];
    let columns = columns.into_iter().chain(guaranteed).chain(more);
    let mut table = Table::new(columns.chain(of_caps));
    for (value, forecast) in forecasts {
        let won = forecast
            .prizes
            .iter()
            .map(|prize| prize.won.mean)
            .sum::<f64>();
        let costs = forecast.costs.iter();
        let costs: Vec<String> = costs
            .map(|cost| format!("{} {}", cost.currency, ranged(cost.total, money)))
            .collect();
        let out = forecast.prizes.iter().filter(|prize| prize.runs_out > 0.0);
        let out: Vec<String> = out
            .map(|prize| format!("{} {}", prize.prize_id, percent(prize.runs_out)))
            .collect();
        let cells = [
            value.clone(),
            whole(forecast.draws),
            grouped(won.round() as u64),
            whole(forecast.winners),
        ];
        let more = [whole(forecast.limited), costs.join(" + "), out.join(", ")];
        let guaranteed = has_guarantees.then(|| whole(forecast.guaranteed));
        let at_caps = has_caps.then(|| at_caps(forecast));
        table.row(
            cells
                .into_iter()
                .chain(guaranteed)
                .chain(more)
                .chain(at_caps),
        );
    }
    format!("{}\n\n{}", table.render(), won_by_prize(forecasts))
}

/// Users at the cap of each prize that has one, e.g. `voucher 120 (100–140); mug 7`.
fn at_caps(forecast: &Forecast) -> String {
    let prizes = forecast.prizes.iter();
    let texts = prizes.filter_map(|prize| {
        let users = at_cap(prize, whole)?;
        Some(format!("{} {users}", prize.prize_id))
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// How much is won of each prize with each value.
fn won_by_prize(forecasts: &[(String, Forecast)]) -> String {
    let values = forecasts.iter().map(|(value, _)| (&value[..], Side::Right));
    let mut table = Table::new([("won with", Side::Left)].into_iter().chain(values));
    let prizes = forecasts.first().map_or(0, |(_, it)| it.prizes.len());
    for index in 0..prizes {
        let of = |(_, forecast): &(String, Forecast)| whole(forecast.prizes[index].won);
        let name = forecasts[0].1.prizes[index].prize_id.clone();
        table.row([name].into_iter().chain(forecasts.iter().map(of)));
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_the_same_in_all_runs_has_no_range() {
        let same = Spread {
            mean: 1200.0,
            low: 1200.0,
            high: 1200.0,
        };
        assert_eq!(whole(same), "1,200");
        let spread = Spread {
            mean: 1200.4,
            low: 1150.0,
            high: 1260.0,
        };
        assert_eq!(whole(spread), "1,200 (1,150–1,260)");
        assert_eq!(ranged(same, money), "1,200.00");
    }

    #[test]
    fn a_long_campaign_has_few_bars() {
        let span = |won: f64| Span {
            start: "2026-12-01T20:00+08:00".into(),
            draws: Spread::default(),
            won: Spread {
                mean: won,
                ..Spread::default()
            },
            cost: Default::default(),
            budget_reached: None,
        };
        let bars = chart(&(0..100).map(|_| span(5.0)).collect::<Vec<_>>());
        assert_eq!(bars.lines().count(), 1 + 25);
        assert!(bars.ends_with("█ 20"), "{bars}");
        assert_eq!(chart(&[span(0.0)]), "nothing is won");
    }
}
