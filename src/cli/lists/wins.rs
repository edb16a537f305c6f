//! `tombola wins`: units that were won.

use clap::Args;
use jiff::tz::TimeZone;

use super::{List, ListArgs, Page, ledger, print, zone_of};
use crate::{
    cli::{
        client::{Client, Ledger, Outcome, campaign_id, prize_id, user_id},
        failure::Failure,
        output::Side,
        time::shown,
    },
    proto::{DeliveryState, ListWinsRequest, Win},
};

/// The most characters at each end of an id that a public list shows.
const SHOWN_MAX: usize = 3;

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

    fn columns(&self) -> Vec<(&'static str, Side)> {
        let public = ["won", "campaign", "prize", "name", "user", "unit"];
        let more = ["request", "delivery", "reference", "ledger"];
        let more = more.iter().filter(|_| !self.is_public);
        public
            .iter()
            .chain(more)
            .map(|name| (*name, Side::Left))
            .collect()
    }

    fn row(&self, win: &Win, zone: &TimeZone) -> Vec<String> {
        let user = match self.is_public {
            true => masked(&win.user_id),
            false => win.user_id.clone(),
        };
        let mut cells = vec![
            shown(win.draw_time.as_ref(), zone),
            win.campaign_id.clone(),
            win.prize_id.clone(),
            win.prize_name.clone(),
            user,
            win.unit_id.clone(),
        ];
        if !self.is_public {
            let delivery = win.delivery.clone().unwrap_or_default();
            let state = match delivery.state() {
                DeliveryState::Pending => "pending",
                DeliveryState::Delivered => "delivered",
                DeliveryState::Revoked => "revoked",
                DeliveryState::Unspecified => "unknown",
            };
            cells.extend([
                win.request_id.clone(),
                state.into(),
                delivery.reference,
                ledger(win.ledger_id),
            ]);
        }
        cells
    }

    fn shown(&self, win: Win) -> Win {
        if !self.is_public {
            return win;
        }
        Win {
            user_id: masked(&win.user_id),
            request_id: String::new(),
            delivery: None,
            ..win
        }
    }

    async fn page(&mut self, size: u32, token: String) -> Outcome<Page<Win>> {
        self.request.page_size = size;
        self.request.page_token = token;
        let page = self.server.list_wins(self.request.clone()).await;
        let page = page.map_err(Failure::read)?.into_inner();
        Ok(Page {
            elements: page.wins,
            next: page.next_page_token,
            complete_until: page.complete_until,
        })
    }
}

/// At most a quarter of an id at each end: winners know themselves, and nobody else does.
fn masked(id: &str) -> String {
    let characters: Vec<char> = id.chars().collect();
    let ends = (characters.len() / 4).min(SHOWN_MAX);
    let (head, tail) = (&characters[..ends], &characters[characters.len() - ends..]);
    let text = |part: &[char]| part.iter().collect::<String>();
    format!("{}***{}", text(head), text(tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_of_an_id_is_masked() {
        for (id, public) in [
            ("a", "***"),
            ("bob", "***"),
            ("anna", "a***a"),
            ("user-1234", "us***34"),
            ("anna.smith@example.com", "ann***com"),
            ("用户一二三四五六七八九十", "用户一***八九十"),
        ] {
            assert_eq!(masked(id), public, "{id}");
        }
    }
}
