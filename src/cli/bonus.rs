//! `tombola bonus`: gives a user bonus draws as a caller does, within the limit of callers' grants.

use clap::Args;

use super::{
    check,
    client::{Client, Outcome, campaign_id, moment, new_request_id, request_id, user_id, whole},
    failure::Failure,
    grant::repeatable,
    output::counted,
    time::{self, Time, shown},
};
use crate::{model::text::visible, proto::GrantBonusRequest};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Counts against `grantedPerDay` of the campaign; \"tombola grant\" gives what
operators grant, to many users.

Example:
  tombola bonus mall-wheel ann 2 --request-id invited-carl
  tombola bonus mall-wheel ann 1 --expire +24h"
)]
pub(super) struct BonusArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The user who gets them
    #[arg(value_name = "USER", value_parser = user_id)]
    user: String,
    /// Bonus draws, 1 to 10,000: all or none
    #[arg(value_name = "DRAWS", value_parser = whole::<u32>(1..=10_000))]
    draws: u32,
    /// When they expire: 2026-11-20T20:00:00+08:00 or +24h [default: with the campaign]
    #[arg(long, env = "TOMBOLA_EXPIRE", value_name = "TIME", value_parser = Time::parse)]
    expire: Option<Time>,
    /// Names this grant for retries [default: a new one]
    #[arg(long, value_name = "ID", value_parser = request_id)]
    request_id: Option<String>,
}

pub(super) async fn run(client: &Client, args: BonusArgs) -> Outcome {
    let expire = match args.expire {
        Some(time @ Time::After(_)) => {
            Some(moment(&mut client.campaigns().await?, &args.campaign, time).await?)
        }
        Some(Time::At(at)) => Some(at),
        None => None,
    };
    let request = GrantBonusRequest {
        campaign_id: args.campaign,
        user_id: args.user,
        request_id: args.request_id.unwrap_or_else(new_request_id),
        draws: args.draws,
        expire_time: expire.map(time::to_wire),
    };
    let answer = client.lottery().await?.grant_bonus(request.clone()).await;
    let response = answer
        .map_err(|status| {
            let failure = Failure::change(status, &request.request_id);
            repeatable(failure, "--expire", args.expire, expire)
        })?
        .into_inner();
    let zone = client.zone(&request.campaign_id).await;
    client.show("GrantBonusResponse", &response, |response| {
        let replayed = if response.replayed {
            " (by an earlier call)"
        } else {
            ""
        };
        let granted = format!(
            "{} got {} {}{replayed}, request id {}",
            visible(&request.user_id),
            counted(u64::from(request.draws), "bonus draw"),
            shown(response.grant_time.as_ref(), &zone),
            visible(&response.request_id)
        );
        match &response.limits {
            Some(limits) => format!("{granted}\n\n{}", check::limits(limits, &zone)),
            None => granted,
        }
    });
    Ok(())
}
