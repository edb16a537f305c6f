//! `tombola schedule`: what is planned, injected, released and won, hour by hour.

use clap::Args;
use jiff::tz::TimeZone;

use super::{
    client::{Client, Outcome, campaign_id, moment, pool_id},
    failure::Failure,
    output::{Side, Table},
    time::{self, Time, shown},
};
use crate::{
    model::text::grouped,
    proto::{GetScheduleRequest, GetScheduleResponse, Window, WindowState},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola schedule spring-wheel --pool coupons --from now")]
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
}

pub(super) async fn run(client: &Client, args: ScheduleArgs) -> Outcome {
    let from_time = match args.from {
        Some(from) => {
            let mut server = client.campaigns().await?;
            Some(time::to_wire(
                moment(&mut server, &args.campaign, from).await?,
            ))
        }
        None => None,
    };
    let zone = client.zone(&args.campaign).await;
    let request = GetScheduleRequest {
        campaign_id: args.campaign,
        pool_id: args.pool.unwrap_or_default(),
        from_time,
        page_size: 1_000,
        page_token: String::new(),
    };
    let all = all_pages(client, request).await?;
    client.show("GetScheduleResponse", &all, |all| view(all, &zone));
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

fn view(response: &GetScheduleResponse, zone: &TimeZone) -> String {
    let table = if response.windows.is_empty() {
        "no hours".into()
    } else {
        windows(&response.windows)
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

/// Windows as a table, one line a prize.
pub(super) fn windows(windows: &[Window]) -> String {
    use Side::{Left, Right};
    let numbers = [
        "planned", "carried", "injected", "released", "won", "recalled", "returned",
    ];
    let words = ["hour", "pool", "state", "prize"].map(|name| (name, Left));
    let mut table = Table::new(words.into_iter().chain(numbers.map(|name| (name, Right))));
    for window in windows {
        let words = [
            window.local_start.clone(),
            window.pool_id.clone(),
            state(window.state()).to_owned(),
        ];
        if window.prizes.is_empty() {
            let nothing = std::iter::repeat_n(String::from("-"), 1 + numbers.len());
            table.row(words.clone().into_iter().chain(nothing));
        }
        for prize in &window.prizes {
            let units = [
                prize.planned,
                prize.carried,
                prize.injected,
                prize.released,
                prize.won,
                prize.recalled,
                prize.returned,
            ];
            let cells = [prize.prize_id.clone()]
                .into_iter()
                .chain(units.map(grouped));
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
