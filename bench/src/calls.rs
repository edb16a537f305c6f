//! The calls that each scenario makes to a service.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tombola::proto::{
    CheckLimitRequest, DrawRequest, DrawResponse, GetDrawRequest, Outcome,
    envelope_service_client::EnvelopeServiceClient, lottery_service_client::LotteryServiceClient,
};
use tonic::{Code, Request};

use crate::{
    envelopes::Envelopes,
    failure::{Fault, innermost, reason},
    load::{Caller, Target},
    record::Answer,
    scenario::{Ids, Scenario, scramble},
    service::{Address, TokenLink},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How many users draw before the scenario `check` asks for their limits.
pub(crate) const CHECKED_USERS: u64 = 10_000;

/// How many users draw in turn in the scenarios `again` and `personal-again`.
const USERS_AGAIN: u64 = 20_000;

/// A service, and how to call it.
#[derive(Clone, Debug)]
pub(crate) struct Grpc {
    pub(crate) address: Address,
    pub(crate) scenario: Scenario,
    /// The campaigns to draw from; scenarios with a single campaign use the first.
    pub(crate) campaigns: Vec<String>,
    pub(crate) ids: Ids,
    /// Every call is a draw, whatever the scenario is: this prepares users for `check`.
    pub(crate) draws_only: bool,
    /// How long a draw may take, if its caller bounds it.
    pub(crate) timeout: Option<Duration>,
}

/// A caller of the service.
#[derive(Clone)]
pub(crate) struct GrpcCaller {
    lottery: LotteryServiceClient<TokenLink>,
    envelopes: EnvelopeServiceClient<TokenLink>,
    calls: Arc<Grpc>,
}

impl Target for Grpc {
    type Caller = GrpcCaller;

    async fn connect(&self) -> Result<GrpcCaller, Fault> {
        let link = self.address.link(CONNECT_TIMEOUT).await.map_err(|fault| {
            let (url, error) = (&self.address.url, innermost(&*fault));
            format!("{url} cannot be connected to: {error}")
        })?;
        Ok(GrpcCaller {
            envelopes: EnvelopeServiceClient::new(link.clone()),
            lottery: LotteryServiceClient::new(link),
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
                // Asks for an earlier draw: the first of every twenty calls, which has its answer
                // by now.
                18 => self.draw(calls.draw(earlier(number))).await,
                _ => self.get(&calls, earlier(number)).await,
            },
            Scenario::Empty
            | Scenario::Draw
            | Scenario::Scattered
            | Scenario::Again
            | Scenario::Deck
            | Scenario::Capped
            | Scenario::Personal
            | Scenario::PersonalAgain
            | Scenario::Inject
            | Scenario::HotUser
            | Scenario::HotCampaign
            | Scenario::ManyCampaigns => self.draw(calls.draw(number)).await,
            Scenario::Grab => self.grab(&calls, Envelopes::LARGE, number).await,
            Scenario::GrabStorm => self.grab(&calls, Envelopes::STORMED, number).await,
            Scenario::SmallEnvelopes => self.grab(&calls, Envelopes::SMALL, number).await,
        }
    }
}

/// The number of a draw that the mix made long before; at first, the one halfway back, so that not
/// all calls are about the same one.
fn earlier(number: u64) -> u64 {
    const CALLS_BETWEEN: u64 = 40_000;
    let earlier = number.saturating_sub(CALLS_BETWEEN).max(number / 2);
    earlier - earlier % 20
}

impl Grpc {
    /// The draw with this number.
    pub(crate) fn draw(&self, number: u64) -> DrawRequest {
        let request_id = match self.ids {
            Ids::Following => format!("request-{number:010}"),
            _ => self.ids.of(number),
        };
        DrawRequest {
            campaign_id: self.campaign(number).into(),
            user_id: self.user(number),
            request_id,
            ..DrawRequest::default()
        }
    }

    pub(crate) fn user(&self, number: u64) -> String {
        match self.scenario {
            Scenario::HotUser => "hot-user".into(),
            Scenario::Scattered => format!("{:016x}", scramble(number)),
            Scenario::Again | Scenario::PersonalAgain => {
                format!("again-{:05}", number % USERS_AGAIN)
            }
            scenario => match self.ids {
                Ids::Following => format!("{}-{number:010}", scenario.name()),
                ids => ids.of(number),
            },
        }
    }

    pub(crate) fn campaign(&self, number: u64) -> &str {
        let count = self.campaigns.len() as u64;
        let index = match self.scenario {
            Scenario::ManyCampaigns => number % count,
            Scenario::HotCampaign if number.is_multiple_of(16) => 1 + number / 16 % (count - 1),
            _ => 0,
        };
        self.campaigns
            .get(index as usize)
            .map_or("", String::as_str)
    }
}

impl GrpcCaller {
    async fn draw(&mut self, request: DrawRequest) -> Answer {
        let mut request = Request::new(request);
        let (timeout, begun) = (self.calls.timeout, Instant::now());
        if let Some(timeout) = timeout {
            request.set_timeout(timeout);
        }
        match self.lottery.draw(request).await {
            // The service counts the time from when it reads a request, its caller from before.
            Ok(_) if timeout.is_some_and(|timeout| begun.elapsed() > timeout) => {
                Answer::Failed("DEADLINE_EXCEEDED".into())
            }
            Ok(answer) if has_won(answer.get_ref()) => Answer::Won,
            Ok(_) => Answer::Done,
            Err(status) => Answer::Failed(reason(&status)),
        }
    }

    async fn check(&mut self, calls: &Grpc, user_id: String) -> Answer {
        let request = CheckLimitRequest {
            campaign_id: calls.campaign(0).into(),
            user_id,
            segments: Vec::new(),
        };
        match self.lottery.check_limit(request).await {
            Ok(_) => Answer::Done,
            Err(status) => Answer::Failed(reason(&status)),
        }
    }

    async fn grab(&mut self, calls: &Grpc, kind: Envelopes, number: u64) -> Answer {
        let user = calls.user(number);
        kind.grab(&mut self.envelopes, calls.campaign(0), user, number)
            .await
    }

    /// Asks for an earlier draw, which may still be in progress.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use tombola::model::{RequestId, UserId};

    fn calls(scenario: Scenario, ids: Ids) -> Grpc {
        Grpc {
            address: Address::default(),
            scenario,
            campaigns: (0..64).map(|n| format!("campaign-{n}")).collect(),
            ids,
            draws_only: false,
            timeout: None,
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
    fn the_mix_asks_for_other_draws_from_the_start() {
        assert_eq!(
            [earlier(18), earlier(1019), earlier(100_018)],
            [0, 500, 60_000]
        );
        let asked: BTreeSet<u64> = (0..20_000).step_by(20).map(|n| earlier(n + 18)).collect();
        assert_eq!(asked.len(), 500);
    }

    #[test]
    fn a_hot_campaign_has_fifteen_of_sixteen_draws_and_many_campaigns_share_alike() {
        let hot = calls(Scenario::HotCampaign, Ids::Following);
        let first = (0..16 * 64).filter(|n| hot.campaign(*n) == "campaign-0");
        assert_eq!(first.count(), 15 * 64);
        let many = calls(Scenario::ManyCampaigns, Ids::Following);
        assert_eq!(
            (0..640)
                .filter(|n| many.campaign(*n) == "campaign-9")
                .count(),
            10
        );
    }
}
