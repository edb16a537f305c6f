//! A forecast as a page for a browser: one file with everything in it, and no script.

use std::fmt::Write as _;

use super::{
    super::output::counted,
    view::{at_cap, end, has_caps},
};
use crate::{
    model::Campaign,
    simulation::forecast::{Forecast, PrizeForecast, Spread},
};

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border-bottom: 1px solid #8886; padding: .25rem .75rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
svg { display: block; height: 12rem; width: 100%; }
.band { fill: #2a7ae233; } .won { fill: none; stroke: #2a7ae2; stroke-width: 1.5; }
.released { fill: none; stroke: #d97706; stroke-dasharray: 4 3; stroke-width: 1.5; }
.note { color: #777; }
";
/// The size of a chart, in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 200.0;

/// Renders the page.
pub(super) fn render(forecast: &Forecast, campaign: &Campaign) -> String {
    let title = format!("Simulation of {}", forecast.campaign_id);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n",
        title = escaped(&title),
    );
    let name = match campaign.name.is_empty() {
        true => String::new(),
        false => format!("{}. ", escaped(&campaign.name)),
    };
    push(
        &mut page,
        format!(
            "<p class=\"note\">{name}{}, {}. Each number is the mean of all runs; in brackets the \
         range of nine in ten. Times are local in {}.</p>\n",
            counted(forecast.users, "user"),
            counted(forecast.seeds.into(), "run"),
            escaped(&forecast.time_zone),
        ),
    );
    summary(&mut page, forecast);
    prizes(&mut page, forecast);
    for prize in &forecast.prizes {
        chart(&mut page, forecast, prize);
    }
    over_time(&mut page, forecast);
    page.push_str("</body></html>\n");
    page
}

fn push(page: &mut String, text: impl std::fmt::Display) {
    // Writing to a text cannot fail.
    let _ = write!(page, "{text}");
}

/// A text that stands in a page as it is.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn cell(spread: Spread) -> String {
    let number = |number: f64| match number.fract() == 0.0 {
        true => format!("{number:.0}"),
        false => format!("{number:.2}"),
    };
    match spread.low == spread.high && spread.low == spread.mean {
        true => number(spread.mean),
        false => format!(
            "{} ({}–{})",
            number(spread.mean),
            number(spread.low),
            number(spread.high)
        ),
    }
}

fn row<'a>(page: &mut String, tag: &str, cells: impl IntoIterator<Item = &'a str>) {
    page.push_str("<tr>");
    for cell in cells {
        push(page, format!("<{tag}>{}</{tag}>", escaped(cell)));
    }
    page.push_str("</tr>\n");
}

fn summary(page: &mut String, forecast: &Forecast) {
    page.push_str("<table>\n");
    let mut line = |name: &str, spread: Spread| row(page, "td", [name, cell(spread).as_str()]);
    line("draws", forecast.draws);
    for (limit, refused) in &forecast.refused {
        line(&format!("refused: {limit}"), *refused);
    }
    line("consolation prizes", forecast.consolations);
    line("draws without anything", forecast.nothings);
    line("users who draw", forecast.drawers);
    line("users who win", forecast.winners);
    if forecast.guaranteed.high > 0.0 {
        line("users with a guarantee", forecast.guaranteed);
    }
    line("users at a limit", forecast.limited);
    if let Some(users) = forecast.at_wins_limit {
        line("users at the limit of wins", users);
    }
    if let Some(days) = forecast.budget_days {
        line("days at the budget", days);
    }
    for cost in &forecast.costs {
        line(&format!("cost in {}", cost.currency), cost.total);
        line(&format!("{} a day", cost.currency), cost.per_day);
        line(&format!("{} a draw", cost.currency), cost.per_draw);
    }
    page.push_str("</table>\n");
}

fn prizes(page: &mut String, forecast: &Forecast) {
    page.push_str("<h2>Prizes</h2>\n<table>\n");
    let columns = [
        "prize",
        "stock",
        "released",
        "won",
        "left",
        "runs in which it runs out",
        "on average at",
        "hours unclaimed",
    ];
    let has_caps = has_caps(forecast);
    let of_caps = has_caps.then_some("users at its cap");
    row(page, "th", columns.into_iter().chain(of_caps));
    for prize in &forecast.prizes {
        let stock = match prize.unlimited {
            true => "unlimited".into(),
            false => prize.stock.to_string(),
        };
        let cells = [
            prize.prize_id.clone(),
            stock,
            cell(prize.released),
            cell(prize.won),
            cell(prize.left),
            format!("{:.1}%", prize.runs_out * 100.0),
            end(prize),
            cell(prize.unclaimed_hours),
        ];
        let at_cap = has_caps.then(|| at_cap(prize, cell).unwrap_or_else(|| "-".into()));
        let cells: Vec<String> = cells.into_iter().chain(at_cap).collect();
        row(page, "td", cells.iter().map(String::as_str));
    }
    page.push_str("</table>\n");
}

/// Units released and won, hour by hour, with the range of nine in ten runs.
fn chart(page: &mut String, forecast: &Forecast, prize: &PrizeForecast) {
    let most = prize
        .hours
        .iter()
        .flat_map(|hour| [hour.won.high, hour.released.mean]);
    let most = most.fold(1.0, f64::max);
    let last = (prize.hours.len().max(2) - 1) as f64;
    let point = |index: usize, units: f64| {
        let (x, y) = (index as f64 / last * WIDTH, HEIGHT - units / most * HEIGHT);
        format!("{x:.1},{y:.1}")
    };
    let line = |of: &dyn Fn(usize) -> f64| -> String {
        let points = (0..prize.hours.len()).map(|index| point(index, of(index)));
        points.collect::<Vec<_>>().join(" ")
    };
    let high = (0..prize.hours.len()).map(|index| point(index, prize.hours[index].won.high));
    let low = (0..prize.hours.len())
        .rev()
        .map(|index| point(index, prize.hours[index].won.low));
    let band: Vec<String> = high.chain(low).collect();
    push(
        page,
        format!(
            "<h3>{id}</h3>\n<p class=\"note\">units an hour, up to {most:.0}: won (line, with its \
         range), released (dashes)</p>\n\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"units of {id} by hour; the table has the numbers\">\
         <polygon class=\"band\" points=\"{}\"/><polyline class=\"released\" points=\"{}\"/>\
         <polyline class=\"won\" points=\"{}\"/></svg>\n",
            band.join(" "),
            line(&|index| prize.hours[index].released.mean),
            line(&|index| prize.hours[index].won.mean),
            id = escaped(&prize.prize_id),
        ),
    );
    page.push_str("<details><summary>by hour</summary><table>\n");
    row(
        page,
        "th",
        ["hour", "released", "won", "unclaimed at its end"],
    );
    for (span, hour) in forecast.hours.iter().zip(&prize.hours) {
        row(
            page,
            "td",
            [
                span.start.as_str(),
                &cell(hour.released),
                &cell(hour.won),
                &cell(hour.unclaimed),
            ],
        );
    }
    page.push_str("</table></details>\n");
}

fn over_time(page: &mut String, forecast: &Forecast) {
    page.push_str("<h2>Days</h2>\n<table>\n");
    let of_budget = forecast.budget_days.map(|_| "runs at the budget");
    let columns = ["from", "draws", "won", "cost"].into_iter();
    row(page, "th", columns.chain(of_budget));
    for span in &forecast.days {
        let costs = span.cost.iter();
        let costs: Vec<String> = costs
            .map(|(currency, cost)| format!("{currency} {cost:.2}"))
            .collect();
        let mut cells = vec![
            span.start.clone(),
            cell(span.draws),
            cell(span.won),
            costs.join(" + "),
        ];
        let reached = span.budget_reached;
        cells.extend(reached.map(|share| format!("{:.1}%", share * 100.0)));
        row(page, "td", cells.iter().map(String::as_str));
    }
    page.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_file_are_no_part_of_the_page() {
        assert_eq!(
            escaped("<script>alert('a & \"b\"')</script>"),
            "&lt;script&gt;alert(&#39;a &amp; &quot;b&quot;&#39;)&lt;/script&gt;"
        );
    }

    #[test]
    fn whole_numbers_have_no_digits_after_the_point() {
        assert_eq!(
            cell(Spread {
                mean: 2.0,
                low: 2.0,
                high: 2.0
            }),
            "2"
        );
        assert_eq!(
            cell(Spread {
                mean: 2.5,
                low: 1.0,
                high: 4.0
            }),
            "2.50 (1–4)"
        );
    }
}
