//! `tombola plan`: replaces the schedule of one pool, and shows the change window by window.

use clap::Args;

use super::{
    change_view,
    client::{
        Campaigns, Change, ChangeArgs, Client, Outcome, campaign_id, get_campaign, new_request_id,
        pool_id, whole,
    },
    failure::Failure,
    input::{self, FileArgs},
    output::counted,
    plan_view,
    shell::this_command_with,
};
use crate::proto::{CampaignStatus, Schedule, SetPlanRequest, SetPlanResponse};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola plan spring-wheel coupons evening.yaml --dry-run
  tombola plan spring-wheel coupons evening.yaml --base-version 3

Here evening.yaml is the whole new schedule, as under `schedule:` in a campaign file, e.g.
  perHour: {coupon: 200}
  daily: [{from: \"20:00\", to: \"22:00\", perHour: {coupon: 1000}}]")]
pub(super) struct PlanArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The pool, which has a schedule
    #[arg(value_name = "POOL", value_parser = pool_id)]
    pool: String,
    #[command(flatten)]
    file: FileArgs,
    /// The version that this changes
    #[arg(long, env = "TOMBOLA_BASE_VERSION", value_name = "N",
          value_parser = whole::<u32>(1..=u32::MAX.into()))]
    base_version: Option<u32>,
    /// Check and show everything, change nothing
    #[arg(long, env = "TOMBOLA_DRY_RUN")]
    dry_run: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) async fn run(client: &Client, args: PlanArgs) -> Outcome {
    let schedule = input::schedule(args.file.path())?;
    let change = args.change.resolve(client);
    let mut server = client.campaigns().await?;
    let before = match args.base_version {
        Some(_) => None,
        None => Some(
            get_campaign(&mut server, &args.campaign, 0)
                .await
                .map_err(Failure::read)?,
        ),
    };
    let version = before.as_ref().map_or(0, |status| status.version);
    let base = args.base_version.unwrap_or(version);
    let dry_run = args.dry_run || before.is_some();
    let response = send(&mut server, &change, &args, schedule, base, dry_run).await;
    let file = input::shown(args.file.path());
    let response = response.map_err(|failure| failure.in_file(&file, "schedule"))?;
    let definition = |status: &CampaignStatus| status.campaign.clone();
    let after = response.status.as_ref().and_then(definition);
    let unchanged = before
        .as_ref()
        .is_some_and(|before| definition(before) == after);
    client.show("SetPlanResponse", &response, |response| {
        if unchanged {
            format!(
                "{}: unchanged, version {base} has the same schedule",
                args.campaign
            )
        } else {
            view(response, dry_run)
        }
    });
    if args.dry_run || before.is_none() || unchanged {
        return Ok(());
    }
    let message =
        format!("nothing was changed: the schedule differs from version {base}, see above");
    let command = this_command_with(&format!("--base-version {base}"));
    let failure = Failure::refused("BASE_VERSION_NEEDED", message);
    Err(failure.advise(format!("to change it: {command}")))
}

async fn send(
    server: &mut Campaigns,
    change: &Change,
    args: &PlanArgs,
    schedule: Schedule,
    base_version: u32,
    dry_run: bool,
) -> Outcome<SetPlanResponse> {
    let request_id = if dry_run {
        new_request_id()
    } else {
        change.request_id.clone()
    };
    let request = SetPlanRequest {
        campaign_id: args.campaign.clone(),
        pool_id: args.pool.clone(),
        base_version,
        schedule: Some(schedule),
        dry_run,
        request_id: request_id.clone(),
        operator: change.operator.clone(),
        reason: change.reason.clone(),
    };
    match server.set_plan(request).await {
        Ok(response) => Ok(response.into_inner()),
        Err(status) if dry_run => Err(Failure::read(status)),
        Err(status) => Err(Failure::change(status, &request_id)),
    }
}

fn view(response: &SetPlanResponse, dry_run: bool) -> String {
    let status = response.status.clone().unwrap_or_default();
    let mut parts = vec![change_view::headline(&status)];
    match (dry_run, response.replayed) {
        (true, _) => parts[0].push_str(" (dry run: nothing was changed)"),
        (false, true) => parts[0].push_str(" (changed by an earlier call)"),
        (false, false) => {}
    }
    if response.window_changes.is_empty() {
        parts.push("no later hour releases more or less than before".into());
    } else {
        parts.push(change_view::windows(
            &response.window_changes,
            change_view::zone(&status),
        ));
    }
    if response.window_changes_omitted > 0 {
        let omitted = u64::from(response.window_changes_omitted);
        parts.push(format!(
            "… and {} more, not listed",
            counted(omitted, "change")
        ));
    }
    parts.extend(response.plan.as_ref().map(plan_view::plan));
    parts.join("\n\n")
}
