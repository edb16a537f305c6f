//! The grid of hours or days and prizes, and the forms that paint it.
//!
//! Cells are check boxes, so that the grid works without scripts; `plan.js` selects rectangles of
//! them by mouse and keyboard.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{Span, civil::Date};
use maud::{Markup, html};

use super::{
    super::{definition, fields::Fields, prize_name},
    canvas::{Canvas, Row, View, pools},
};
use crate::{
    console::{
        assets,
        i18n::Language,
        ui::{self, number},
        visit::Visit,
    },
    model::{PrizeNo, Quantities, schedule::Schedule},
    proto::CampaignStatus,
};

/// Units injected by local hour (`2026-11-29T20`) and prize.
pub(super) type Injected = BTreeMap<(String, String), u64>;

const WEEKDAYS: [&str; 7] = [
    "weekday.1",
    "weekday.2",
    "weekday.3",
    "weekday.4",
    "weekday.5",
    "weekday.6",
    "weekday.7",
];

/// The address of the editor.
pub(super) fn path(canvas: &Canvas) -> String {
    format!("/campaigns/{}/plan", canvas.campaign.id)
}

/// What every form carries: where the editor is, and the draft.
pub(super) fn state(canvas: &Canvas) -> Markup {
    html! {
        input type="hidden" name="pool" value=(canvas.pool_id());
        input type="hidden" name="at" value=(canvas.view.text());
        input type="hidden" name="base" value=(canvas.status.version);
        input type="hidden" name="draft" value=(canvas.encoded(&canvas.draft));
        @if let Some(last) = &canvas.last {
            input type="hidden" name="last" value=(canvas.encoded(last));
        }
        @for no in &canvas.with {
            input type="hidden" name="with" value=(canvas.campaign.prize(*no).id);
        }
    }
}

/// A form of the editor. With scripts the page is not loaded again.
pub(super) fn form(canvas: &Canvas, contents: &Markup) -> Markup {
    let path = path(canvas);
    html! {
        form method="post" action=(path) hx-post=(path) hx-target="#main" hx-select="#main"
            hx-swap="outerHTML show:none"
        { (contents) }
    }
}

/// The grid with all that paints it.
pub(super) fn editor(
    visit: &Visit,
    canvas: &Canvas,
    fields: &Fields,
    injected: &Injected,
) -> Markup {
    let lang = visit.language;
    html! {
        section.card.plan data-draft[canvas.is_changed()] {
            h2 { (lang.with("plan.title", canvas.pool_id())) }
            (choice(visit, canvas))
            (form(canvas, &html! {
                (state(canvas))
                div.line {
                    (act(lang, fields, "cells"))
                    button.primary #plan-paint name="do" value="cells" type="submit" {
                        (lang.t("plan.paint"))
                    }
                    span.hint role="status" data-selected=(lang.t("plan.selected")) {}
                }
                (calendar(lang, canvas))
                (table(lang, canvas, fields, injected))
            }))
            p.hint { (lang.t("plan.hint")) }
            p.hint { (lang.t("plan.keys")) }
        }
        (range(lang, canvas, fields))
        (copy(lang, canvas, fields))
        script src=(assets::address("plan.js")) defer {}
    }
}

/// Other pools, and prizes that the pool does not plan yet.
fn choice(visit: &Visit, canvas: &Canvas) -> Markup {
    let lang = visit.language;
    let (campaign, _) = definition(&canvas.status);
    let at = canvas.view.text();
    let shown = canvas.columns();
    let others = canvas.campaign.numbered_prizes();
    let others: Vec<_> = others
        .filter(|(no, _)| !shown.contains(no) && !canvas.in_force.total.contains_key(no))
        .collect();
    html! {
        @if canvas.is_changed() {
            p.hint { (lang.t("plan.one-pool")) }
        } @else if pools(&campaign).count() > 1 {
            nav.filters aria-label=(lang.t("plan.pools")) {
                @for pool in pools(&campaign) {
                    a href=(ui::address(&path(canvas), &[("pool", &pool.id), ("at", &at)]))
                        aria-current=[(pool.id == canvas.pool_id()).then_some("true")]
                    { (pool.id) }
                }
            }
        }
        @if !canvas.in_force.total.is_empty() { p.hint { (lang.t("plan.totals")) } }
        @if !others.is_empty() {
            (form(canvas, &html! {
                (state(canvas))
                div.line {
                    label { (lang.t("plan.more-prizes"))
                        select name="with" {
                            @for (_, prize) in others { option value=(prize.id) { (prize.id) } }
                        }
                    }
                    button #plan-with type="submit" { (lang.t("plan.add-prize")) }
                }
            }))
        }
    }
}

/// What becomes of cells: the fields `op` and `value`.
fn act(lang: Language, fields: &Fields, name: &str) -> Markup {
    let is_own = fields.get("do") == name;
    let ops = [
        ("set", lang.t("plan.set")),
        ("add", lang.t("plan.add")),
        ("multiply", lang.t("plan.multiply")),
    ];
    html! {
        label { (lang.t("plan.op"))
            select name="op" {
                @for (op, text) in ops {
                    option value=(op) selected[is_own && fields.get("op") == op] { (text) }
                }
            }
        }
        label { (lang.t("plan.units"))
            input id={ "value-" (name) } name="value" inputmode="decimal" autocomplete="off"
                maxlength="20" value=[is_own.then(|| fields.get("value"))];
        }
    }
}

/// The way to another month or day. It keeps the draft; while there is none it is a link, so that
/// each month and each day has an address.
fn go(canvas: &Canvas, view: View, text: &Markup) -> Markup {
    let at = view.text();
    let id = format!("go-{at}");
    if canvas.is_changed() || canvas.last.is_some() {
        return html! {
            button.quiet id=(id) name="go" value=(at) type="submit" { (text) }
        };
    }
    let with = canvas.with.iter();
    let with = with.map(|no| canvas.campaign.prize(*no).id.as_str());
    let mut query = vec![("pool", canvas.pool_id()), ("at", at.as_str())];
    query.extend(with.map(|id| ("with", id)));
    html! { a.button.quiet id=(id) href=(ui::address(&path(canvas), &query)) { (text) } }
}

/// The ways to other months and days.
fn calendar(lang: Language, canvas: &Canvas) -> Markup {
    let (first, last) = canvas.days();
    let go = |text: &str, view: View| go(canvas, view, &html! { (text) });
    let day = |day: Date, text: &str| {
        html! { @if day >= first && day <= last { (go(text, View::Day(day))) } }
    };
    html! {
        div.month {
            @match canvas.view {
                View::Day(shown) => {
                    (day(shown.yesterday().unwrap_or(shown), lang.t("plan.day-before")))
                    strong { (shown) " " (weekday(lang, shown)) }
                    (day(shown.tomorrow().unwrap_or(shown), lang.t("plan.day-after")))
                    (go(lang.t("plan.month"), View::Month(shown.first_of_month())))
                }
                View::Month(shown) => {
                    @let before = shown.checked_sub(Span::new().months(1)).unwrap_or(shown);
                    @let after = shown.checked_add(Span::new().months(1)).unwrap_or(shown);
                    @if before.last_of_month() >= first {
                        (go(lang.t("schedule.month-before"), View::Month(before)))
                    }
                    strong { (shown.strftime("%Y-%m")) }
                    @if after <= last { (go(lang.t("schedule.month-after"), View::Month(after))) }
                }
            }
        }
    }
}

/// The short name of the day of the week.
fn weekday(lang: Language, day: Date) -> &'static str {
    let index = usize::from(day.weekday().to_monday_zero_offset().unsigned_abs());
    lang.t(WEEKDAYS[index])
}

fn table(lang: Language, canvas: &Canvas, fields: &Fields, injected: &Injected) -> Markup {
    let (campaign, _) = definition(&canvas.status);
    let (rows, columns) = (canvas.rows(), canvas.columns());
    let selected: BTreeSet<&str> = fields.all("cell").collect();
    let name = lang.t("plan.grid");
    html! {
        (ui::scroll(name, &html! { table.plan-grid data-grid {
            caption.hidden { (name) }
            thead { tr {
                th scope="col" {
                    @match canvas.view {
                        View::Day(_) => { (lang.t("schedule.hour")) }
                        View::Month(_) => { (lang.t("plan.day")) }
                    }
                }
                @for no in &columns {
                    @let id = canvas.campaign.prize(*no).id.as_str();
                    th.n scope="col" { (prize_name(&campaign, id)) }
                }
            } }
            tbody { @for row in &rows {
                @let before = units(canvas, &canvas.in_force, row);
                @let after = units(canvas, &canvas.draft, row);
                tr {
                    th scope="row" { (row_name(lang, canvas, row)) }
                    @for no in &columns {
                        @let of = |units: &Quantities| units.get(no).copied().unwrap_or(0);
                        @let value = format!("{}.{}", row.number, no.0);
                        @let is_selected = selected.contains(value.as_str());
                        @let cell = Cell {
                            value,
                            is_selected,
                            before: of(&before),
                            after: of(&after),
                            injected: injected_in(canvas, injected, row, *no),
                        };
                        (cell.shown(lang, canvas, row, *no))
                    }
                }
            } }
        } }))
    }
}

/// The name of a row. A day leads to its hours.
fn row_name(lang: Language, canvas: &Canvas, row: &Row) -> Markup {
    html! {
        @match canvas.view {
            View::Day(_) => { (format!("{:02}:00", row.number)) }
            View::Month(_) => {
                (go(canvas, View::Day(row.day), &html! {
                    span.hidden { (row.day.strftime("%Y-%m-")) }
                    (row.day.strftime("%d")) " " (weekday(lang, row.day))
                }))
            }
        }
    }
}

/// What a schedule plans in a row.
fn units(canvas: &Canvas, schedule: &Schedule, row: &Row) -> Quantities {
    match canvas.view {
        View::Day(day) => schedule.of_hour(day.at(row.number, 0, 0, 0)),
        View::Month(_) => {
            let begin = canvas.begin(row.day).max(canvas.campaign.start);
            let next = canvas.begin(row.day.tomorrow().unwrap_or(row.day));
            schedule.sum(&canvas.campaign.zone, begin, next.min(canvas.campaign.end))
        }
    }
}

fn injected_in(canvas: &Canvas, injected: &Injected, row: &Row, no: PrizeNo) -> u64 {
    let hour = format!("{}T{:02}", row.day, row.number);
    let key = (hour, canvas.campaign.prize(no).id.to_string());
    injected.get(&key).copied().unwrap_or(0)
}

/// A cell of the grid.
struct Cell {
    value: String,
    is_selected: bool,
    before: u64,
    after: u64,
    injected: u64,
}

impl Cell {
    fn shown(&self, lang: Language, canvas: &Canvas, row: &Row, no: PrizeNo) -> Markup {
        let is_over = row.hours.is_empty();
        let is_changed = self.before != self.after;
        let prize = canvas.campaign.prize(no);
        let place = match canvas.view {
            View::Day(_) => format!("{:02}:00", row.number),
            View::Month(_) => row.day.to_string(),
        };
        let name = format!("{place} {}: {}", prize.id, number(self.after));
        html! {
            td.n.changed[is_changed] {
                label.cell {
                    input id={ "cell-" (self.value) } type="checkbox" name="cell"
                        value=(self.value) aria-label=(name) disabled[is_over]
                        checked[self.is_selected && !is_over];
                    span { (number(self.after)) }
                }
                @if is_changed {
                    small { (lang.with("plan.was", &number(self.before))) }
                }
                @if self.injected > 0 {
                    small { (lang.with("plan.is-injected", &number(self.injected))) }
                }
            }
        }
    }
}

/// Paints hours of several days; it works without scripts and without the grid.
fn range(lang: Language, canvas: &Canvas, fields: &Fields) -> Markup {
    let columns = canvas.columns();
    let hours = |name: &str, label: &str, range: std::ops::RangeInclusive<u8>, chosen: u8| {
        let chosen = fields.parsed(name).unwrap_or(chosen);
        html! {
            label { (label)
                select name=(name) {
                    @for hour in range {
                        option value=(hour) selected[hour == chosen] { (format!("{hour:02}:00")) }
                    }
                }
            }
        }
    };
    html! {
        details.card open[fields.get("do") == "range"] {
            summary { (lang.t("plan.range")) }
            (form(canvas, &html! {
                (state(canvas))
                input type="hidden" name="do" value="range";
                div.line {
                    (dates(lang, canvas, fields))
                    (hours("begin", lang.t("plan.begin"), 0..=23, 0))
                    (hours("end", lang.t("plan.end"), 1..=24, 24))
                    label { (lang.t("units.prize"))
                        select name="prize" {
                            option value="all" { (lang.t("plan.all-prizes")) }
                            @for no in columns {
                                option value=(no.0) selected[fields.parsed("prize") == Some(no.0)] {
                                    (canvas.campaign.prize(no).id)
                                }
                            }
                        }
                    }
                    (act(lang, fields, "range"))
                    button.primary #plan-range type="submit" { (lang.t("plan.paint-range")) }
                }
            }))
        }
    }
}

/// The fields `from` and `until`.
fn dates(lang: Language, canvas: &Canvas, fields: &Fields) -> Markup {
    let (first, last) = canvas.days();
    let shown = match canvas.view {
        View::Day(day) => (day, day),
        View::Month(month) => (month.max(first), month.last_of_month().min(last)),
    };
    let date = |name: &str, label: &str, shown: Date| {
        let value = fields.parsed(name).unwrap_or(shown);
        html! {
            label { (label)
                input type="date" name=(name) value=(value) min=(first) max=(last) required;
            }
        }
    };
    html! {
        (date("from", lang.t("plan.from"), shown.0))
        (date("until", lang.t("plan.until"), shown.1))
    }
}

/// Makes other days like one day.
fn copy(lang: Language, canvas: &Canvas, fields: &Fields) -> Markup {
    let (first, last) = canvas.days();
    let shown = match canvas.view {
        View::Day(day) => day,
        View::Month(month) => month.max(first),
    };
    let is_own = fields.get("do") == "copy";
    let chosen: Vec<&str> = fields.all("weekday").collect();
    html! {
        details.card open[is_own] {
            summary { (lang.t("plan.copy")) }
            (form(canvas, &html! {
                (state(canvas))
                input type="hidden" name="do" value="copy";
                div.line {
                    label { (lang.t("plan.copied-day"))
                        input type="date" name="day" min=(first) max=(last) required
                            value=(fields.parsed("day").unwrap_or(shown));
                    }
                    (dates(lang, canvas, fields))
                    fieldset.weekdays {
                        legend { (lang.t("plan.weekdays")) }
                        @for (number, key) in (1..).zip(WEEKDAYS) {
                            @let number: i32 = number;
                            @let value = number.to_string();
                            @let is_on = !is_own || chosen.contains(&value.as_str());
                            label {
                                input type="checkbox" name="weekday" value=(value) checked[is_on];
                                (lang.t(key))
                            }
                        }
                    }
                    button.primary #plan-copy type="submit" { (lang.t("plan.copy-submit")) }
                }
                p.hint { (lang.t("plan.copy-hint")) }
            }))
        }
    }
}

/// Somebody has changed the campaign since the draft was begun.
pub(super) fn stale(visit: &Visit, status: &CampaignStatus, base: u32, fields: &Fields) -> Markup {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let path = format!("/campaigns/{}/plan", campaign.id);
    let query = [("pool", fields.get("pool")), ("at", fields.get("at"))];
    let newer = status
        .versions
        .iter()
        .filter(|version| version.version > base);
    html! {
        section.card {
            h2 { (lang.t("plan.stale")) }
            (ui::notice("warn", &html! { (lang.with("plan.stale-text", &base.to_string())) }))
            ul { @for version in newer {
                li {
                    (lang.with("campaign.version", &version.version.to_string())) " · "
                    (ui::time(version.apply_time.as_ref(), &zone)) " · " (version.operator)
                    @if !version.reason.is_empty() { ": " (version.reason) }
                }
            } }
            div.line {
                form method="post" action=(path) {
                    @for name in ["pool", "at", "base", "draft", "reason"] {
                        input type="hidden" name=(name) value=(fields.get(name));
                    }
                    @for id in fields.all("with") {
                        input type="hidden" name="with" value=(id);
                    }
                    input type="hidden" name="do" value="rebase";
                    button.primary #plan-rebase type="submit" {
                        (lang.with("plan.rebase", &status.version.to_string()))
                    }
                }
                a.button href=(ui::address(&path, &query)) { (lang.t("plan.discard")) }
            }
        }
    }
}
