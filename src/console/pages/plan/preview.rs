//! What a draft would change, as the dry run of the service says.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use tonic::Status;

use super::{
    super::{fields::Fields, forecast, prize_name, prizes::planned_stock, problems},
    canvas::Canvas,
    grid,
};
use crate::{
    console::{
        ui::{self, number},
        visit::Visit,
    },
    model::{
        Quantities,
        convert::{
            shown_money,
            times::{shown, zone_named},
        },
    },
    proto::{Campaign, SetPlanResponse, WindowChange},
};

/// Days, and hours, of which changes are shown.
const DAYS_MAX: usize = 62;
const HOURS_MAX: usize = 240;

/// The changes and the form to apply them, or why the service refuses them.
pub(super) fn preview(
    visit: &Visit,
    canvas: &Canvas,
    fields: &Fields,
    planned: Result<SetPlanResponse, Status>,
) -> Markup {
    let lang = visit.language;
    match planned {
        Err(status) => html! {
            section.card {
                h2 { (lang.t("plan.changes")) }
                (problems::of_status(visit, &status))
                p.hint { (lang.t("plan.refused")) }
                // What was typed for a draft that was sent stays.
                @if fields.get("do") == "apply" { (apply(visit, canvas, fields)) }
                (discard(visit, canvas))
            }
        },
        Ok(planned) => html! {
            section.card {
                h2 { (lang.t("plan.changes")) }
                p.hint { (lang.t("plan.dry-run")) }
                (sums(visit, canvas, &planned))
                (days(visit, canvas, &planned))
                (hours(visit, canvas, &planned))
                (apply(visit, canvas, fields))
                (discard(visit, canvas))
            }
            (forecast::form(lang, &grid::path(canvas), fields, &html! {
                (grid::state(canvas))
                input type="hidden" name="do" value="forecast";
            }))
        },
    }
}

/// Each prize: what the pool still plans before and after, and whether the stock is enough.
fn sums(visit: &Visit, canvas: &Canvas, planned: &SetPlanResponse) -> Markup {
    let lang = visit.language;
    let campaign = canvas.status.campaign.clone().unwrap_or_default();
    let (zone, end) = (&canvas.campaign.zone, canvas.campaign.end);
    let from = zone.hour(canvas.now).0.max(canvas.campaign.start);
    let before = canvas.in_force.sum(zone, from, end);
    let after = canvas.draft.sum(zone, from, end);
    let plans = planned.plan.iter().flat_map(|plan| &plan.prizes);
    let columns = canvas.columns();
    let rows = plans.filter_map(|plan| {
        let no = canvas.campaign.prize_no(&plan.prize_id)?;
        let units = |of: &Quantities| of.get(&no).copied().unwrap_or(0);
        columns
            .contains(&no)
            .then(|| (plan, units(&before), units(&after)))
    });
    html! {
        (ui::scroll(lang.t("plan.sums"), &html! { table {
            thead { tr {
                th scope="col" { (lang.t("units.prize")) }
                th.n scope="col" { (lang.t("plan.before")) }
                th.n scope="col" { (lang.t("plan.after")) }
                th.n scope="col" { (lang.t("plan.needed")) }
                th.n scope="col" { (lang.t("units.stock")) }
                th.n scope="col" { (lang.t("plan.value")) }
            } }
            tbody { @for (plan, before, after) in rows { tr {
                th scope="row" { (prize_name(&campaign, &plan.prize_id)) }
                td.n { (number(before)) }
                td.n { (step(before, after)) }
                td.n { (number(plan.planned)) }
                td.n { (planned_stock(lang, plan)) }
                td.n { (shown_money(plan.planned_value.as_ref())) }
            } } }
        } }))
        p.hint { (lang.t("plan.sums-hint")) }
    }
}

/// A number that may have changed.
fn step(before: u64, after: u64) -> Markup {
    html! { @if before == after { (number(after)) } @else { strong { (number(after)) } } }
}

/// The changes of a day: units before, after and injected.
type DayChange = (u64, u64, u64);

fn days(visit: &Visit, canvas: &Canvas, planned: &SetPlanResponse) -> Markup {
    let lang = visit.language;
    let campaign = canvas.status.campaign.clone().unwrap_or_default();
    let zone = &campaign.time_zone;
    let mut days: BTreeMap<(String, &str), DayChange> = BTreeMap::new();
    for change in &planned.window_changes {
        let day = local(change, zone).get(..10).unwrap_or_default().to_owned();
        let sum = days.entry((day, &change.prize_id)).or_default();
        sum.0 += change.before;
        sum.1 += change.after;
        sum.2 += change.injected;
    }
    let count: BTreeSet<_> = days.keys().map(|(day, _)| day).collect();
    html! {
        h3 { (lang.with("plan.days", &number(count.len() as u64))) }
        (ui::scroll(lang.t("plan.by-day"), &html! { table {
            thead { tr {
                th scope="col" { (lang.t("plan.day")) }
                (columns(visit))
            } }
            tbody { @for ((day, prize), change) in days.iter().take(DAYS_MAX) { tr {
                th scope="row" { (day) }
                (cells(&campaign, prize, *change))
            } } }
        } }))
        @if days.len() > DAYS_MAX {
            p.hint { (lang.with("list.others", &number((days.len() - DAYS_MAX) as u64))) }
        }
        @if planned.window_changes_omitted > 0 {
            p.hint {
                (lang.with("plan.omitted", &number(planned.window_changes_omitted.into())))
            }
        }
    }
}

fn columns(visit: &Visit) -> Markup {
    let lang = visit.language;
    html! {
        th scope="col" { (lang.t("units.prize")) }
        th.n scope="col" { (lang.t("plan.before")) }
        th.n scope="col" { (lang.t("plan.after")) }
        th.n scope="col" { (lang.t("plan.injected")) }
    }
}

fn cells(campaign: &Campaign, prize: &str, (before, after, injected): DayChange) -> Markup {
    html! {
        td { (prize_name(campaign, prize)) }
        td.n { (number(before)) }
        td.n { (step(before, after)) }
        td.n { @if injected > 0 { (number(injected)) } @else { "–" } }
    }
}

/// The local start of an hour.
fn local(change: &WindowChange, zone: &str) -> String {
    let zone = zone_named(zone);
    shown(change.start_time.as_ref(), &zone)
}

/// The same hour by hour.
fn hours(visit: &Visit, canvas: &Canvas, planned: &SetPlanResponse) -> Markup {
    let lang = visit.language;
    let campaign = canvas.status.campaign.clone().unwrap_or_default();
    let changes = &planned.window_changes;
    html! {
        details.act {
            summary { (lang.with("plan.hours", &number(changes.len() as u64))) }
            (ui::scroll(lang.t("plan.by-hour"), &html! { table {
                thead { tr {
                    th scope="col" { (lang.t("schedule.hour")) }
                    (columns(visit))
                } }
                tbody { @for change in changes.iter().take(HOURS_MAX) { tr {
                    @let start = local(change, &campaign.time_zone);
                    th scope="row" { (start.get(..16).unwrap_or_default().replace('T', " ")) }
                    (cells(&campaign, &change.prize_id, (
                        change.before, change.after, change.injected,
                    )))
                } } }
            } }))
            @if changes.len() > HOURS_MAX {
                p.hint { (lang.with("list.others", &number((changes.len() - HOURS_MAX) as u64))) }
            }
        }
        p.hint { (lang.t("plan.injected-hint")) }
    }
}

/// Brings the draft into force. What was sent and refused is filled in.
fn apply(visit: &Visit, canvas: &Canvas, fields: &Fields) -> Markup {
    let lang = visit.language;
    // A form that is sent twice applies once.
    let request = match fields.get("do") {
        "apply" => fields.get("request_id").to_owned(),
        _ => format!("console-{:016x}", rand::random::<u64>()),
    };
    let path = grid::path(canvas);
    html! {
        // With scripts the page stays until the draft is applied: if the session has ended, too.
        form.line method="post" action=(path) hx-post=(path) hx-target="#main" hx-select="#main"
            hx-swap="outerHTML show:top" data-leave
        {
            (grid::state(canvas))
            input type="hidden" name="request_id" value=(request);
            input type="hidden" name="do" value="apply";
            label { (lang.t("form.reason"))
                input #plan-reason name="reason" required maxlength="1024"
                    value=(fields.get("reason"));
            }
            button.primary #plan-apply type="submit" { (lang.t("plan.apply")) }
        }
    }
}

fn discard(visit: &Visit, canvas: &Canvas) -> Markup {
    let lang = visit.language;
    let query = [("pool", canvas.pool_id()), ("at", &canvas.view.text())];
    html! {
        div.line {
            @if canvas.last.is_some() {
                (grid::form(canvas, &html! {
                    (grid::state(canvas))
                    input type="hidden" name="do" value="undo";
                    button #plan-undo type="submit" { (lang.t("plan.undo")) }
                }))
            }
            a.button data-leave href=(ui::address(&grid::path(canvas), &query)) {
                (lang.t("plan.discard"))
            }
        }
    }
}
