//! `tombola schedule`: shows what is planned, injected, released and won, hour by hour.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use jiff::{Timestamp, tz::TimeZone};

use super::{
    client::{Client, Outcome, campaign_id, moment, pool_id},
    failure::Failure,
    output::{Side, Table},
    time::{self, Time, shown},
};
use crate::{
    model::text::grouped,
    proto::{GetScheduleRequest, GetScheduleResponse, Window, WindowPrize, WindowState},
};

/// The largest number of hours, over all pools, that is listed hour by hour by default.
const HOURS_MAX: usize = 72;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola schedule spring-wheel
  tombola schedule spring-wheel --pool coupons --from now --to +12h")]
pub(super) struct ScheduleArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// One pool [default: all that have a schedule]
    #[arg(long, env = "TOMBOLA_POOL", value_name = "POOL", value_parser = pool_id)]
    pool: Option<String>,
    /// Hours that end after this: 2026-11-20T20:00:00+08:00, now or +2h [default: all]
    #[arg(long, env = "TOMBOLA_FROM", value_name = "TIME", value_parser = Time::parse)]
    from: Option<Time>,
    /// Hours that begin before this [default: all]
    #[arg(long, env = "TOMBOLA_TO", value_name = "TIME", value_parser = Time::parse)]
    to: Option<Time>,
    /// A line for each hour, or for each day [default: hour; day for a long list]
    #[arg(long, env = "TOMBOLA_BY", value_name = "WHAT", value_enum)]
    by: Option<By>,
}

/// What each line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Each hour
    Hour,
    /// Each day of the campaign's zone
    Day,
}

pub(super) async fn run(client: &Client, args: ScheduleArgs) -> Outcome {
    let mut server = client.campaigns().await?;
    let mut absolute = async |time: Option<Time>| -> Outcome<Option<Timestamp>> {
        match time {
            Some(time) => Ok(Some(moment(&mut server, &args.campaign, time).await?)),
            None => Ok(None),
        }
    };
    let (from, to) = (absolute(args.from).await?, absolute(args.to).await?);
    if let (Some(from), Some(to)) = (from, to)
        && from >= to
    {
        return Err(Failure::usage(
            "--to is not after --from: no hour is between",
        ));
    }
    let zone = client.zone(&args.campaign).await;
    let request = GetScheduleRequest {
        campaign_id: args.campaign,
        pool_id: args.pool.unwrap_or_default(),
        from_time: from.map(time::to_wire),
        until_time: to.map(time::to_wire),
        page_size: 1_000,
        ..GetScheduleRequest::default()
    };
    let all = all_pages(client, request).await?;
    client.show("GetScheduleResponse", &all, |all| view(all, args.by, &zone));
    Ok(())
}

async fn all_pages(
    client: &Client,
    mut request: GetScheduleRequest,
) -> Outcome<GetScheduleResponse> {
    let mut server = client.campaigns().await?;
    let mut windows = Vec::new();
    loop {
        let page = server.get_schedule(request.clone()).await;
        let mut page = page.map_err(Failure::read)?.into_inner();
        windows.append(&mut page.windows);
        if page.next_page_token.is_empty() {
            return Ok(GetScheduleResponse { windows, ..page });
        }
        request.page_token = page.next_page_token;
    }
}

fn view(response: &GetScheduleResponse, by: Option<By>, zone: &TimeZone) -> String {
    let is_long = response.windows.len() > HOURS_MAX;
    let table = match by {
        _ if response.windows.is_empty() => "no hours".into(),
        Some(By::Hour) => windows(&response.windows),
        Some(By::Day) => days(&response.windows),
        None if is_long => format!(
            "{}\n\nsums of each day; --by hour lists the hours, --from and --to name some",
            days(&response.windows)
        ),
        None => windows(&response.windows),
    };
    let lead = response.lead.as_ref().map(time::span);
    let next = match (&response.next_injection_time, lead) {
        (None, _) => "no hour is left to inject".into(),
        (next, None) => format!("next injection {}", shown(next.as_ref(), zone)),
        (next, Some(lead)) => {
            format!(
                "next injection {}, {lead} before its hour",
                shown(next.as_ref(), zone)
            )
        }
    };
    format!("{table}\n\n{next}")
}

/// The numbers of a prize in a window.
const NUMBERS: [&str; 7] = [
    "planned", "carried", "injected", "released", "won", "recalled", "returned",
];

/// An empty table with these columns of words, followed by the numbers.
fn table(words: &[&'static str]) -> Table {
    let words = words.iter().map(|name| (*name, Side::Left));
    Table::new(words.chain(NUMBERS.map(|name| (name, Side::Right))))
}

fn numbers(prize: &WindowPrize) -> [u64; NUMBERS.len()] {
    [
        prize.planned,
        prize.carried,
        prize.injected,
        prize.released,
        prize.won,
        prize.recalled,
        prize.returned,
    ]
}

/// Windows as a table, one line per day, pool and prize.
fn days(windows: &[Window]) -> String {
    let mut days: BTreeMap<(&str, &str), Day> = BTreeMap::new();
    for window in windows {
        let date = window.local_start.get(..10).unwrap_or(&window.local_start);
        let day = days.entry((date, &window.pool_id)).or_default();
        *day.states.entry(state(window.state())).or_default() += 1;
        for prize in &window.prizes {
            let sums = day.prizes.entry(&prize.prize_id).or_default();
            for (sum, units) in sums.iter_mut().zip(numbers(prize)) {
                *sum = sum.saturating_add(units);
            }
        }
    }
    let mut table = table(&["day", "pool", "hours", "prize"]);
    for ((date, pool), day) in days {
        let states = day
            .states
            .iter()
            .map(|(state, hours)| format!("{hours} {state}"));
        let hours = states.collect::<Vec<_>>().join(", ");
        let words = [date, pool, hours.as_str()].map(str::to_owned);
        if day.prizes.is_empty() {
            let nothing = std::iter::repeat_n(String::from("-"), 1 + NUMBERS.len());
            table.row(words.clone().into_iter().chain(nothing));
        }
        for (prize, sums) in day.prizes {
            let cells = [prize.to_owned()].into_iter().chain(sums.map(grouped));
            table.row(words.clone().into_iter().chain(cells));
        }
    }
    table.render()
}

/// The sums of a day in a pool.
#[derive(Default)]
struct Day<'a> {
    /// The number of hours in each state.
    states: BTreeMap<&'static str, u32>,
    prizes: BTreeMap<&'a str, [u64; NUMBERS.len()]>,
}

/// Windows as a table, one line per prize.
pub(super) fn windows(windows: &[Window]) -> String {
    let mut table = table(&["hour", "pool", "state", "prize"]);
    for window in windows {
        let words = [
            window.local_start.clone(),
            window.pool_id.clone(),
            state(window.state()).to_owned(),
        ];
        if window.prizes.is_empty() {
            let nothing = std::iter::repeat_n(String::from("-"), 1 + NUMBERS.len());
            table.row(words.clone().into_iter().chain(nothing));
        }
        for prize in &window.prizes {
            let cells = [prize.prize_id.clone()]
                .into_iter()
                .chain(numbers(prize).map(grouped));
            table.row(words.clone().into_iter().chain(cells));
        }
    }
    table.render()
}

fn state(state: WindowState) -> &'static str {
    match state {
        WindowState::Unspecified => "unknown",
        WindowState::Planned => "planned",
        WindowState::Injecting => "injecting",
        WindowState::Injected => "injected",
        WindowState::Missed => "missed",
        WindowState::Recalled => "recalled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(count: usize) -> Vec<Window> {
        let window = |index: usize| Window {
            pool_id: "coupons".into(),
            local_start: format!("2026-12-{:02}T{:02}:00+08:00", 1 + index / 24, index % 24),
            state: if index < 30 {
                WindowState::Injected.into()
            } else {
                WindowState::Planned.into()
            },
            prizes: vec![WindowPrize {
                prize_id: "coupon".into(),
                planned: 100,
                won: u64::from(index < 30) * 7,
                ..WindowPrize::default()
            }],
            ..Window::default()
        };
        (0..count).map(window).collect()
    }

    fn lines(count: usize, by: Option<By>) -> Vec<String> {
        let response = GetScheduleResponse {
            windows: hours(count),
            ..GetScheduleResponse::default()
        };
        let text = view(&response, by, &TimeZone::UTC);
        let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(squeeze).collect()
    }

    #[test]
    fn a_long_list_is_summed_by_day_unless_hours_are_asked_for() {
        let by_day = lines(96, None);
        assert_eq!(
            by_day[1],
            "2026-12-01 coupons 24 injected coupon 2,400 0 0 0 168 0 0"
        );
        assert_eq!(
            by_day[2],
            "2026-12-02 coupons 6 injected, 18 planned coupon 2,400 0 0 0 42 0 0"
        );
        assert!(
            by_day.iter().any(|line| line.contains("--by hour")),
            "{by_day:?}"
        );
        let by_hour = lines(96, Some(By::Hour));
        assert_eq!(
            by_hour[1],
            "2026-12-01T00:00+08:00 coupons injected coupon 100 0 0 0 7 0 0"
        );
        assert_eq!(lines(72, None).len(), 72 + 3);
        assert_eq!(lines(24, Some(By::Day)).len(), 1 + 3);
    }
}
