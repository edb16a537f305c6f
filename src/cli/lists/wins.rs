//! `tombola wins`: units that were won.

use clap::Args;
use jiff::tz::TimeZone;

use super::{List, ListArgs, Page, print, zone_of};
use crate::{
    cli::{
        client::{Client, Ledger, Outcome, campaign_id, prize_id, user_id},
        failure::Failure,
        output::Side,
    },
    model::convert::sheets::wins,
    proto::{ListWinsRequest, Win},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola wins --campaign spring-wheel --from 2026-12-05T00:00:00+08:00 --format csv
  tombola wins --campaign spring-wheel --prize car --public")]
pub(in crate::cli) struct WinsArgs {
    /// Only this campaign's
    #[arg(long, env = "TOMBOLA_CAMPAIGN", value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: Option<String>,
    /// Only this user's
    #[arg(long, env = "TOMBOLA_USER", value_name = "USER", value_parser = user_id)]
    user: Option<String>,
    /// Only this prize of the campaign
    #[arg(
        long,
        env = "TOMBOLA_PRIZE",
        value_name = "PRIZE",
        value_parser = prize_id,
        requires = "campaign"
    )]
    prize: Option<String>,
    /// A list of winners to publish: most of each user's id is left out, and so are request ids
    #[arg(long, env = "TOMBOLA_PUBLIC")]
    public: bool,
    #[command(flatten)]
    list: ListArgs,
}

pub(in crate::cli) async fn run(client: &Client, args: WinsArgs) -> Outcome {
    let zone = zone_of(client, args.campaign.as_deref()).await;
    let request = ListWinsRequest {
        user_id: args.user.unwrap_or_default(),
        campaign_id: args.campaign.unwrap_or_default(),
        prize_id: args.prize.unwrap_or_default(),
        start_time: args.list.start_time(),
        end_time: args.list.end_time(),
        ..ListWinsRequest::default()
    };
    let wins = Wins {
        server: client.ledger().await?,
        request,
        is_public: args.public,
    };
    print(client, wins, &args.list, &zone).await
}

struct Wins {
    server: Ledger,
    request: ListWinsRequest,
    is_public: bool,
}

impl List for Wins {
    type Element = Win;
    const NAME: &'static str = "wins";
    const MESSAGE: &'static str = "tombola.v1.Win";
    const SPARSE: &'static [&'static str] = &[wins::CODE];

    fn columns(&self) -> Vec<(&'static str, Side)> {
        let names = wins::columns(self.is_public).into_iter();
        names.map(|name| (name, Side::Left)).collect()
    }

    fn row(&self, win: &Win, zone: &TimeZone) -> Vec<String> {
        wins::row(win, zone, self.is_public)
    }

    fn shown(&self, win: Win) -> Win {
        if !self.is_public {
            return win;
        }
        Win {
            user_id: wins::masked(&win.user_id),
            request_id: String::new(),
            delivery: None,
            code_index: None,
            ..win
        }
    }

    async fn page(&mut self, size: u32, token: String) -> Outcome<Page<Win>> {
        self.request.page_size = size;
        self.request.page_token = token;
        let page = self.server.list_wins(self.request.clone()).await;
        let mut page = page.map_err(Failure::read)?.into_inner();
        page.wins
            .retain(|win| !self.is_public || wins::is_published(win));
        Ok(Page {
            elements: page.wins,
            next: page.next_page_token,
            complete_until: page.complete_until,
        })
    }
}
