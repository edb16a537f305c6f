//! `tombola pause`, `resume` and `close`, and `tombola prize pause` and `resume`: each makes one
//! call.

use clap::{Args, Subcommand};

use super::{
    change_view::headline,
    client::{ChangeArgs, Client, Outcome, campaign_id, prize_id},
    failure::Failure,
    proposals::{self, Proposed},
    terminal::confirm,
};
use crate::proto::{
    CampaignStatus, CloseCampaignRequest, PauseCampaignRequest, PausePrizeRequest,
    ResumeCampaignRequest, ResumePrizeRequest,
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola pause spring-wheel --reason \"wrong coupon codes\"")]
pub(super) struct PauseArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola resume spring-wheel")]
pub(super) struct ResumeArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola close spring-wheel --yes")]
pub(super) struct CloseArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Propose the close, which another identity then approves
    #[arg(long, env = "TOMBOLA_PROPOSE")]
    propose: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Subcommand, Clone, Debug)]
pub(super) enum PrizeCommand {
    /// Hold a prize: no draw that begins later wins it
    #[command(after_help = "Example:\n  tombola prize pause spring-wheel coupon")]
    Pause(PrizeArgs),
    /// Release a held prize
    #[command(after_help = "Example:\n  tombola prize resume spring-wheel coupon")]
    Resume(PrizeArgs),
}

#[derive(Args, Clone, Debug)]
pub(super) struct PrizeArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The prize
    #[arg(value_name = "PRIZE", value_parser = prize_id)]
    prize: String,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Sends one change of a command's campaign, and prints the campaign's state after it. A request
/// for a prize names it as a further field.
macro_rules! send {
    (
        $client:ident, $args:ident,
        $method:ident($request:ident { $($field:ident: $value:expr),* }) -> $response:literal
    ) => {{
        let change = $args.change.resolve($client);
        let request = $request {
            campaign_id: $args.campaign,
            $($field: $value,)*
            request_id: change.request_id.clone(),
            operator: change.operator,
            reason: change.reason,
        };
        let answer = $client.campaigns().await?.$method(request).await;
        let answer = answer.map_err(|status| Failure::change(status, &change.request_id))?;
        $client.show($response, answer.get_ref(), |response| {
            state_line(response.status.as_ref(), response.replayed)
        });
        Ok(())
    }};
}

pub(super) async fn pause(client: &Client, args: PauseArgs) -> Outcome {
    send!(client, args, pause_campaign(PauseCampaignRequest {}) -> "PauseCampaignResponse")
}

pub(super) async fn resume(client: &Client, args: ResumeArgs) -> Outcome {
    send!(client, args, resume_campaign(ResumeCampaignRequest {}) -> "ResumeCampaignResponse")
}

pub(super) async fn close(client: &Client, args: CloseArgs) -> Outcome {
    if args.propose {
        let proposed = Proposed::Close(args.campaign);
        return proposals::propose_now(client, proposed, args.change.resolve(client)).await;
    }
    let question = format!(
        "Close {} for good? Nobody can draw from it again.",
        args.campaign
    );
    confirm(&question, args.yes)?;
    send!(client, args, close_campaign(CloseCampaignRequest {}) -> "CloseCampaignResponse")
}

pub(super) async fn prize(client: &Client, command: PrizeCommand) -> Outcome {
    match command {
        PrizeCommand::Pause(args) => send!(
            client, args,
            pause_prize(PausePrizeRequest { prize_id: args.prize }) -> "PausePrizeResponse"
        ),
        PrizeCommand::Resume(args) => send!(
            client, args,
            resume_prize(ResumePrizeRequest { prize_id: args.prize }) -> "ResumePrizeResponse"
        ),
    }
}

fn state_line(status: Option<&CampaignStatus>, replayed: bool) -> String {
    let status = status.cloned().unwrap_or_default();
    let mut text = headline(&status);
    if !status.paused_prize_ids.is_empty() {
        let held = status.paused_prize_ids.join(", ");
        text.push_str(&format!("; prizes held: {held}"));
    }
    if replayed {
        text.push_str(" (done by an earlier call)");
    }
    text
}
