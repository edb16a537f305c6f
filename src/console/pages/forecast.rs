//! The forecast of a campaign that is not in force yet: a simulation with bounds on its size and
//! its time, one at a time in a process, away from the threads that serve.

use std::{
    num::{NonZeroU64, NonZeroUsize},
    sync::Arc,
    time::{Duration, Instant},
};

use maud::{Markup, html};
use tokio::sync::Semaphore;

use super::fields::Fields;
use crate::{
    console::{
        i18n::Language,
        ui::{self, number},
        visit::Visit,
    },
    model::Campaign,
    simulation::{
        crowd::{Arrivals, Crowd},
        forecast::{Forecast, PrizeForecast, Spread},
        simulate_unless,
    },
};

/// How often a campaign is played through: as often as the bounds allow.
const SEEDS: std::ops::RangeInclusive<u32> = 5..=20;
/// The most draws that are tried in all runs.
const DRAWS_MAX: f64 = 1_000_000.0;
/// The most users.
const USERS_MAX: u64 = 200_000;
/// The most hours times prizes of all runs, which bounds memory.
const CELLS_MAX: u64 = 2_000_000;
/// How long a forecast may take; it is that of the runs that are done by then.
const TIME_MAX: Duration = Duration::from_secs(20);

/// One forecast at a time: it takes a core.
static TURN: Semaphore = Semaphore::const_new(1);

/// The form that asks this page for a forecast; `state` has what it is of.
pub(super) fn form(lang: Language, path: &str, asked: &Fields, state: &Markup) -> Markup {
    html! {
        section.card #forecast {
            h2 { (lang.t("forecast.title")) }
            p.hint { (lang.t("forecast.hint")) }
            form.line method="post" action=(path) hx-post=(path) hx-target="#main"
                hx-select="#main" hx-swap="outerHTML show:none" hx-disabled-elt="find button"
            {
                (state)
                (inputs(lang, asked))
                button #forecast-run type="submit" { (lang.t("forecast.run")) }
            }
        }
    }
}

/// How many users, and how often they draw.
pub(super) fn inputs(lang: Language, asked: &Fields) -> Markup {
    let users = asked.parsed::<u64>("users").unwrap_or(10_000);
    let per_day = asked.parsed::<f64>("per-day").unwrap_or(1.0);
    html! {
        label { (lang.t("forecast.users"))
            input name="users" type="number" min="1" max=(USERS_MAX) value=(users) required
                inputmode="numeric";
        }
        label { (lang.t("forecast.per-day"))
            input name="per-day" inputmode="decimal" value=(per_day) required maxlength="8";
        }
    }
}

/// What a form asks for.
struct Size {
    users: NonZeroU64,
    per_day: f64,
    seeds: u32,
}

impl Size {
    /// The size of a forecast, or why it is none, as the key of a message.
    fn of(campaign: &Campaign, fields: &Fields) -> Result<Self, &'static str> {
        let users = fields
            .parsed::<u64>("users")
            .filter(|users| *users <= USERS_MAX);
        let users = users
            .and_then(NonZeroU64::new)
            .ok_or("forecast.wrong-users")?;
        let per_day = fields.parsed::<f64>("per-day");
        let per_day = per_day.filter(|draws| *draws > 0.0 && *draws <= 1_000.0);
        let per_day = per_day.ok_or("forecast.wrong-per-day")?;
        let length = campaign.end.since(campaign.start);
        let days = length.as_secs_f64() / 86_400.0;
        let draws = users.get() as f64 * per_day * days.max(1.0);
        let cells = (length.as_secs() / 3600 + 1) * campaign.prizes.len() as u64;
        let by_draws = (DRAWS_MAX / draws.max(1.0)) as u32;
        let by_cells = u32::try_from(CELLS_MAX / cells.max(1)).unwrap_or(u32::MAX);
        let seeds = by_draws.min(by_cells).min(*SEEDS.end());
        if seeds < *SEEDS.start() {
            return Err("forecast.too-large");
        }
        Ok(Self {
            users,
            per_day,
            seeds,
        })
    }
}

/// The forecast of a campaign, or why there is none.
pub(super) async fn run(visit: &Visit, campaign: Campaign, fields: &Fields) -> Markup {
    let lang = visit.language;
    let played = match Size::of(&campaign, fields) {
        Ok(size) => play(campaign, size).await,
        Err(key) => Err(key),
    };
    match played {
        Ok(forecast) => shown(visit, &forecast),
        Err(key) => ui::notice("warn", &html! { (lang.t(key)) }),
    }
}

async fn play(campaign: Campaign, size: Size) -> Result<Forecast, &'static str> {
    let Ok(turn) = TURN.try_acquire() else {
        return Err("forecast.busy");
    };
    let crowd = Crowd {
        users: size.users,
        free_per_day: size.per_day,
        paid_per_day: 0.0,
        arrivals: Arrivals::peak(),
        segments: Vec::new(),
    };
    let work = tokio::task::spawn_blocking(move || {
        let _turn = turn; // also if nobody waits any more
        let end = Instant::now() + TIME_MAX;
        let is_late = || Instant::now() >= end;
        let campaign = Arc::new(campaign);
        simulate_unless(&campaign, &crowd, size.seeds, NonZeroUsize::MIN, &is_late)
    });
    match work.await {
        Ok(Ok(forecast)) => {
            let forecast = forecast.filter(|forecast| forecast.seeds >= *SEEDS.start());
            forecast.ok_or("forecast.too-long")
        }
        _ => Err("forecast.failed"),
    }
}

fn shown(visit: &Visit, forecast: &Forecast) -> Markup {
    let lang = visit.language;
    let has_caps = forecast.prizes.iter().any(|it| it.at_cap.is_some());
    let has_daily_caps = forecast.prizes.iter().any(|it| it.at_daily_cap.is_some());
    html! {
        section.card #forecast-result role="status" {
            h2 { (lang.t("forecast.result")) }
            p {
                (lang.with("forecast.runs", &forecast.seeds.to_string())) " · "
                (lang.t("sum.draws")) ": " (spread(forecast.draws))
            }
            (ui::scroll(lang.t("forecast.result"), &html! { table {
                thead { tr {
                    th scope="col" { (lang.t("units.prize")) }
                    th.n scope="col" { (lang.t("units.stock")) }
                    th.n scope="col" { (lang.t("forecast.released")) }
                    th.n scope="col" { (lang.t("forecast.won")) }
                    th.n scope="col" { (lang.t("forecast.left")) }
                    @if has_caps { th.n scope="col" { (lang.t("forecast.at-cap")) } }
                    @if has_daily_caps {
                        th.n scope="col" { (lang.t("forecast.at-daily-cap")) }
                    }
                    th scope="col" { (lang.t("forecast.runs-out")) }
                } }
                tbody { @for prize in &forecast.prizes { tr {
                    th scope="row" { (prize.prize_id) }
                    td.n {
                        @if prize.unlimited { (lang.t("units.unlimited")) }
                        @else { (number(prize.stock)) }
                    }
                    td.n { (spread(prize.released)) }
                    td.n { (spread(prize.won)) }
                    td.n { (spread(prize.left)) }
                    @if has_caps { td.n { (optional(prize.at_cap)) } }
                    @if has_daily_caps { td.n { (optional(prize.at_daily_cap)) } }
                    td { (end(visit, prize)) }
                } } }
            } }))
            p.hint { (lang.t("forecast.spread")) }
        }
    }
}

/// When the stock of a prize runs out.
fn end(visit: &Visit, prize: &PrizeForecast) -> Markup {
    let lang = visit.language;
    let Some(time) = &prize.runs_out_time else {
        return html! { (lang.t("forecast.lasts")) };
    };
    let share = format!("{:.0}", prize.runs_out * 100.0);
    let minute = |time: &str| time.get(..16).unwrap_or(time).replace('T', " ");
    let bound = |time: &Option<String>| time.as_deref().map(minute).unwrap_or_default();
    html! {
        (minute(time)) " "
        span.id {
            (bound(&prize.runs_out_time_low)) "–" (bound(&prize.runs_out_time_high)) " · "
            (lang.with("forecast.share", &share))
        }
    }
}

/// A mean with its range; a dash if there is none.
fn optional(of: Option<Spread>) -> Markup {
    of.map_or_else(|| html! { "–" }, spread)
}

/// A mean, and the range of nine in ten runs.
fn spread(spread: Spread) -> Markup {
    let whole = |value: f64| number(value.round().max(0.0) as u64);
    html! {
        strong { (whole(spread.mean)) } " "
        span.id { (whole(spread.low)) "–" (whole(spread.high)) }
    }
}
