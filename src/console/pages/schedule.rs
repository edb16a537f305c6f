//! The schedule of a campaign: a calendar of its days, and the hours of one day.

use axum::{
    extract::{Path, Query},
    response::Response,
};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use maud::{Markup, html};
use serde::Deserialize;

use super::{Tab, calendar, definition, head, prize_name, status};
use crate::{
    console::{
        charts::{self, Hour},
        layout::Place,
        ui::{self, number},
        visit::{Contents, Visit},
    },
    model::convert::times::{from_wire, to_wire},
    proto::{Campaign, CampaignStatus, GetScheduleRequest, Pool, Window, WindowPrize, pool::Kind},
};

/// Hours of a day: at most 20 pools, and at most 25 of each.
pub(super) const HOURS_MAX: u32 = 500;

/// Which day.
#[derive(Debug, Default, Deserialize)]
pub(in crate::console) struct Asked {
    /// `2026-11-29`; empty: today by the store's clock.
    #[serde(default)]
    day: String,
    /// Of this prize alone; empty: of all.
    #[serde(default)]
    pub(super) prize: String,
    /// Of this pool alone; empty: of all.
    #[serde(default)]
    pub(super) pool: String,
}

impl Asked {
    /// The address of a day with the same filters.
    pub(super) fn address(&self, path: &str, day: Date) -> String {
        let day = day.to_string();
        let query = [("day", &*day), ("prize", &self.prize), ("pool", &self.pool)];
        ui::address(path, &query)
    }

    /// Leaves the other prizes out.
    fn filter(&self, prizes: &mut Vec<WindowPrize>) {
        prizes.retain(|prize| self.prize.is_empty() || prize.prize_id == self.prize);
    }
}

/// The page.
pub(in crate::console) async fn page(
    visit: Visit,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let contents = match status(&visit, &id).await {
        Ok(status) => {
            let days = Days::of(&status, &asked.day);
            let shown = day(&visit, &status, &days, &asked).await;
            Ok(html! {
                (head(&visit, &status, Tab::Schedule))
                (visit.section(shown))
            })
        }
        Err(status) => Err(status),
    };
    visit.page(Place::Campaigns, &id, contents)
}

/// The days of a campaign.
pub(super) struct Days {
    zone: TimeZone,
    pub(super) first: Date,
    pub(super) last: Date,
    /// The one that is shown.
    pub(super) day: Date,
    pub(super) today: Date,
}

/// The day after a day.
fn after(day: Date) -> Date {
    day.tomorrow().unwrap_or(day)
}

impl Days {
    fn of(status: &CampaignStatus, asked: &str) -> Self {
        let (campaign, zone) = definition(status);
        let date = |moment: &Option<_>| {
            let at = from_wire(moment.as_ref()).unwrap_or(Timestamp::UNIX_EPOCH);
            at.to_zoned(zone.clone()).date()
        };
        let (first, end) = (date(&campaign.start_time), date(&campaign.end_time));
        // The end is the first moment after the campaign.
        let is_midnight = from_wire(campaign.end_time.as_ref())
            .is_some_and(|end| end.to_zoned(zone.clone()).time() == jiff::civil::Time::midnight());
        let last = if is_midnight {
            end.yesterday().unwrap_or(end)
        } else {
            end
        };
        let last = last.max(first);
        let today = date(&status.read_time);
        let day = asked.parse().unwrap_or(today).clamp(first, last);
        Self {
            first,
            last,
            day,
            today,
            zone,
        }
    }

    /// When a day begins.
    fn begin(&self, day: Date) -> Timestamp {
        let zoned = day.to_zoned(self.zone.clone());
        zoned.map_or(Timestamp::UNIX_EPOCH, |zoned| zoned.timestamp())
    }
}

async fn day(visit: &Visit, status: &CampaignStatus, days: &Days, asked: &Asked) -> Contents {
    let lang = visit.language;
    let (campaign, _) = definition(status);
    let is_schedule = |pool: &Pool| matches!(pool.kind, Some(Kind::Schedule(_)));
    if !campaign.pools.iter().any(is_schedule) {
        return Ok(ui::empty(&html! { p { (lang.t("schedule.none")) } }));
    }
    let hours = GetScheduleRequest {
        campaign_id: campaign.id.clone(),
        pool_id: asked.pool.clone(),
        from_time: Some(to_wire(days.begin(days.day))),
        until_time: Some(to_wire(days.begin(after(days.day)))),
        page_size: HOURS_MAX,
        ..GetScheduleRequest::default()
    };
    let hours = visit.campaigns().get_schedule(hours).await?.into_inner();
    let month = GetScheduleRequest {
        campaign_id: campaign.id.clone(),
        pool_id: asked.pool.clone(),
        from_time: Some(to_wire(days.begin(days.day.first_of_month()))),
        until_time: Some(to_wire(days.begin(after(days.day.last_of_month())))),
        by_day: true,
        ..GetScheduleRequest::default()
    };
    let mut month = visit.campaigns().get_schedule(month).await?.into_inner();
    for day in &mut month.days {
        asked.filter(&mut day.prizes);
    }
    let mut windows = hours.windows;
    for window in &mut windows {
        asked.filter(&mut window.prizes);
    }
    windows.retain(|window| !window.prizes.is_empty());
    in_order(&mut windows);
    let words = [
        lang.t("schedule.planned"),
        lang.t("schedule.injected"),
        lang.t("schedule.released"),
        lang.t("schedule.won"),
    ];
    let next = &hours.next_injection_time;
    Ok(html! {
        div.split {
            (calendar::month(visit, &campaign, (days, asked), &month.days))
            section.card {
                h2 { (lang.with("schedule.day", &days.day.to_string())) }
                @if windows.is_empty() {
                    (ui::empty(&html! { p { (lang.t("schedule.empty")) } }))
                } @else {
                    (charts::legend(&[
                        ("planned", words[0]), ("injected", words[1]),
                        ("released", words[2]), ("won", words[3]),
                    ]))
                    @let name = lang.with("schedule.chart", &days.day.to_string());
                    (ui::scroll(&name, &charts::hours(&name, words, &by_hour(&windows))))
                }
                p.hint {
                    @if next.is_some() {
                        (lang.t("schedule.next")) " " (ui::time(next.as_ref(), &days.zone)) " · "
                    }
                    @if let Some(lead) = &hours.lead {
                        (lang.with("schedule.lead", &ui::span(lang, lead)))
                    }
                }
                p.hint { (lang.t("schedule.totals")) }
                @let editor = format!("/campaigns/{}/plan", campaign.id);
                @let at = days.day.to_string();
                p { a.button href=(ui::address(&editor, &[("at", &at)])) {
                    (lang.t("schedule.edit"))
                } }
            }
        }
        @if !windows.is_empty() { (table(visit, &campaign, &windows)) }
        (calendar::table(visit, days, &month.days))
    })
}

/// Puts the hours of all pools in their order. By local times, an hour that comes twice would be
/// the wrong way round wherever clocks are ahead of UTC.
fn in_order(windows: &mut [Window]) {
    windows.sort_by_key(|window| window.start_time.map_or(0, |start| start.seconds));
}

/// Units that are released, and that nobody has taken.
pub(super) fn waiting(prize: &WindowPrize) -> u64 {
    prize.released.saturating_sub(prize.won + prize.returned)
}

/// The hours of a day, each with the sums of its pools and prizes.
fn by_hour(windows: &[Window]) -> Vec<Hour> {
    windows
        .chunk_by(|a, b| a.local_start == b.local_start)
        .map(|windows| {
            let start = windows.first().map_or("", |window| &window.local_start);
            let prizes = || windows.iter().flat_map(|window| &window.prizes);
            Hour {
                label: start.get(11..16).unwrap_or(start).into(),
                planned: prizes().map(|prize| prize.planned + prize.carried).sum(),
                injected: prizes().map(|prize| prize.injected).sum(),
                released: prizes().map(|prize| prize.released).sum(),
                won: prizes().map(|prize| prize.won).sum(),
            }
        })
        .collect()
}

/// The table behind the chart, prize by prize.
fn table(visit: &Visit, campaign: &Campaign, windows: &[Window]) -> Markup {
    let lang = visit.language;
    let cells = |prize: &WindowPrize| {
        [
            prize.planned,
            prize.carried,
            prize.injected,
            prize.released,
            waiting(prize),
            prize.won,
            prize.recalled,
            prize.returned,
        ]
    };
    html! {
        section.card {
            h2 { (lang.t("schedule.table")) }
            (ui::scroll(lang.t("schedule.table"), &html! { table {
                thead { tr {
                    th scope="col" { (lang.t("schedule.hour")) }
                    th scope="col" { (lang.t("deck.pool")) }
                    th scope="col" { (lang.t("overview.state")) }
                    th scope="col" { (lang.t("units.prize")) }
                    th.n scope="col" { (lang.t("schedule.planned")) }
                    th.n scope="col" { (lang.t("schedule.carried")) }
                    th.n scope="col" { (lang.t("schedule.injected")) }
                    th.n scope="col" { (lang.t("schedule.released")) }
                    th.n scope="col" { (lang.t("units.waiting")) }
                    th.n scope="col" { (lang.t("schedule.won")) }
                    th.n scope="col" { (lang.t("schedule.recalled")) }
                    th.n scope="col" { (lang.t("schedule.returned")) }
                } }
                tbody { @for window in windows { @for prize in &window.prizes { tr {
                    th scope="row" { (window.local_start.get(11..16).unwrap_or_default()) }
                    td { (window.pool_id) }
                    td { (ui::window_state(lang, window.state())) }
                    td { (prize_name(campaign, &prize.prize_id)) }
                    @for units in cells(prize) { td.n { (number(units)) } }
                } } } }
            } }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> CampaignStatus {
        let at = |text: &str| Some(to_wire(text.parse().unwrap()));
        CampaignStatus {
            campaign: Some(Campaign {
                time_zone: "Asia/Shanghai".into(),
                start_time: at("2026-11-20T00:00:00+08:00"),
                end_time: at("2026-12-20T00:00:00+08:00"),
                ..Campaign::default()
            }),
            read_time: at("2026-11-30T23:30:00+08:00"),
            ..CampaignStatus::default()
        }
    }

    #[test]
    fn the_day_is_one_of_the_campaign_in_its_zone() {
        for (asked, day) in [
            ("", "2026-11-30"),
            ("2026-12-01", "2026-12-01"),
            ("2020-01-01", "2026-11-20"),
            ("2030-01-01", "2026-12-19"),
            ("<script>", "2026-11-30"),
        ] {
            assert_eq!(Days::of(&status(), asked).day.to_string(), day, "{asked}");
        }
    }

    #[test]
    fn an_hour_has_the_sums_of_its_pools() {
        let window = |pool: &str, hour: &str, won| Window {
            pool_id: pool.into(),
            local_start: format!("2026-11-30T{hour}+08:00"),
            prizes: vec![WindowPrize {
                planned: 10,
                carried: 2,
                injected: 7,
                released: 5,
                won,
                ..WindowPrize::default()
            }],
            ..Window::default()
        };
        let hours = by_hour(&[
            window("a", "20:00", 1),
            window("b", "20:00", 2),
            window("a", "21:00", 4),
        ]);
        let hour = |label: &str, planned, injected, released, won| Hour {
            label: label.into(),
            planned,
            injected,
            released,
            won,
        };
        let both = hour("20:00", 24, 14, 10, 3);
        assert_eq!(hours, [both, hour("21:00", 12, 7, 5, 4)]);
    }

    #[test]
    fn an_hour_that_comes_twice_is_in_order() {
        let window = |pool: &str, local: &str, start: &str| Window {
            pool_id: pool.into(),
            local_start: local.into(),
            start_time: Some(to_wire(start.parse().unwrap())),
            ..Window::default()
        };
        let mut windows = [
            window("a", "2026-10-25T02:00+02:00", "2026-10-25T00:00:00Z"),
            window("a", "2026-10-25T02:00+01:00", "2026-10-25T01:00:00Z"),
            window("a", "2026-10-25T03:00+01:00", "2026-10-25T02:00:00Z"),
            window("b", "2026-10-25T02:00+02:00", "2026-10-25T00:00:00Z"),
        ];
        in_order(&mut windows);
        let found = windows
            .each_ref()
            .map(|it| (&*it.pool_id, &it.local_start[11..]));
        let expected = [
            ("a", "02:00+02:00"),
            ("b", "02:00+02:00"),
            ("a", "02:00+01:00"),
            ("a", "03:00+01:00"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_released_waits_until_it_is_won_or_returned() {
        let prize = |released, won, returned| WindowPrize {
            released,
            won,
            returned,
            ..WindowPrize::default()
        };
        let found = [prize(5, 2, 1), prize(5, 0, 5), prize(0, 0, 0)];
        assert_eq!(found.each_ref().map(waiting), [2, 0, 0]);
    }
}
