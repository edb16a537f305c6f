//! Charts as SVG. Each has a name and a table with the same numbers beside it; colours come from
//! the style sheet.

use maud::{Markup, html};

use super::ui::number;

/// A part of a whole.
pub(super) struct Part<'a> {
    /// The class of its colour.
    pub(super) class: &'static str,
    pub(super) name: &'a str,
    pub(super) units: u64,
}

/// Where all units are, as one bar. Parts without units are left out; so is the bar if there are
/// none at all.
pub(super) fn shares(key: &str, name: &str, parts: &[Part<'_>]) -> Markup {
    const WIDTH: f64 = 1000.0;
    let all: u64 = parts.iter().map(|part| part.units).sum();
    let text = parts.iter().filter(|part| part.units > 0);
    let text = text.map(|part| format!("{} {}", part.name, number(part.units)));
    let text = text.collect::<Vec<_>>().join(", ");
    let mut start = 0.0;
    html! {
        svg.shares data-live=(key) viewBox="0 0 1000 12" preserveAspectRatio="none" role="img"
            aria-label={ (name) ": " (text) }
        {
            @if all == 0 { rect.none x="0" y="0" width="1000" height="12" {} }
            @for part in parts.iter().filter(|part| part.units > 0) {
                @let width = WIDTH * part.units as f64 / all as f64;
                rect class=(part.class) x=(rounded(start)) width=(rounded(width)) height="12" {
                    title { (part.name) ": " (number(part.units)) }
                }
                @let () = start += width;
            }
        }
    }
}

/// The legend of such bars.
pub(super) fn legend(parts: &[(&'static str, &str)]) -> Markup {
    html! {
        ul.legend {
            @for (class, name) in parts {
                li { svg viewBox="0 0 10 10" aria-hidden="true" {
                    rect class=(class) width="10" height="10" rx="2" {}
                } (name) }
            }
        }
    }
}

/// The legend of lines, which differ by their dashes, too.
pub(super) fn line_legend(lines: &[Line<'_>]) -> Markup {
    html! {
        ul.legend.curve {
            @for line in lines {
                li { svg.line viewBox="0 0 34 10" aria-hidden="true" {
                    polyline class=(line.class) points="1,5 33,5" {}
                } (line.name) }
            }
        }
    }
}

/// An hour of a day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hour {
    /// `20:00`.
    pub(super) label: String,
    /// Units that the plan gives it, with what it took over from missed hours.
    pub(super) planned: u64,
    pub(super) injected: u64,
    pub(super) released: u64,
    pub(super) won: u64,
}

/// The hours of a day as bars: planned behind, then injected, then released, then won.
pub(super) fn hours(name: &str, words: [&str; 4], hours: &[Hour]) -> Markup {
    const WIDTH: f64 = 760.0;
    const HEIGHT: f64 = 240.0;
    const LEFT: f64 = 56.0;
    const BOTTOM: f64 = 28.0;
    let most = hours
        .iter()
        .map(|hour| hour.planned.max(hour.injected).max(hour.released))
        .max();
    let top = nice(most.unwrap_or_default());
    let (inner, base) = (WIDTH - LEFT, HEIGHT - BOTTOM);
    let step = inner / hours.len().max(1) as f64;
    let height = |units: u64| (base - 12.0) * units as f64 / top as f64;
    let every = hours.len().div_ceil(12).max(1);
    html! {
        svg.hours viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(name) {
            @for quarter in 0..=4_u64 {
                @let units = top * quarter / 4;
                @let y = base - height(units);
                line.grid x1=(LEFT) x2=(WIDTH) y1=(rounded(y)) y2=(rounded(y)) {}
                text.axis x=(LEFT - 8.0) y=(rounded(y + 4.0)) text-anchor="end" {
                    (number(units))
                }
            }
            @for (index, hour) in hours.iter().enumerate() {
                @let x = LEFT + step * index as f64;
                g {
                    title {
                        (hour.label)
                        @let all = [hour.planned, hour.injected, hour.released, hour.won];
                        @for (word, units) in words.iter().zip(all) {
                            " · " (word) " " (number(units))
                        }
                    }
                    @for (class, units, inset) in [
                        ("planned", hour.planned, 0.1),
                        ("injected", hour.injected, 0.16),
                        ("released", hour.released, 0.22),
                        ("won", hour.won, 0.28),
                    ] {
                        @let tall = height(units);
                        rect class=(class) x=(rounded(x + step * inset)) y=(rounded(base - tall))
                            width=(rounded(step * (1.0 - 2.0 * inset))) height=(rounded(tall))
                            rx="2" {}
                    }
                }
                @if index % every == 0 {
                    text.axis x=(rounded(x + step / 2.0)) y=(HEIGHT - 8.0) text-anchor="middle" {
                        (hour.label)
                    }
                }
            }
        }
    }
}

/// A line of a curve: its points by minute, in order.
pub(super) struct Line<'a> {
    /// The class of its colour and dashes.
    pub(super) class: &'static str,
    pub(super) name: &'a str,
    pub(super) points: Vec<(i64, u64)>,
}

/// Lines over time. A minute that is not there is a gap.
pub(super) fn curve(name: &str, lines: &[Line<'_>], label: impl Fn(i64) -> String) -> Markup {
    const WIDTH: f64 = 760.0;
    const HEIGHT: f64 = 200.0;
    const LEFT: f64 = 56.0;
    const BOTTOM: f64 = 28.0;
    let points = || lines.iter().flat_map(|line| &line.points);
    let first = points().map(|(minute, _)| *minute).min().unwrap_or(0);
    let last = points().map(|(minute, _)| *minute).max().unwrap_or(0);
    let top = nice(points().map(|(_, value)| *value).max().unwrap_or(0));
    // The label of the last minute reaches beyond it.
    let (inner, base) = (WIDTH - LEFT - 44.0, HEIGHT - BOTTOM);
    let length = (last - first).max(1);
    let x = |minute: i64| LEFT + inner * (minute - first) as f64 / length as f64;
    let y = |value: u64| base - (base - 12.0) * value as f64 / top as f64;
    let every = usize::try_from(length / 6).unwrap_or(1).max(1);
    html! {
        svg.hours.curve viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(name) {
            @for quarter in 0..=4_u64 {
                @let value = top * quarter / 4;
                line.grid x1=(LEFT) x2=(WIDTH) y1=(rounded(y(value))) y2=(rounded(y(value))) {}
                text.axis x=(LEFT - 8.0) y=(rounded(y(value) + 4.0)) text-anchor="end" {
                    (number(value))
                }
            }
            @for minute in (first..=last).step_by(every) {
                text.axis x=(rounded(x(minute))) y=(HEIGHT - 8.0) text-anchor="middle" {
                    (label(minute))
                }
            }
            @for line in lines {
                @for part in line.points.chunk_by(|a, b| b.0 == a.0 + 1) {
                    @let corners = part.iter().map(|(minute, value)| {
                        format!("{},{}", rounded(x(*minute)), rounded(y(*value)))
                    });
                    polyline class=(line.class)
                        points=(corners.collect::<Vec<_>>().join(" ")) {}
                }
            }
        }
    }
}

/// The end of an axis: a number of four equal, round steps.
fn nice(most: u64) -> u64 {
    let mut unit: u64 = 4;
    loop {
        for factor in [1, 2, 5] {
            match unit.checked_mul(factor) {
                Some(top) if top >= most => return top,
                Some(_) => {}
                None => return most,
            }
        }
        unit = unit.saturating_mul(10);
    }
}

/// A coordinate with one decimal.
fn rounded(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let tops = [0, 4, 5, 9, 21, 400, 401, 2_000, 2_001].map(nice);
        assert_eq!(tops, [4, 4, 8, 20, 40, 400, 800, 2_000, 4_000]);
        assert_eq!(nice(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_curve_breaks_where_minutes_are_missing() {
        let line = Line {
            class: "won",
            name: "wins",
            points: vec![(10, 0), (11, 4), (14, 2), (15, 2)],
        };
        let curve = curve("c", &[line], |minute| format!("m{minute}")).into_string();
        assert_eq!(curve.matches("<polyline").count(), 2, "{curve}");
        assert!(
            curve.contains("points=\"56.0,172.0 188.0,12.0\""),
            "{curve}"
        );
        assert!(curve.contains("m10") && curve.contains("m15"), "{curve}");
    }

    #[test]
    fn a_bar_has_its_numbers_as_text_and_nothing_without_units() {
        let part = |name, units| Part {
            class: "won",
            name,
            units,
        };
        let bar = shares("k", "mug", &[part("left", 0), part("won", 1_500)]).into_string();
        assert!(bar.contains("aria-label=\"mug: won 1,500\""), "{bar}");
        assert_eq!(bar.matches("<rect").count(), 1);
        let none = shares("k", "mug", &[part("won", 0)]).into_string();
        assert!(none.contains("class=\"none\""), "{none}");
    }
}
