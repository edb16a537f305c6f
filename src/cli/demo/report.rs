//! The report at the end of the demo: prizes, limits, the release of prizes over time, and the
//! state of every unit.

use std::{collections::BTreeMap, net::SocketAddr};

use tonic::transport::Channel;

use super::{crowd::Tally, fault::Fault};
use crate::{
    cli::output::{Side, Table, say},
    model::text::grouped,
    proto::{
        GetScheduleRequest, GetStatsRequest, GetStatsResponse, Window,
        campaign_service_client::CampaignServiceClient,
    },
};

/// The longest bar of the chart, in characters.
const BAR: u64 = 40;

/// Prints the report.
pub(super) async fn show(
    operators: &mut CampaignServiceClient<Channel>,
    campaign: &str,
    tally: &Tally,
) -> Result<(), Fault> {
    prizes(tally);
    limits(tally);
    chart(operators, campaign).await?;
    let request = GetStatsRequest {
        campaign_id: campaign.into(),
    };
    let stats = operators.get_stats(request).await?.into_inner();
    sums(&stats);
    if !stats.balanced {
        return Err("the sums do not add up".into());
    }
    Ok(())
}

/// Prints a part of the report and the blank line after it.
pub(super) fn section(text: &str) {
    say(&format!("{text}\n\n"));
}

fn prizes(tally: &Tally) {
    let mut table = Table::new([("won", Side::Left), ("draws", Side::Right)]);
    for (name, draws) in &tally.prizes {
        table.row([name.clone(), grouped(*draws)]);
    }
    section(&format!(
        "What {} draws gave\n{}\n{} calls were retries: they got the same answer again.",
        grouped(tally.draws),
        table.render(),
        grouped(tally.replays)
    ));
}

fn limits(tally: &Tally) {
    let mut table = Table::new([
        ("limit", Side::Left),
        ("users", Side::Right),
        ("refusals", Side::Right),
    ]);
    for (reason, (users, refusals)) in &tally.refusals {
        table.row([
            reason.clone(),
            grouped(users.len() as u64),
            grouped(*refusals),
        ]);
    }
    section(&format!("Who hit which limit\n{}", table.render()));
}

/// A chart of the released and won units, hour by hour.
async fn chart(
    operators: &mut CampaignServiceClient<Channel>,
    campaign: &str,
) -> Result<(), Fault> {
    let request = GetScheduleRequest {
        campaign_id: campaign.into(),
        page_size: 1000,
        ..GetScheduleRequest::default()
    };
    let schedule = operators.get_schedule(request).await?.into_inner();
    let mut hours: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for window in &schedule.windows {
        let (released, won) = hours.entry(window.local_start.as_str()).or_default();
        *released += sum(window, |prize| prize.released);
        *won += sum(window, |prize| prize.won);
    }
    hours.retain(|_, (released, _)| *released > 0);
    let most = hours
        .values()
        .map(|(released, _)| *released)
        .max()
        .unwrap_or(1)
        .max(1);
    let mut lines = vec![
        "Prizes released by the schedules, hour by hour, and how many: ▓ won, █ still waiting"
            .to_owned(),
    ];
    for (hour, (released, won)) in hours {
        let length = (released * BAR).div_ceil(most);
        let won_length = (won * BAR).div_ceil(most).min(length);
        let bar = "▓".repeat(won_length as usize) + &"█".repeat((length - won_length) as usize);
        let label = hour.get(5..16).unwrap_or(hour).replace('T', " ");
        lines.push(format!("  {label}  {bar} {}", grouped(released)));
    }
    section(&lines.join("\n"));
    Ok(())
}

fn sum(window: &Window, units: impl Fn(&crate::proto::WindowPrize) -> u64) -> u64 {
    window.prizes.iter().map(units).sum()
}

/// The balance of P2 for each prize.
fn sums(stats: &GetStatsResponse) {
    let mut table = Table::new(
        ["stock", "left", "waiting", "held", "won", "withdrawn"]
            .into_iter()
            .fold(vec![("prize", Side::Left)], |mut columns, name| {
                columns.push((name, Side::Right));
                columns
            }),
    );
    for prize in &stats.prizes {
        let parts = [
            prize.left,
            prize.waiting,
            prize.held,
            prize.won,
            prize.withdrawn,
        ];
        let mut row = vec![prize.prize_id.clone(), grouped(prize.stock)];
        row.extend(parts.map(grouped));
        table.row(row);
    }
    let verdict = if stats.balanced {
        "nothing vanished: stock = left + waiting + held + won + withdrawn"
    } else {
        "THE SUMS DO NOT ADD UP"
    };
    section(&format!(
        "Where every unit is\n{}\n{verdict}",
        table.render()
    ));
}

/// Prints commands to try next.
pub(super) fn invite(address: SocketAddr) {
    say(&format!(
        "Serving on {address} until Ctrl-C, with the clock running from 30 November on; two users \
         a second go on drawing. Try:

  grpcurl -plaintext {address} list
  grpcurl -plaintext -d '{{\"campaign_id\": \"spring-wheel\", \"user_id\": \"me\", \
         \"request_id\": \"my-1\"}}' \\
      {address} tombola.v1.LotteryService/Draw
  grpcurl -plaintext -d '{{\"campaign_id\": \"spring-wheel\", \"user_id\": \"me\"}}' \\
      {address} tombola.v1.LotteryService/CheckLimit
  tombola --server http://{address} stats spring-wheel"
    ));
}
