//! `tombola win`: a win is delivered, or revoked.

use clap::{Args, Subcommand};

use super::{
    client::{ChangeArgs, Client, Outcome, campaign_id},
    failure::Failure,
};
use crate::{
    model::text::visible,
    proto::{DeliveryState, MarkDeliveredRequest, RevokeWinRequest, Win},
};

#[derive(Subcommand, Clone, Debug)]
pub(super) enum WinCommand {
    /// Note that a win was delivered
    Deliver(DeliverArgs),
    /// Revoke a win, for good
    Revoke(RevokeArgs),
}

/// Names a win.
#[derive(Args, Clone, Debug)]
struct WinArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The unit that was won
    #[arg(value_name = "UNIT")]
    unit: String,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola win deliver spring-wheel coupons:1795960800:17 --reference parcel-4711")]
pub(super) struct DeliverArgs {
    #[command(flatten)]
    win: WinArgs,
    /// The delivery's reference in the system that made it
    #[arg(long, env = "TOMBOLA_REFERENCE", value_name = "TEXT")]
    reference: String,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The unit goes back to stock; after the campaign's end it is withdrawn.

Example:
  tombola win revoke spring-wheel coupons:1795960800:17 --reason \"scripted draws\""
)]
pub(super) struct RevokeArgs {
    #[command(flatten)]
    win: WinArgs,
    /// Withdraw the unit instead of returning it to stock
    #[arg(long, env = "TOMBOLA_WITHDRAW")]
    withdraw: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) async fn run(client: &Client, command: WinCommand) -> Outcome {
    match command {
        WinCommand::Deliver(args) => deliver(client, args).await,
        WinCommand::Revoke(args) => revoke(client, args).await,
    }
}

async fn deliver(client: &Client, args: DeliverArgs) -> Outcome {
    let change = args.change.resolve(client);
    let request = MarkDeliveredRequest {
        campaign_id: args.win.campaign,
        unit_id: args.win.unit,
        reference: args.reference,
        request_id: change.request_id.clone(),
        operator: change.operator,
    };
    let response = client.ledger().await?.mark_delivered(request).await;
    let response = response.map_err(|status| Failure::change(status, &change.request_id))?;
    client.show("MarkDeliveredResponse", response.get_ref(), |response| {
        described(response.win.as_ref())
    });
    Ok(())
}

async fn revoke(client: &Client, args: RevokeArgs) -> Outcome {
    let change = args.change.resolve(client);
    let request = RevokeWinRequest {
        campaign_id: args.win.campaign,
        unit_id: args.win.unit,
        reason: change.reason,
        withdraw: args.withdraw,
        request_id: change.request_id.clone(),
        operator: change.operator,
    };
    let response = client.ledger().await?.revoke_win(request).await;
    let response = response.map_err(|status| Failure::change(status, &change.request_id))?;
    client.show("RevokeWinResponse", response.get_ref(), |response| {
        described(response.win.as_ref())
    });
    Ok(())
}

fn described(win: Option<&Win>) -> String {
    let win = win.cloned().unwrap_or_default();
    let delivery = win.delivery.clone().unwrap_or_default();
    let what = match delivery.state() {
        DeliveryState::Delivered => format!("delivered as {}", visible(&delivery.reference)),
        DeliveryState::Revoked => "revoked".into(),
        DeliveryState::Pending | DeliveryState::Unspecified => "pending".into(),
    };
    format!(
        "{} of {}, won by {}: {what}",
        win.unit_id, win.prize_id, win.user_id
    )
}
