//! Draws, wins and consolations a minute in the last hour: a chart, and the same as a table.

use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};

use crate::console::{
    charts::{self, Line},
    i18n::Language,
    rates::Minute,
    ui::{self, number},
};

/// The curve; nothing before two minutes are known.
pub(super) fn shown(lang: Language, curve: &[Minute], zone: &TimeZone) -> Markup {
    let lines = [
        ("drawn", lang.t("sum.draws"), of(curve, |it| it.draws)),
        ("won", lang.t("sum.wins"), of(curve, |it| it.wins)),
        (
            "held",
            lang.t("sum.consolations"),
            of(curve, |it| it.consolations),
        ),
    ];
    let lines = lines.map(|(class, name, points)| Line {
        class,
        name,
        points,
    });
    let legend = [0, 1, 2].map(|index: usize| (lines[index].class, lines[index].name));
    let name = lang.t("curve.title");
    html! {
        section.card {
            h2 { (name) }
            @if curve.len() < 2 { (ui::empty(&html! { p { (lang.t("curve.begins")) } })) }
            @else {
                (charts::legend(&legend))
                (ui::scroll(name, &charts::curve(name, &lines, |minute| clock(minute, zone))))
                details {
                    summary { (lang.t("curve.table")) }
                    (ui::scroll(lang.t("curve.table"), &html! { table {
                        thead { tr {
                            th scope="col" { (lang.t("list.time")) }
                            @for line in &lines { th.n scope="col" { (line.name) } }
                        } }
                        tbody { @for minute in curve.iter().rev() { tr {
                            th scope="row" { (clock(minute.minute, zone)) }
                            td.n { (number(minute.draws)) }
                            td.n { (number(minute.wins)) }
                            td.n { (number(minute.consolations)) }
                        } } }
                    } }))
                }
            }
            p.hint { (lang.t("curve.hint")) }
        }
    }
}

fn of(curve: &[Minute], value: impl Fn(&Minute) -> u64) -> Vec<(i64, u64)> {
    curve.iter().map(|it| (it.minute, value(it))).collect()
}

/// `20:07` in the campaign's zone.
fn clock(minute: i64, zone: &TimeZone) -> String {
    let at = Timestamp::from_second(minute.saturating_mul(60)).unwrap_or_default();
    at.to_zoned(zone.clone()).strftime("%H:%M").to_string()
}
