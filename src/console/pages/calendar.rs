//! The calendar of a campaign: a month with the sums of its days, and the same as a table.

use std::collections::BTreeMap;

use jiff::civil::Date;
use maud::{Markup, html};

use super::schedule::{Asked, Days, waiting};
use crate::{
    console::{
        charts::{self, Part},
        i18n::Language,
        ui::{self, number},
        visit::Visit,
    },
    proto::{Campaign, Pool, ScheduleDay, pool::Kind},
};

/// What a day has over all prizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    planned: u64,
    injected: u64,
    released: u64,
    waiting: u64,
    won: u64,
    missed: u32,
}

fn sums(day: &ScheduleDay) -> Sums {
    let mut sums = Sums {
        missed: day.missed_windows,
        ..Sums::default()
    };
    for prize in &day.prizes {
        sums.planned += prize.planned + prize.carried;
        sums.injected += prize.injected;
        sums.released += prize.released;
        sums.waiting += waiting(prize);
        sums.won += prize.won;
    }
    sums
}

/// The month of the day, with links to the days of the campaign.
pub(super) fn month(
    visit: &Visit,
    campaign: &Campaign,
    (days, asked): (&Days, &Asked),
    sums_of: &[ScheduleDay],
) -> Markup {
    let lang = visit.language;
    let first = days.day.first_of_month();
    let blanks = i32::from(first.weekday().to_monday_zero_offset());
    let of_month = (0..i64::from(days.day.days_in_month()))
        .filter_map(|offset| first.checked_add(jiff::Span::new().days(offset)).ok());
    let by_date: BTreeMap<_, _> = sums_of
        .iter()
        .map(|day| (day.local_date.as_str(), sums(day)))
        .collect();
    let path = format!("/campaigns/{}/schedule", campaign.id);
    let link = |day: Date| asked.address(&path, day);
    let before = first.yesterday().ok().filter(|day| *day >= days.first);
    let next = days.day.last_of_month().tomorrow().ok();
    let next = next.filter(|day| *day <= days.last);
    let prizes: Vec<_> = campaign.prizes.iter().map(|prize| &prize.id).collect();
    let is_schedule = |pool: &&Pool| matches!(pool.kind, Some(Kind::Schedule(_)));
    let pools = campaign.pools.iter().filter(is_schedule);
    let pools: Vec<_> = pools.map(|pool| &pool.id).collect();
    html! {
        nav.card.calendar aria-label=(lang.t("schedule.calendar")) {
            div.month {
                @if let Some(day) = before {
                    a href=(link(day)) aria-label=(lang.t("schedule.month-before")) { "‹" }
                }
                strong { (first.strftime("%Y-%m")) }
                @if let Some(day) = next {
                    a href=(link(day)) aria-label=(lang.t("schedule.month-after")) { "›" }
                }
            }
            ol.days {
                @for _ in 0..blanks { li aria-hidden="true" {} }
                @for day in of_month {
                    li {
                        @if day < days.first || day > days.last { span { (day.day()) } }
                        @else {
                            a href=(link(day)) class=[(day == days.today).then_some("today")]
                                aria-current=[(day == days.day).then_some("date")]
                            {
                                span.hidden { (day.strftime("%Y-%m-")) } (day.day())
                                @if let Some(sums) = by_date.get(day.to_string().as_str()) {
                                    (bar(lang, day, *sums))
                                }
                            }
                        }
                    }
                }
            }
            form.line method="get" {
                label { (lang.t("schedule.go"))
                    input type="date" name="day" value=(days.day.to_string())
                        min=(days.first.to_string()) max=(days.last.to_string());
                }
                (choice(lang, "prize", "units.prize", &asked.prize, &prizes))
                (choice(lang, "pool", "deck.pool", &asked.pool, &pools))
                button type="submit" { (lang.t("schedule.show")) }
            }
        }
    }
}

/// A choice among ids, if there are several.
fn choice(
    lang: Language,
    name: &str,
    label: &'static str,
    chosen: &str,
    ids: &[&String],
) -> Markup {
    html! {
        @if ids.len() > 1 {
            label { (lang.t(label))
                select name=(name) {
                    option value="" { (lang.t("list.any")) }
                    @for id in ids { option value=(id) selected[*id == chosen] { (id) } }
                }
            }
        }
    }
}

/// How much of a day's plan is won, waits, is injected with a later release, and is to come.
fn bar(lang: Language, day: Date, sums: Sums) -> Markup {
    let part = |class, name, units| Part { class, name, units };
    let injected = sums.injected.saturating_sub(sums.released);
    let parts = [
        part("won", lang.t("schedule.won"), sums.won),
        part("waiting", lang.t("units.waiting"), sums.waiting),
        part("injected", lang.t("schedule.injected"), injected),
        part(
            "left",
            lang.t("schedule.to-come"),
            sums.planned.saturating_sub(sums.released + injected),
        ),
    ];
    html! {
        (charts::shares(&format!("day:{day}"), &day.to_string(), &parts))
        @if sums.missed > 0 {
            @let missed = lang.with("schedule.missed", &sums.missed.to_string());
            span.missed title=(missed) aria-hidden="true" { "▲" }
            span.hidden { " " (missed) }
        }
    }
}

/// The same as a table.
pub(super) fn table(visit: &Visit, days: &Days, sums_of: &[ScheduleDay]) -> Markup {
    let lang = visit.language;
    let name = lang.with("schedule.month", &days.day.strftime("%Y-%m").to_string());
    html! {
        details.card {
            summary { (name) }
            @if sums_of.is_empty() { (ui::empty(&html! { p { (lang.t("schedule.no-days")) } })) }
            @else {
                (ui::scroll(&name, &html! { table {
                    thead { tr {
                        th scope="col" { (lang.t("schedule.go")) }
                        th.n scope="col" { (lang.t("schedule.planned")) }
                        th.n scope="col" { (lang.t("schedule.injected")) }
                        th.n scope="col" { (lang.t("schedule.released")) }
                        th.n scope="col" { (lang.t("units.waiting")) }
                        th.n scope="col" { (lang.t("schedule.won")) }
                        th.n scope="col" { (lang.t("schedule.missed-hours")) }
                    } }
                    tbody { @for day in sums_of {
                        @let sums = sums(day);
                        tr {
                            th scope="row" { (day.local_date) }
                            td.n { (number(sums.planned)) }
                            td.n { (number(sums.injected)) }
                            td.n { (number(sums.released)) }
                            td.n { (number(sums.waiting)) }
                            td.n { (number(sums.won)) }
                            td.n { (number(sums.missed.into())) }
                        }
                    } }
                } }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_hours_of_a_day_can_be_heard() {
        let day = Date::constant(2026, 11, 29);
        let missed = |missed| {
            let sums = Sums {
                missed,
                ..Sums::default()
            };
            bar(Language::ENGLISH, day, sums).into_string()
        };
        let heard = r#"<span class="hidden"> Hours missed: 3</span>"#;
        assert!(missed(3).contains(heard), "{}", missed(3));
        assert!(!missed(0).contains("missed"), "{}", missed(0));
    }
}
