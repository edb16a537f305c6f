//! The figures as one HTML page: curves of latency and of throughput over time, and the tables. It
//! needs no other file and no script.

use tombola::model::text::grouped;

use crate::{
    figures::{Figures, Series},
    record::SLICE,
    table,
};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 12.0;
/// The largest number of points in a curve.
const POINTS_MAX: usize = 400;
/// One colour per curve, chosen so that colour-blind readers can distinguish them (Okabe and Ito).
/// Further curves use the same colours with dashed lines.
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a8a00",
];

const STYLE: &str = "\
    body{font:15px/1.5 system-ui,sans-serif;max-width:62em;margin:2em auto;padding:0 1em;\
    color:#222}h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}pre{overflow-x:auto;\
    background:#f6f6f6;padding:1em;font-size:13px}svg{width:100%;height:auto}text{\
    font:12px system-ui,sans-serif;fill:#444}.grid{stroke:#ddd}.curve{fill:none;\
    stroke-width:1.6}ul{list-style:none;padding:0;columns:3}li::before{content:'';\
    display:inline-block;width:1.6em;margin-right:.5em;vertical-align:middle;\
    border-top:3px solid var(--colour)}li.dashed::before{border-top-style:dashed}";

/// Renders the page.
pub(crate) fn render(figures: &Figures) -> String {
    let names: Vec<String> = figures.series.iter().map(name).collect();
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    page +=
        "<meta name=\"viewport\" content=\"width=device-width\">\n<title>tombola-bench</title>\n";
    let mut add = |part: &str| {
        page += part;
        page.push('\n');
    };
    add(&format!("<style>{STYLE}</style>\n<h1>tombola-bench</h1>"));
    add(&legend(&names));
    add("<h2>Latency in milliseconds, by percentile</h2>");
    add(&latencies(&figures.series));
    add(
        "<h2>Calls answered a second, over time</h2>\n<p>Rounds one after the other, in \
         seconds.</p>",
    );
    add(&throughput(&figures.series));
    add("<h2>Figures</h2>");
    add(&format!("<pre>{}</pre>", escaped(&table::render(figures))));
    page
}

fn name(series: &Series) -> String {
    format!("{} on {}", series.label(), series.store)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn colour(index: usize) -> (&'static str, bool) {
    (COLOURS[index % COLOURS.len()], index >= COLOURS.len())
}

fn legend(names: &[String]) -> String {
    let items = names.iter().enumerate().map(|(index, name)| {
        let (colour, dashed) = colour(index);
        let class = if dashed { " class=\"dashed\"" } else { "" };
        format!(
            "<li{class} style=\"--colour:{colour}\">{}</li>",
            escaped(name)
        )
    });
    format!("<ul>{}</ul>", items.collect::<String>())
}

/// A drawing with axes; coordinates are between 0 and 1.
struct Drawing(String);

impl Drawing {
    fn new(label: &str) -> Self {
        Self(format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
            escaped(label)
        ))
    }

    fn point(x: f64, y: f64) -> (f64, f64) {
        let (across, up) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        (
            LEFT + x.clamp(0.0, 1.0) * across,
            TOP + (1.0 - y.clamp(0.0, 1.0)) * up,
        )
    }

    fn down(&mut self, x: f64, text: &str) {
        let ((x, y), (_, top)) = (Self::point(x, 0.0), Self::point(x, 1.0));
        self.add(&format!(
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{x:.1}\" \
             y2=\"{top:.1}\"/><text x=\"{x:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{text}</text>",
            y + 18.0
        ));
    }

    fn across(&mut self, y: f64, text: &str) {
        let ((x, y), (end, _)) = (Self::point(0.0, y), Self::point(1.0, y));
        self.add(&format!(
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{end:.1}\" \
             y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            x - 6.0,
            y + 4.0
        ));
    }

    fn curve(&mut self, index: usize, points: impl Iterator<Item = (f64, f64)>) {
        let (colour, dashed) = colour(index);
        let dash = if dashed {
            " stroke-dasharray=\"6 4\""
        } else {
            ""
        };
        let mut text = String::new();
        for (x, y) in points {
            let (x, y) = Self::point(x, y);
            text += &format!("{x:.1},{y:.1} ");
        }
        self.add(&format!(
            "<polyline class=\"curve\" stroke=\"{colour}\"{dash} points=\"{}\"/>",
            text.trim_end()
        ));
    }

    fn add(&mut self, part: &str) {
        self.0 += part;
        self.0.push('\n');
    }

    fn done(mut self) -> String {
        self.0 += "</svg>";
        self.0
    }
}

/// Both axes are logarithmic. The horizontal axis is the share of slower calls, the vertical axis
/// milliseconds.
fn latencies(series: &[Series]) -> String {
    const NINES: f64 = 5.0;
    let across = |percentile: f64| -(1.0 - percentile / 100.0).max(1e-6).log10() / NINES;
    let all = || {
        series
            .iter()
            .flat_map(|one| &one.percentiles)
            .map(|(_, micros)| *micros as f64)
    };
    let low = all().fold(f64::INFINITY, f64::min).max(1.0).log10().floor();
    let high = all().fold(10.0, f64::max).log10().ceil();
    let low = if low.is_finite() {
        low.min(high - 1.0)
    } else {
        0.0
    };
    let up = |micros: f64| (micros.max(1.0).log10() - low) / (high - low);
    let mut drawing = Drawing::new("latency by percentile");
    for (percentile, text) in [
        (0.0, "0"),
        (90.0, "p90"),
        (99.0, "p99"),
        (99.9, "p99.9"),
        (99.99, "p99.99"),
    ] {
        drawing.down(across(percentile), text);
    }
    for power in (low as i32)..=(high as i32) {
        let micros = 10f64.powi(power);
        drawing.across(up(micros), &format!("{} ms", micros / 1000.0));
    }
    for (index, one) in series.iter().enumerate() {
        let points = one.percentiles.iter();
        drawing.curve(
            index,
            points.map(|(percentile, micros)| (across(*percentile), up(*micros as f64))),
        );
    }
    drawing.done()
}

fn throughput(series: &[Series]) -> String {
    let slices = |one: &Series| -> Vec<f64> {
        one.rounds
            .iter()
            .flat_map(|round| round.over_time.iter().copied())
            .collect()
    };
    let all: Vec<Vec<f64>> = series.iter().map(slices).collect();
    let most = all.iter().flatten().copied().fold(1.0, f64::max);
    let longest = all.iter().map(Vec::len).max().unwrap_or(0).max(2);
    let step = nice(most / 5.0);
    let top = (most / step).ceil() * step;
    let mut drawing = Drawing::new("calls a second over time");
    let seconds = longest as f64 * SLICE.as_secs_f64();
    let second = nice(seconds / 8.0);
    let mut at = 0.0;
    while at <= seconds {
        drawing.down(at / seconds, &format!("{} s", (at * 100.0).round() / 100.0));
        at += second;
    }
    let mut at = 0.0;
    while at <= top {
        drawing.across(at / top, &grouped(at as u64));
        at += step;
    }
    for (index, one) in all.iter().enumerate() {
        let points = one
            .chunks(longest.div_ceil(POINTS_MAX))
            .enumerate()
            .map(|(chunk, some)| {
                let mean = some.iter().sum::<f64>() / some.len() as f64;
                let middle =
                    (chunk * longest.div_ceil(POINTS_MAX)) as f64 + some.len() as f64 / 2.0;
                (middle / longest as f64, mean / top)
            });
        drawing.curve(index, points);
    }
    drawing.done()
}

/// The smallest of 1, 2 or 5 times a power of ten that is not less than `least`.
fn nice(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-3).log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * power >= least);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_nice() {
        assert_eq!(nice(3.0), 5.0);
        assert_eq!(nice(1200.0), 2000.0);
        assert_eq!(nice(0.7).to_string(), "1");
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escaped("<script>&"), "&lt;script&gt;&amp;");
    }
}
