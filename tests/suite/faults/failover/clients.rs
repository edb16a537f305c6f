//! Clients that draw again and again, and record every answer.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{task::JoinSet, time::sleep};
use tombola::proto::{DrawRequest, DrawResponse, lottery_service_client::LotteryServiceClient};
use tonic::{
    Request, Status,
    transport::{Channel, Endpoint},
};

use crate::{
    faults::load::{Heard, heard_from},
    process::Server,
};

type Lottery = LotteryServiceClient<Channel>;

/// Clients that run in parallel.
const CLIENTS: u64 = 16;
/// Users of each client in each campaign.
const USERS: u32 = 50;
/// The longest pause of a client between two draws, in milliseconds. It is long because several
/// groups of servers share the machine.
const THINK_MAX: u64 = 50;
/// How long a client waits for one call.
const CALL_MAX: Duration = Duration::from_secs(4);
/// The pause between two attempts at the same draw.
const BACK_OFF: Duration = Duration::from_millis(20);
/// The pause after a refusal because of a halted partition: only an operator ends a halt.
const HALT_PAUSE: Duration = Duration::from_millis(250);
/// How long a client retries a draw after the end, and how long draws may take to go on.
const PATIENCE: Duration = Duration::from_secs(60);

/// A draw, and what its client knows of it in the end.
#[derive(Clone, Debug)]
pub struct Record {
    pub request: DrawRequest,
    pub end: End,
}

/// What a client knows of a draw.
#[derive(Clone, Debug)]
pub enum End {
    /// It was made, with this response.
    Acknowledged(Box<DrawResponse>),
    /// It was not made: the first and only attempt said `executed: no`.
    No,
    /// It may have been made.
    Unknown,
}

/// The results of all clients.
#[derive(Default)]
pub struct Outcomes {
    pub records: Vec<Record>,
    /// Retries of an acknowledged draw that got another response.
    pub other_outcomes: u64,
    /// Campaigns whose last draws were refused because their partition is halted.
    pub halted: Vec<String>,
    /// The longest time since the fault in which a campaign had no acknowledged draw; halted
    /// campaigns do not count.
    pub pause: Duration,
}

/// The running clients.
pub struct Clients {
    tasks: JoinSet<Vec<Record>>,
    shared: Arc<Shared>,
}

struct Shared {
    campaigns: Vec<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ends_at: Option<Instant>,
    fault_at: Option<Instant>,
    acknowledged: u64,
    other_outcomes: u64,
    of_campaign: BTreeMap<String, Campaign>,
}

#[derive(Default)]
struct Campaign {
    /// When the latest acknowledged call began, and when it was acknowledged.
    last: Option<(Instant, Instant)>,
    acknowledged: u64,
    pause: Duration,
    is_halted: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clients {
    /// Starts the clients. They draw from these campaigns, and send each attempt to any of these
    /// services.
    pub fn start(servers: &[&Server], campaigns: &[String], seed: u64) -> Self {
        let shared = Arc::new(Shared {
            campaigns: campaigns.to_vec(),
            state: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        for number in 0..CLIENTS {
            let lotteries = servers.iter().map(|server| {
                let endpoint = Endpoint::from_shared(server.url()).unwrap();
                LotteryServiceClient::new(endpoint.connect_lazy())
            });
            let client = Client {
                number,
                rng: StdRng::seed_from_u64(seed ^ (number << 16)),
                lotteries: lotteries.collect(),
                shared: Arc::clone(&shared),
            };
            tasks.spawn(client.draw());
        }
        Self { tasks, shared }
    }

    /// Waits until this many more draws are acknowledged. Returns false if that takes too long.
    #[must_use]
    pub async fn go_on(&self, draws: u64) -> bool {
        let enough = self.shared.state().acknowledged + draws;
        self.until(|state| state.acknowledged >= enough).await
    }

    /// Waits until this many more draws of the first campaign are acknowledged. Returns false if
    /// that takes too long.
    #[must_use]
    pub async fn go_on_in_first(&self, draws: u64) -> bool {
        let first = &self.shared.campaigns[0];
        let count = |state: &State| {
            state
                .of_campaign
                .get(first)
                .map_or(0, |first| first.acknowledged)
        };
        let enough = count(&self.shared.state()) + draws;
        self.until(|state| count(state) >= enough).await
    }

    /// Notes that the fault begins now.
    pub fn fault(&self) {
        self.shared.state().fault_at = Some(Instant::now());
    }

    /// Waits until every campaign is halted or has an acknowledged draw that began after this call,
    /// and, unless all are halted, until this many more draws are acknowledged. Returns false if
    /// that takes too long.
    #[must_use]
    pub async fn recover(&self, draws: u64) -> bool {
        let since = Instant::now();
        let enough = self.shared.state().acknowledged + draws;
        let goes_on = |campaign: &Campaign| {
            campaign.is_halted || campaign.last.is_some_and(|(begun, _)| begun >= since)
        };
        let campaigns = self.shared.campaigns.len();
        self.until(|state| {
            let all = state.of_campaign.values();
            let are_halted = all.clone().all(|campaign| campaign.is_halted);
            all.len() == campaigns
                && all.clone().all(goes_on)
                && (are_halted || state.acknowledged >= enough)
        })
        .await
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) -> bool {
        let begun = Instant::now();
        while !is_so(&self.shared.state()) {
            if begun.elapsed() > PATIENCE {
                return false;
            }
            sleep(Duration::from_millis(2)).await;
        }
        true
    }

    /// Stops the clients, once they know the outcome of every draw that can be known.
    pub async fn end(self) -> Outcomes {
        self.shared.state().ends_at = Some(Instant::now() + PATIENCE);
        let records = self.tasks.join_all().await.concat();
        let state = self.shared.state();
        let (halted, alive): (Vec<_>, Vec<_>) = state
            .of_campaign
            .iter()
            .partition(|(_, campaign)| campaign.is_halted);
        Outcomes {
            records,
            other_outcomes: state.other_outcomes,
            halted: halted.into_iter().map(|(id, _)| id.clone()).collect(),
            pause: alive
                .iter()
                .map(|(_, campaign)| campaign.pause)
                .max()
                .unwrap_or_default(),
        }
    }
}

struct Client {
    number: u64,
    rng: StdRng,
    lotteries: Vec<Lottery>,
    shared: Arc<Shared>,
}

impl Client {
    async fn draw(mut self) -> Vec<Record> {
        let mut records = Vec::new();
        while self.shared.state().ends_at.is_none() {
            let request = self.request(records.len());
            let end = self.insist(&request).await;
            if let End::No = end {
                sleep(BACK_OFF).await;
            }
            records.push(Record { request, end });
            sleep(Duration::from_millis(self.rng.random_range(0..=THINK_MAX))).await;
        }
        records
    }

    fn request(&mut self, number: usize) -> DrawRequest {
        let campaigns = &self.shared.campaigns;
        let user = self.rng.random_range(0..USERS);
        DrawRequest {
            campaign_id: campaigns[self.rng.random_range(0..campaigns.len())].clone(),
            user_id: format!("u-{}-{user}", self.number),
            request_id: format!("r-{}-{number}", self.number),
            count: self.rng.random_range(1..=3),
            ..Default::default()
        }
    }

    /// Retries with the same request id until the outcome of the draw is known. A clear no to the
    /// first attempt is final.
    async fn insist(&mut self, request: &DrawRequest) -> End {
        let mut may_be_made = false;
        loop {
            let begun = Instant::now();
            let status = match self.call(request).await {
                Ok(response) => {
                    self.acknowledge(request, begun);
                    self.ask_again(request, &response).await;
                    return End::Acknowledged(Box::new(response));
                }
                Err(status) => status,
            };
            let is_halted = self.note_halt(request, &status);
            if is_halted {
                sleep(HALT_PAUSE).await;
            }
            match heard_from(&status) {
                Heard::Refused if !may_be_made => return End::No,
                Heard::Refused => {}
                Heard::Nothing | Heard::Answer(_) => may_be_made = true,
            }
            let is_over = self
                .shared
                .state()
                .ends_at
                .is_some_and(|end| Instant::now() > end);
            if is_over || is_halted {
                return End::Unknown;
            }
            sleep(BACK_OFF).await;
        }
    }

    async fn call(&mut self, request: &DrawRequest) -> Result<DrawResponse, Status> {
        let service = self.rng.random_range(0..self.lotteries.len());
        let mut request = Request::new(request.clone());
        request.set_timeout(CALL_MAX);
        let response = self.lotteries[service].draw(request).await?;
        Ok(response.into_inner())
    }

    fn acknowledge(&self, request: &DrawRequest, begun: Instant) {
        let mut state = self.shared.state();
        state.acknowledged += 1;
        let (now, fault_at) = (Instant::now(), state.fault_at);
        let campaign = state
            .of_campaign
            .entry(request.campaign_id.clone())
            .or_default();
        campaign.is_halted = false;
        campaign.acknowledged += 1;
        if let (Some(fault_at), Some((_, last))) = (fault_at, campaign.last) {
            campaign.pause = campaign.pause.max(now - last.max(fault_at));
        }
        campaign.last = Some((begun, now));
    }

    /// Notes a refusal because of a halted partition; returns whether this is one.
    fn note_halt(&self, request: &DrawRequest, status: &Status) -> bool {
        let is_halted = matches!(heard_from(status), Heard::Refused)
            && status.message().to_lowercase().contains("halted");
        if is_halted {
            let mut state = self.shared.state();
            let campaign = state
                .of_campaign
                .entry(request.campaign_id.clone())
                .or_default();
            campaign.is_halted = true;
        }
        is_halted
    }

    /// Now and then sends an acknowledged draw again: it must have the same outcome.
    async fn ask_again(&mut self, request: &DrawRequest, first: &DrawResponse) {
        if self.rng.random_bool(0.9) {
            return;
        }
        if let Ok(again) = self.call(request).await
            && again.results != first.results
        {
            self.shared.state().other_outcomes += 1;
        }
    }
}
