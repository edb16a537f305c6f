//! What is called: the scenarios, and the calls that each makes of a service. A further scenario is a variant of [`Scenario`], its
//! campaigns in `campaigns`, and its call in [`GrpcCaller::call`]; grabs of envelopes belong here too.

use std::{sync::Arc, time::Duration};

use clap::ValueEnum;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

use super::load::{Answer, Caller, Fault, Target};
use crate::cli::failure::innermost;
use crate::proto::{
    CheckLimitRequest, DrawRequest, DrawResponse, GetDrawRequest, Outcome,
    lottery_service_client::LotteryServiceClient,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Users whose limits are asked for: so many have drawn.
pub(super) const CHECKED_USERS: u64 = 10_000;

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Scenario {
    /// A bare gRPC server's fixed answer to a draw: what the others are held against
    Empty,
    /// A draw from a schedule's released units, each by a user of its own
    Draw,
    /// The same by users whose ids are scattered over all there are
    Scattered,
    /// A draw from a deck in which 60 of 100 cards win
    Deck,
    /// CheckLimit of users who have drawn
    Check,
    /// Of twenty calls 14 draws, 4 CheckLimit, 1 retry and 1 GetDraw
    Mix,
    /// Draws while units are injected beside them
    Inject,
    /// All draws by one user
    HotUser,
    /// 15 of 16 draws from one campaign, the others from 15 more
    HotCampaign,
    /// Draws from 64 campaigns in turn
    ManyCampaigns,
}

impl Scenario {
    /// As on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Draw => "draw",
            Self::Scattered => "scattered",
            Self::Deck => "deck",
            Self::Check => "check",
            Self::Mix => "mix",
            Self::Inject => "inject",
            Self::HotUser => "hot-user",
            Self::HotCampaign => "hot-campaign",
            Self::ManyCampaigns => "many-campaigns",
        }
    }

    /// Its draws take the units of the schedule.
    pub(super) fn draws_from_the_schedule(self) -> bool {
        matches!(
            self,
            Self::Draw | Self::Scattered | Self::Mix | Self::Inject | Self::HotUser
        )
    }
}

/// The form of user ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ids {
    /// The scenario's name and a number: neighbours follow each other.
    Following,
    /// 8 characters.
    Short,
    /// A UUID: 36 characters.
    Uuid,
}

/// A service, and how it is called.
#[derive(Clone, Debug)]
pub(super) struct Grpc {
    pub(super) url: String,
    pub(super) scenario: Scenario,
    /// Campaigns that are drawn from; the first one is the one where there is only one.
    pub(super) campaigns: Vec<String>,
    pub(super) ids: Ids,
    /// Whatever the scenario, its users draw: before they are asked about.
    pub(super) draws_only: bool,
}

/// One who calls a service.
#[derive(Clone)]
pub(super) struct GrpcCaller {
    lottery: LotteryServiceClient<Channel>,
    calls: Arc<Grpc>,
}

impl Target for Grpc {
    type Caller = GrpcCaller;

    async fn connect(&self) -> Result<GrpcCaller, Fault> {
        let channel = Endpoint::from_shared(self.url.clone())?
            .connect_timeout(CONNECT_TIMEOUT)
            .connect()
            .await
            .map_err(|error| {
                format!("{} cannot be connected to: {}", self.url, innermost(&error))
            })?;
        Ok(GrpcCaller {
            lottery: LotteryServiceClient::new(channel),
            calls: Arc::new(self.clone()),
        })
    }
}

impl Caller for GrpcCaller {
    async fn call(&mut self, number: u64) -> Answer {
        let calls = Arc::clone(&self.calls);
        match calls.scenario {
            _ if calls.draws_only => self.draw(calls.draw(number)).await,
            Scenario::Check => self.check(&calls, calls.user(number % CHECKED_USERS)).await,
            Scenario::Mix => match number % 20 {
                0..=13 => self.draw(calls.draw(number)).await,
                14..=17 => self.check(&calls, calls.user(number - number % 20)).await,
                // Of a draw that was made earlier: the first one of twenty, surely answered by now.
                18 => self.draw(calls.draw(earlier(number))).await,
                _ => self.get(&calls, earlier(number)).await,
            },
            Scenario::Empty
            | Scenario::Draw
            | Scenario::Scattered
            | Scenario::Deck
            | Scenario::Inject
            | Scenario::HotUser
            | Scenario::HotCampaign
            | Scenario::ManyCampaigns => self.draw(calls.draw(number)).await,
        }
    }
}

/// A draw of the mix that was made long before.
fn earlier(number: u64) -> u64 {
    const CALLS_BETWEEN: u64 = 40_000;
    let earlier = number.saturating_sub(CALLS_BETWEEN);
    earlier - earlier % 20
}

impl Grpc {
    /// The draw of a number.
    pub(super) fn draw(&self, number: u64) -> DrawRequest {
        let request_id = match self.ids {
            Ids::Following => format!("request-{number:010}"),
            _ => id(self.ids, number),
        };
        DrawRequest {
            campaign_id: self.campaign(number).into(),
            user_id: self.user(number),
            request_id,
            ..DrawRequest::default()
        }
    }

    fn user(&self, number: u64) -> String {
        match self.scenario {
            Scenario::HotUser => "hot-user".into(),
            Scenario::Scattered => format!("{:016x}", scramble(number)),
            scenario => match self.ids {
                Ids::Following => format!("{}-{number:010}", scenario.name()),
                ids => id(ids, number),
            },
        }
    }

    fn campaign(&self, number: u64) -> &str {
        let count = self.campaigns.len() as u64;
        let place = match self.scenario {
            Scenario::ManyCampaigns => number % count,
            Scenario::HotCampaign if number.is_multiple_of(16) => number / 16 % count,
            _ => 0,
        };
        self.campaigns
            .get(place as usize)
            .map_or("", String::as_str)
    }
}

/// An id of a form, another for each number.
fn id(ids: Ids, number: u64) -> String {
    match ids {
        Ids::Uuid => {
            let (high, low) = (scramble(number), scramble(!number));
            format!(
                "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
                high >> 32,
                (high >> 16) & 0xffff,
                high & 0xfff,
                low >> 52,
                low & 0xffff_ffff_ffff
            )
        }
        Ids::Following | Ids::Short => format!("{number:08}"),
    }
}

/// Spreads numbers over all ids, as real users' ids are (the finaliser of SplitMix64).
fn scramble(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl GrpcCaller {
    async fn draw(&mut self, request: DrawRequest) -> Answer {
        match self.lottery.draw(request).await {
            Ok(answer) if has_won(answer.get_ref()) => Answer::Won,
            Ok(_) => Answer::Done,
            Err(status) => Answer::Failed(reason(&status)),
        }
    }

    async fn check(&mut self, calls: &Grpc, user_id: String) -> Answer {
        let request = CheckLimitRequest {
            campaign_id: calls.campaign(0).into(),
            user_id,
        };
        match self.lottery.check_limit(request).await {
            Ok(_) => Answer::Done,
            Err(status) => Answer::Failed(reason(&status)),
        }
    }

    /// Asks for an earlier draw, which may still be on its way.
    async fn get(&mut self, calls: &Grpc, number: u64) -> Answer {
        let draw = calls.draw(number);
        let request = GetDrawRequest {
            campaign_id: draw.campaign_id,
            user_id: draw.user_id,
            request_id: draw.request_id,
        };
        match self.lottery.get_draw(request).await {
            Ok(_) => Answer::Done,
            Err(status) if status.code() == Code::NotFound => Answer::Done,
            Err(status) => Answer::Failed(reason(&status)),
        }
    }
}

fn has_won(answer: &DrawResponse) -> bool {
    let mut results = answer.results.iter();
    results.any(|result| result.outcome() == Outcome::Won)
}

/// The reason that the service gave, or the code's name where the error comes from the way to it.
pub(super) fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    match details.error_info() {
        Some(info) => info.reason.clone(),
        None => format!("{:?}", status.code()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::{RequestId, UserId};

    fn calls(scenario: Scenario, ids: Ids) -> Grpc {
        Grpc {
            url: String::new(),
            scenario,
            campaigns: (0..64).map(|n| format!("campaign-{n}")).collect(),
            ids,
            draws_only: false,
        }
    }

    #[test]
    fn every_draw_has_a_user_and_a_request_of_its_own() {
        for ids in [Ids::Following, Ids::Short, Ids::Uuid] {
            for scenario in [Scenario::Draw, Scenario::Scattered] {
                let calls = calls(scenario, ids);
                let draws: Vec<DrawRequest> = (0..1000).map(|n| calls.draw(n)).collect();
                for field in [
                    |d: &DrawRequest| d.user_id.clone(),
                    |d: &DrawRequest| d.request_id.clone(),
                ] {
                    let all: BTreeSet<String> = draws.iter().map(field).collect();
                    assert_eq!(all.len(), 1000);
                }
                assert!(UserId::parse("", &draws[7].user_id).is_ok());
                assert!(RequestId::parse("", &draws[7].request_id).is_ok());
            }
        }
    }

    #[test]
    fn ids_have_the_length_that_is_asked_for() {
        assert_eq!(id(Ids::Short, 7).len(), 8);
        assert_eq!(id(Ids::Uuid, 7).len(), 36);
    }

    #[test]
    fn a_hot_campaign_has_fifteen_of_sixteen_draws_and_many_campaigns_share_alike() {
        let hot = calls(Scenario::HotCampaign, Ids::Following);
        let first = (0..16 * 64).filter(|n| hot.campaign(*n) == "campaign-0");
        assert_eq!(first.count(), 15 * 64 + 1);
        let many = calls(Scenario::ManyCampaigns, Ids::Following);
        assert_eq!(
            (0..640)
                .filter(|n| many.campaign(*n) == "campaign-9")
                .count(),
            10
        );
    }
}
