//! Draws, wins and consolations over time: a chart, and the same as a table. The last hour is in
//! the memory of the service, longer times are sums of settled entries.

use jiff::{Timestamp, Unit, tz::TimeZone};
use maud::{Markup, html};
use serde::Deserialize;

use super::{definition, rows};
use crate::{
    console::{
        charts::{self, Line},
        i18n::Language,
        ui::{self, number},
        visit::{Contents, Visit},
    },
    model::convert::times::{from_wire, to_wire},
    proto::{ActivityHour, CampaignStatus, GetActivityRequest, GetStatsResponse},
};

const HOUR_S: i64 = 3_600;

/// What came in a step of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Point {
    /// Its beginning, in steps since 1970.
    at: i64,
    draws: u64,
    wins: u64,
    consolations: u64,
}

/// The time that a curve shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Span {
    /// The last hour, a minute each.
    #[default]
    Hour,
    /// The last 24 hours, an hour each.
    Day,
    /// The last seven days, an hour each.
    Week,
    /// The last 30 days, a day of the campaign's zone each.
    Month,
}

impl Span {
    /// All, by their names in addresses.
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Hour, "", "curve.hour"),
        (Self::Day, "day", "curve.day"),
        (Self::Week, "week", "curve.week"),
        (Self::Month, "month", "curve.month"),
    ];

    fn hours(self) -> i64 {
        match self {
            Self::Hour => 1,
            Self::Day => 24,
            Self::Week => 7 * 24,
            Self::Month => 30 * 24,
        }
    }
}

/// The last hour, as far as the service knows it; nothing before two minutes are known.
pub(super) fn last_hour(
    visit: &Visit,
    status: &CampaignStatus,
    stats: &GetStatsResponse,
) -> Markup {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let minutes = stats.minutes.iter().map(|minute| Point {
        at: minute.start_time.as_ref().map_or(0, |at| at.seconds / 60),
        draws: minute.draws,
        wins: minute.wins,
        consolations: minute.consolations,
    });
    let points: Vec<_> = minutes.collect();
    let label = |minute: i64| clock(minute.saturating_mul(60), &zone, "%H:%M");
    let contents = html! {
        @if points.len() < 2 { (ui::empty(&html! { p { (lang.t("curve.begins")) } })) }
        @else { (chart(lang, &points, label)) }
        p.hint { (lang.t("curve.hint")) }
    };
    html! { div data-live="curve" { (card(lang, &campaign.id, Span::Hour, &contents)) } }
}

/// A longer time, from settled entries.
pub(super) async fn settled(visit: &Visit, status: &CampaignStatus, span: Span) -> Markup {
    let (campaign, _) = definition(status);
    let contents = visit.section(sums(visit, status, span).await);
    card(visit.language, &campaign.id, span, &contents)
}

async fn sums(visit: &Visit, status: &CampaignStatus, span: Span) -> Contents {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let hours = hours(status, span);
    if hours.1 < hours.0 {
        return Ok(ui::empty(&html! { p { (lang.t("curve.not-begun")) } }));
    }
    let moment = |hour: i64| {
        let at = Timestamp::from_second(hour.saturating_mul(HOUR_S));
        Some(to_wire(at.unwrap_or_default()))
    };
    let request = GetActivityRequest {
        campaign_id: campaign.id,
        start_time: moment(hours.0),
        end_time: moment(hours.1 + 1),
    };
    let found = visit.ledger().get_activity(request).await?.into_inner();
    let points = filled(&found.hours, hours);
    let chart = match span {
        Span::Hour | Span::Day => chart(lang, &points, |hour| {
            clock(hour.saturating_mul(HOUR_S), &zone, "%H:%M")
        }),
        Span::Week => chart(lang, &points, |hour| {
            clock(hour.saturating_mul(HOUR_S), &zone, "%m-%d %H:%M")
        }),
        Span::Month => chart(lang, &by_day(&points, &zone), |day| {
            clock(day.saturating_mul(24 * HOUR_S), &TimeZone::UTC, "%m-%d")
        }),
    };
    Ok(html! {
        (rows::behind(lang, found.complete_until.as_ref(), &zone))
        (chart)
        p.hint { (lang.t("curve.settled")) }
    })
}

/// The first and the last hour of a curve, since 1970. A campaign that is over has no later ones.
fn hours(status: &CampaignStatus, span: Span) -> (i64, i64) {
    let campaign = status.campaign.as_ref();
    let second = |moment: Option<&prost_types::Timestamp>| {
        from_wire(moment).map_or(0, |moment| moment.as_second())
    };
    let start_s = second(campaign.and_then(|it| it.start_time.as_ref()));
    // The end is the first moment after the campaign.
    let last_s = second(campaign.and_then(|it| it.end_time.as_ref())) - 1;
    let until_s = second(status.read_time.as_ref()).min(last_s);
    let begin_s = (until_s - span.hours() * HOUR_S).max(start_s);
    (begin_s.div_euclid(HOUR_S), until_s.div_euclid(HOUR_S))
}

/// The hours with draws, and those without between them.
fn filled(known: &[ActivityHour], (first, last): (i64, i64)) -> Vec<Point> {
    let start_s = |hour: &ActivityHour| hour.start_time.as_ref().map_or(0, |start| start.seconds);
    let mut known = known.iter().peekable();
    let hours = (first..=last).map(|at| {
        let hour = known.next_if(|hour| start_s(hour) == at.saturating_mul(HOUR_S));
        hour.map_or(
            Point {
                at,
                ..Point::default()
            },
            |hour| Point {
                at,
                draws: hour.draws,
                wins: hour.wins,
                consolations: hour.consolations,
            },
        )
    });
    hours.collect()
}

/// The sums of days of a zone. Days are counted from 1970 as if they were of UTC.
fn by_day(hours: &[Point], zone: &TimeZone) -> Vec<Point> {
    let day = |hour: &Point| {
        let at = Timestamp::from_second(hour.at.saturating_mul(HOUR_S)).unwrap_or_default();
        let date = at.to_zoned(zone.clone()).date();
        let since = date.since((Unit::Day, jiff::civil::date(1970, 1, 1)));
        since.map_or(0, |span| i64::from(span.get_days()))
    };
    let days = hours.chunk_by(|a, b| day(a) == day(b)).map(|hours| Point {
        at: hours.first().map_or(0, day),
        draws: hours.iter().map(|hour| hour.draws).sum(),
        wins: hours.iter().map(|hour| hour.wins).sum(),
        consolations: hours.iter().map(|hour| hour.consolations).sum(),
    });
    days.collect()
}

/// The frame of a curve: its name, and the other times that there are.
fn card(lang: Language, campaign: &str, span: Span, contents: &Markup) -> Markup {
    let path = format!("/campaigns/{campaign}");
    html! {
        section.card #curve {
            h2 { (lang.t("curve.title")) }
            nav.filters aria-label=(lang.t("curve.span")) {
                @for (other, name, text) in Span::ALL {
                    a href={ (ui::address(&path, &[("curve", name)])) "#curve" }
                        aria-current=[(other == span).then_some("true")]
                    {
                        (lang.t(text))
                    }
                }
            }
            (contents)
        }
    }
}

fn chart(lang: Language, points: &[Point], label: impl Fn(i64) -> String) -> Markup {
    let lines = [
        ("drawn", lang.t("sum.draws"), of(points, |it| it.draws)),
        ("won", lang.t("sum.wins"), of(points, |it| it.wins)),
        (
            "held",
            lang.t("sum.consolations"),
            of(points, |it| it.consolations),
        ),
    ];
    let lines = lines.map(|(class, name, points)| Line {
        class,
        name,
        points,
    });
    let name = lang.t("curve.title");
    html! {
        (charts::line_legend(&lines))
        (ui::scroll(name, &charts::curve(name, &lines, &label)))
        details {
            summary { (lang.t("curve.table")) }
            (ui::scroll(lang.t("curve.table"), &html! { table {
                thead { tr {
                    th scope="col" { (lang.t("list.time")) }
                    @for line in &lines { th.n scope="col" { (line.name) } }
                } }
                tbody { @for point in points.iter().rev() { tr {
                    th scope="row" { (label(point.at)) }
                    td.n { (number(point.draws)) }
                    td.n { (number(point.wins)) }
                    td.n { (number(point.consolations)) }
                } } }
            } }))
        }
    }
}

fn of(points: &[Point], value: impl Fn(&Point) -> u64) -> Vec<(i64, u64)> {
    points.iter().map(|it| (it.at, value(it))).collect()
}

/// A moment in a zone, such as `20:07`.
fn clock(at_s: i64, zone: &TimeZone, form: &str) -> String {
    let at = Timestamp::from_second(at_s).unwrap_or_default();
    at.to_zoned(zone.clone()).strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Campaign;

    fn hour(at: i64, draws: u64) -> ActivityHour {
        ActivityHour {
            start_time: Some(prost_types::Timestamp {
                seconds: at * HOUR_S,
                nanos: 0,
            }),
            draws,
            ..ActivityHour::default()
        }
    }

    #[test]
    fn the_curve_of_a_campaign_that_is_over_ends_with_its_last_hour() {
        let at = |at: i64| hour(at, 0).start_time;
        let shown = |now| {
            let campaign = Campaign {
                start_time: at(1_000),
                end_time: at(1_100),
                ..Campaign::default()
            };
            let status = CampaignStatus {
                campaign: Some(campaign),
                read_time: at(now),
                ..CampaignStatus::default()
            };
            hours(&status, Span::Day)
        };
        assert_eq!(shown(1_050), (1_026, 1_050));
        assert_eq!(shown(1_010), (1_000, 1_010));
        for over in [1_100, 2_000] {
            assert_eq!(shown(over), (1_075, 1_099), "{over}");
        }
        let (first, last) = shown(900);
        assert!(last < first, "it has not begun");
    }

    #[test]
    fn hours_without_draws_are_zero_and_days_are_those_of_the_zone() {
        let points = filled(&[hour(16, 3), hour(18, 4)], (15, 18));
        let draws: Vec<_> = points.iter().map(|it| (it.at, it.draws)).collect();
        assert_eq!(draws, [(15, 0), (16, 3), (17, 0), (18, 4)]);
        // 16:00 of UTC is midnight in Shanghai.
        let zone = TimeZone::get("Asia/Shanghai").unwrap();
        let days: Vec<_> = by_day(&points, &zone)
            .iter()
            .map(|it| (it.at, it.draws))
            .collect();
        assert_eq!(days, [(0, 0), (1, 7)]);
    }
}
