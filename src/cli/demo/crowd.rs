//! Simulated users. Most draw for free, some pay, some retry, and more of them draw in the evening.

use std::collections::BTreeMap;

use tokio::task::JoinSet;
use tonic::{Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::proto::{
    DrawRequest, DrawResponse, Funding, Outcome, lottery_service_client::LotteryServiceClient,
};

/// Calls in progress at once.
const CALLS_MAX: usize = 64;

/// The results of all draws.
#[derive(Default)]
pub(super) struct Tally {
    /// Draws made.
    pub(super) draws: u64,
    /// Calls that were sent again, and got the same response.
    pub(super) replays: u64,
    /// Draws by name of the prize.
    pub(super) prizes: BTreeMap<String, u64>,
    /// By limit: the users that it refused, and the number of refusals.
    pub(super) refusals: BTreeMap<String, (std::collections::BTreeSet<u32>, u64)>,
}

/// The simulated users.
pub(super) struct Crowd {
    client: LotteryServiceClient<Channel>,
    campaign: String,
    users: u32,
    calls: u64,
    tally: Tally,
}

type Called = (u32, Result<DrawResponse, Status>);

impl Crowd {
    pub(super) fn new(client: LotteryServiceClient<Channel>, campaign: &str, users: u32) -> Self {
        Self {
            client,
            campaign: campaign.into(),
            users,
            calls: 0,
            tally: Tally::default(),
        }
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Lets each user decide whether to draw in these ten minutes.
    pub(super) async fn draw(&mut self, local_hour: u32) -> Result<(), Status> {
        let percent = match local_hour {
            1..=6 => 1,
            20 | 21 => 18,
            _ => 6,
        };
        let mut calls: JoinSet<Called> = JoinSet::new();
        for user in 0..self.users {
            if rand::random_range(0..100) < percent {
                self.call(&mut calls, user);
            }
            while calls.len() >= CALLS_MAX {
                self.note(calls.join_next().await)?;
            }
        }
        while !calls.is_empty() {
            self.note(calls.join_next().await)?;
        }
        Ok(())
    }

    /// Lets somebody new draw.
    pub(super) async fn welcome(&mut self) -> Result<(), Status> {
        self.calls += 1;
        let request = DrawRequest {
            campaign_id: self.campaign.clone(),
            user_id: format!("guest-{}", self.calls),
            request_id: format!("demo-{}", self.calls),
            ..DrawRequest::default()
        };
        self.client.draw(request).await.map(drop)
    }

    fn call(&mut self, calls: &mut JoinSet<Called>, user: u32) {
        let kind = rand::random_range(0..20);
        let (funding, count) = match kind {
            0..=13 => (Funding::Free, 1),
            14..=17 => (Funding::Paid, 1),
            _ => (Funding::Paid, 5),
        };
        self.calls += 1;
        let request = DrawRequest {
            campaign_id: self.campaign.clone(),
            user_id: format!("user-{user}"),
            request_id: format!("demo-{}", self.calls),
            count,
            funding: funding.into(),
            ..DrawRequest::default()
        };
        // For one call in seven, the user acts as if the response was lost, and asks again.
        let tries = if kind % 7 == 3 { 2 } else { 1 };
        for _ in 0..tries {
            let (mut client, request) = (self.client.clone(), request.clone());
            calls.spawn(async move {
                let answer = client.draw(request).await;
                (user, answer.map(tonic::Response::into_inner))
            });
        }
    }

    fn note(
        &mut self,
        called: Option<Result<Called, tokio::task::JoinError>>,
    ) -> Result<(), Status> {
        let Some(called) = called else { return Ok(()) };
        let (user, answer) = called.map_err(|error| Status::internal(error.to_string()))?;
        match answer {
            Ok(answer) if answer.replayed => self.tally.replays += 1,
            Ok(answer) => self.note_results(&answer),
            Err(status) => {
                let details = status.get_error_details();
                let reason = details.error_info().map(|info| info.reason.clone());
                let Some(reason) = reason.filter(|reason| reason.contains("DRAWS_PER")) else {
                    return Err(status);
                };
                let (users, refusals) = self.tally.refusals.entry(reason).or_default();
                users.insert(user);
                *refusals += 1;
            }
        }
        Ok(())
    }

    fn note_results(&mut self, answer: &DrawResponse) {
        for result in &answer.results {
            let name = match result.outcome() {
                Outcome::Nothing | Outcome::Unspecified => "nothing",
                Outcome::Won | Outcome::Consolation => result.prize_name.as_str(),
            };
            *self.tally.prizes.entry(name.into()).or_default() += 1;
            self.tally.draws += 1;
        }
    }
}
