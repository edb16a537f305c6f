//! `tombola check`: what a user may still draw.

use clap::Args;
use jiff::tz::TimeZone;

use super::{
    client::{Client, Outcome, campaign_id, segment_id, user_id},
    failure::Failure,
    output::{Side, Table, counted},
    time::shown,
};
use crate::{
    model::text::grouped,
    proto::{CheckLimitRequest, CheckLimitResponse, GuaranteeProgress, Limits},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola check spring-wheel user-1")]
pub(super) struct CheckArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The user
    #[arg(value_name = "USER", value_parser = user_id)]
    user: String,
    /// A segment that the user is in; may be repeated
    #[arg(
        long = "segment",
        env = "TOMBOLA_SEGMENT",
        value_name = "ID",
        value_delimiter = ',',
        value_parser = segment_id
    )]
    segments: Vec<String>,
}

pub(super) async fn run(client: &Client, args: CheckArgs) -> Outcome {
    let mut server = client.lottery().await?;
    let zone = client.zone(&args.campaign).await;
    let request = CheckLimitRequest {
        campaign_id: args.campaign,
        user_id: args.user,
        segments: args.segments,
    };
    let response = server
        .check_limit(request)
        .await
        .map_err(Failure::read)?
        .into_inner();
    client.show("CheckLimitResponse", &response, |response| {
        view(response, &zone)
    });
    Ok(())
}

fn view(response: &CheckLimitResponse, zone: &TimeZone) -> String {
    let reason = response.reason().as_str_name();
    let reason = reason.strip_prefix("ERROR_REASON_").unwrap_or(reason);
    let allowed = if response.allowed {
        "a free draw would be accepted now".to_owned()
    } else {
        format!("a free draw would be refused now: {reason}")
    };
    match &response.limits {
        Some(user_limits) => format!("{allowed}\n\n{}", limits(user_limits, zone)),
        None => allowed,
    }
}

/// The limits as a table, with times in `zone`. Of caps only the bounds that there are.
pub(super) fn limits(limits: &Limits, zone: &TimeZone) -> String {
    use Side::{Left, Right};
    let columns = [
        ("limit", Left),
        ("used", Right),
        ("of", Right),
        ("remaining", Right),
        ("bonus", Right),
        ("resets", Left),
    ];
    let mut table = Table::new(columns);
    let quotas = [
        ("free draws this hour", &limits.draws_this_hour),
        ("free draws today", &limits.draws_today),
        ("paid draws today", &limits.paid_draws_today),
        ("draws in all", &limits.draws_total),
        ("bonus draws granted today", &limits.granted_today),
        ("wins in all", &limits.wins_total),
    ];
    let quotas = quotas.map(|(name, quota)| (name.to_owned(), quota.as_ref()));
    let caps = limits.prizes.iter().flat_map(|prize| {
        let bounds = [("today", &prize.today), ("in all", &prize.total)];
        bounds.map(|(when, quota)| {
            let bound = quota.as_ref().filter(|quota| quota.limit.is_some());
            (format!("{} {when}", prize.prize_id), bound)
        })
    });
    for (name, quota) in quotas.into_iter().chain(caps) {
        let Some(quota) = quota else { continue };
        let or_unlimited = |count: Option<u64>| count.map_or_else(|| "unlimited".into(), grouped);
        table.row([
            name,
            grouped(quota.used),
            or_unlimited(quota.limit),
            or_unlimited(quota.remaining),
            grouped(quota.bonus),
            shown(quota.reset_time.as_ref(), zone),
        ]);
    }
    if limits.guarantees.is_empty() {
        return table.render();
    }
    format!("{}\n\n{}", table.render(), guarantees(&limits.guarantees))
}

/// How far a user's guarantees are.
fn guarantees(progress: &[GuaranteeProgress]) -> String {
    let columns = [
        ("guarantee", Side::Left),
        ("of pool", Side::Left),
        ("draws since", Side::Right),
        ("kept within", Side::Right),
    ];
    let mut table = Table::new(columns);
    for it in progress {
        let left = match it.draws_left {
            _ if it.due => "the next draw".into(),
            Some(draws) => counted(draws.into(), "draw"),
            None => "-".into(),
        };
        let since = grouped(it.draws_since.into());
        let pool = match it.pool_id.as_str() {
            "" => "(all)".into(),
            id => id.to_owned(),
        };
        table.row([it.guarantee_id.clone(), pool, since, left]);
    }
    table.render()
}
