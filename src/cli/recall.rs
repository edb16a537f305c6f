//! `tombola recall`: takes unreleased units back to stock, or out of the campaign.

use clap::Args;

use super::{
    client::{
        Campaigns, ChangeArgs, Client, Outcome, campaign_id, get_campaign, pool_id, prize_id,
    },
    failure::Failure,
    grant::repeatable,
    output::{Side, Table},
    proposals::{self, Proposed},
    terminal::confirm,
    time::{self, Time},
};
use crate::{
    model::text::grouped,
    proto::{ProposedRecall, RecallUnitsRequest, RecallUnitsResponse},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola recall spring-wheel coupons --window 2026-11-20T20:00:00+08:00 --yes
  tombola recall spring-wheel coupons --window now --prize coupon --yes")]
pub(super) struct RecallArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The pool, which has a schedule
    #[arg(value_name = "POOL", value_parser = pool_id)]
    pool: String,
    /// The hour, named by its start or by any moment as now or +1h [default: every injected hour
    /// that has not ended]
    #[arg(long, env = "TOMBOLA_WINDOW", value_name = "TIME", value_parser = Time::parse)]
    window: Option<Time>,
    /// One prize [default: all]
    #[arg(long, env = "TOMBOLA_PRIZE", value_name = "PRIZE", value_parser = prize_id)]
    prize: Option<String>,
    /// Withdraw the units from the campaign instead of returning them to stock
    #[arg(long, env = "TOMBOLA_WITHDRAW")]
    withdraw: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Propose the recall, which another identity then approves
    #[arg(long, env = "TOMBOLA_PROPOSE")]
    propose: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) async fn run(client: &Client, args: RecallArgs) -> Outcome {
    if !args.propose {
        confirm(&question(&args), args.yes)?;
    }
    let mut server = client.campaigns().await?;
    let window = match args.window {
        Some(time) => Some(window_start(&mut server, &args.campaign, time).await?),
        None => None,
    };
    let change = args.change.resolve(client);
    let again = |failure| repeatable(failure, "--window", args.window, window);
    if args.propose {
        let recall = ProposedRecall {
            pool_id: args.pool,
            window_start_time: window.map(time::to_wire),
            prize_id: args.prize.unwrap_or_default(),
            withdraw: args.withdraw,
        };
        let proposed = Proposed::Recall(args.campaign, recall);
        let sent = proposals::propose_now(client, proposed, change).await;
        return sent.map_err(again);
    }
    let request = RecallUnitsRequest {
        campaign_id: args.campaign,
        pool_id: args.pool,
        window_start_time: window.map(time::to_wire),
        prize_id: args.prize.unwrap_or_default(),
        withdraw: args.withdraw,
        request_id: change.request_id.clone(),
        operator: change.operator,
        reason: change.reason,
    };
    let answer = server.recall_units(request).await;
    let answer = answer.map_err(|status| again(Failure::change(status, &change.request_id)))?;
    client.show("RecallUnitsResponse", answer.get_ref(), view);
    Ok(())
}

fn question(args: &RecallArgs) -> String {
    let what = args.prize.as_deref().unwrap_or("units of every prize");
    let window = if args.window.is_some() {
        "an hour"
    } else {
        "every injected hour"
    };
    let where_to = if args.withdraw {
        "out of the campaign"
    } else {
        "to stock"
    };
    format!(
        "Take unreleased {what} of {window} of {}/{} back {where_to}? Such an hour is filled \
         again only by a new plan.",
        args.campaign, args.pool
    )
}

/// The start of the window: as given, or of the hour that contains a moment relative to now.
async fn window_start(
    server: &mut Campaigns,
    campaign: &str,
    time: Time,
) -> Outcome<jiff::Timestamp> {
    if let Time::At(start) = time {
        return Ok(start);
    }
    let status = get_campaign(server, campaign, 0)
        .await
        .map_err(Failure::read)?;
    let now = time::from_wire(status.read_time.as_ref()).unwrap_or_else(jiff::Timestamp::now);
    let campaign = status.campaign.unwrap_or_default();
    let first = time::from_wire(campaign.start_time.as_ref());
    Ok(time::hour_of(time.by(now), &campaign.time_zone, first))
}

fn view(response: &RecallUnitsResponse) -> String {
    let mut table = Table::new([("prize", Side::Left), ("taken back", Side::Right)]);
    for prize in &response.recalled {
        table.row([prize.prize_id.clone(), grouped(prize.units)]);
    }
    if table.is_empty() {
        return "nothing was left to take back".into();
    }
    table.render()
}
