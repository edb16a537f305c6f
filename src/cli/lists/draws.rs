//! `tombola draws`: draws and how they came out.

use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;

use super::{List, ListArgs, Page, print, zone_of};
use crate::{
    cli::{
        client::{Client, Ledger, Outcome, campaign_id, request_id, user_id},
        failure::Failure,
        output::Side,
    },
    model::convert::sheets::draws,
    proto::{self, Funding, ListDrawsRequest, RecordedDraw},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Paid {
    /// Free quota or bonus draws
    Free,
    /// Paid quota
    Paid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CameOut {
    /// A unit was won
    Won,
    /// The consolation prize
    Consolation,
    /// Nothing
    Nothing,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola draws --campaign spring-wheel --user user-1
  tombola draws --campaign spring-wheel --funding paid --outcome nothing --limit 50")]
pub(in crate::cli) struct DrawsArgs {
    /// Only this campaign's
    #[arg(long, env = "TOMBOLA_CAMPAIGN", value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: Option<String>,
    /// Only this user's
    #[arg(long, env = "TOMBOLA_USER", value_name = "USER", value_parser = user_id)]
    user: Option<String>,
    /// Only under this request id
    #[arg(long = "request", env = "TOMBOLA_REQUEST", value_name = "ID", value_parser = request_id)]
    request: Option<String>,
    /// Only draws that were paid for in this way
    #[arg(long, env = "TOMBOLA_FUNDING", value_enum)]
    funding: Option<Paid>,
    /// Only draws with such a result
    #[arg(long, env = "TOMBOLA_OUTCOME", value_enum)]
    outcome: Option<CameOut>,
    #[command(flatten)]
    list: ListArgs,
}

pub(in crate::cli) async fn run(client: &Client, args: DrawsArgs) -> Outcome {
    let zone = zone_of(client, args.campaign.as_deref()).await;
    let funding = match args.funding {
        None => Funding::Unspecified,
        Some(Paid::Free) => Funding::Free,
        Some(Paid::Paid) => Funding::Paid,
    };
    let outcome = match args.outcome {
        None => proto::Outcome::Unspecified,
        Some(CameOut::Won) => proto::Outcome::Won,
        Some(CameOut::Consolation) => proto::Outcome::Consolation,
        Some(CameOut::Nothing) => proto::Outcome::Nothing,
    };
    let request = ListDrawsRequest {
        user_id: args.user.unwrap_or_default(),
        campaign_id: args.campaign.unwrap_or_default(),
        start_time: args.list.start_time(),
        end_time: args.list.end_time(),
        funding: funding.into(),
        outcome: outcome.into(),
        request_id: args.request.unwrap_or_default(),
        ..ListDrawsRequest::default()
    };
    let draws = Draws {
        server: client.ledger().await?,
        request,
    };
    print(client, draws, &args.list, &zone).await
}

pub(super) struct Draws {
    pub(super) server: Ledger,
    pub(super) request: ListDrawsRequest,
}

impl List for Draws {
    type Element = RecordedDraw;
    const NAME: &'static str = "draws";
    const MESSAGE: &'static str = "tombola.v1.RecordedDraw";
    const SPARSE: &'static [&'static str] = &[draws::SEGMENTS, draws::CODES];

    fn columns(&self) -> Vec<(&'static str, Side)> {
        draws::COLUMNS.map(|name| (name, Side::Left)).into()
    }

    fn row(&self, draw: &RecordedDraw, zone: &TimeZone) -> Vec<String> {
        draws::row(draw, zone)
    }

    async fn page(&mut self, size: u32, token: String) -> Outcome<Page<RecordedDraw>> {
        self.request.page_size = size;
        self.request.page_token = token;
        let page = self.server.list_draws(self.request.clone()).await;
        let page = page.map_err(Failure::read)?.into_inner();
        Ok(Page {
            elements: page.draws,
            next: page.next_page_token,
            complete_until: page.complete_until,
        })
    }
}
