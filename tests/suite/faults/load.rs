//! Clients that draw until their server is gone, and remember the responses.

use std::time::Duration;

use jiff::Timestamp;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tombola::{
    model::file,
    proto::{ApplyCampaignRequest, DrawRequest, DrawResponse, Funding},
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::process::Server;

/// Clients that run in parallel.
const CLIENTS: u64 = 24;
/// How long a client waits for a response. A library may wait for ever for a connection that ended
/// just when the call was made.
const PATIENCE: Duration = Duration::from_secs(60);

/// A schedule, a deck that is dealt again without its grand prize, and limits that are soon
/// reached.
/// The campaigns that [`apply`] creates.
pub const CAMPAIGNS: &str = "
id: flow
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
consolation: {id: points, name: Points}
prizes: [{id: coupon, stock: 9000000}]
pools: [{id: hours, schedule: {perHour: {coupon: 5000}}}]
---
id: cards
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: jewel, stock: 3, grand: true}, {id: coin, stock: 1000000}]
pools: [{id: deck, deck: {size: 400, cards: {jewel: 3, coin: 150}, onExhausted: RESHUFFLE}}]
---
id: limited
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
limits: {drawsPerDay: 40, paidDrawsPerDay: 30, drawsPerUser: 60, winsPerUser: 10}
consolation: {id: points, name: Points}
prizes: [{id: mug, stock: 1000000}]
pools: [{id: deck, deck: {size: 100, cards: {mug: 50}, onExhausted: RESHUFFLE}}]
";

/// A campaign with a budget, which [`apply`] leaves out.
pub const WITH_BUDGET: &str = "
id: bounded
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
budget: {perDay: {currencyCode: CNY, units: 100}, total: {currencyCode: CNY, units: 1000}}
prizes: [{id: voucher, stock: 100, value: {currencyCode: CNY, units: 10}}]
pools: [{id: deck, deck: {size: 10, cards: {voucher: 1}, onExhausted: RESHUFFLE}}]
";

/// The ids of these campaigns.
pub const IDS: [&str; 3] = ["flow", "cards", "limited"];

/// Creates these campaigns.
pub async fn apply(server: &Server) {
    apply_all(server, CAMPAIGNS).await;
}

/// Creates these campaigns for the real time, in a zone where it is about noon.
pub async fn apply_now(server: &Server) {
    apply_all(server, &now_and_about_noon(CAMPAIGNS)).await;
}

/// Moves campaigns of a test clock to the real time, in a zone where it is about noon: no day ends
/// while a test runs.
pub fn now_and_about_noon(campaigns: &str) -> String {
    let now = Timestamp::now().as_second();
    let hour = now / 3600 % 24;
    let zone = match 12 - hour {
        ahead @ 0.. => format!("Etc/GMT-{ahead}"), // these names count westwards
        behind => format!("Etc/GMT+{}", -behind),
    };
    let day = |days: i64| {
        let start = now - now % 86_400 + days * 86_400;
        Timestamp::from_second(start).unwrap().to_string()
    };
    campaigns
        .replace("Asia/Shanghai", &zone)
        .replace("2026-12-01T00:00:00+08:00", &day(-2))
        .replace("2027-01-01T00:00:00+08:00", &day(20))
}

/// Creates campaigns.
pub async fn apply_all(server: &Server, campaigns: &str) {
    let client = server.campaigns().await;
    for campaign in file::parse(campaigns).unwrap() {
        let request = ApplyCampaignRequest {
            request_id: format!("apply-{}", campaign.id),
            campaign: Some(campaign),
            operator: "faults".into(),
            ..Default::default()
        };
        patiently(async || client.clone().apply_campaign(request.clone()).await)
            .await
            .unwrap();
    }
}

/// Repeats a call while the store does not answer in time, as on a machine with a busy disk.
pub async fn patiently<T>(call: impl AsyncFn() -> Result<T, Status>) -> Result<T, Status> {
    const RETRIES: usize = 10;
    for _ in 0..RETRIES {
        match call().await {
            Err(status) if status.code() == Code::Unavailable => {}
            answer => return answer,
        }
    }
    call().await
}

/// A draw, and what its client heard.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub request: DrawRequest,
    pub heard: Heard,
}

/// What a client heard of a draw.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The draw was acknowledged, with this response.
    Answer(Box<DrawResponse>),
    /// It was not made.
    Refused,
    /// No response, or that the draw may have been made.
    Nothing,
}

/// What an error says about the draw: only the service's own `executed: no` means that it was not
/// made.
pub fn heard_from(status: &Status) -> Heard {
    let details = status.get_error_details();
    let executed = details
        .error_info()
        .and_then(|info| info.metadata.get("executed"));
    match executed.map(String::as_str) {
        Some("no") => Heard::Refused,
        _ => Heard::Nothing,
    }
}

/// The running clients.
pub struct Load {
    clients: JoinSet<Vec<Attempt>>,
    answers: mpsc::UnboundedReceiver<()>,
}

impl Load {
    /// Starts the clients; the seed and the round decide who draws what.
    pub async fn start(server: &Server, seed: u64, round: u64) -> Self {
        let (sender, answers) = mpsc::unbounded_channel();
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let client = Client {
                name: format!("{round}-{number}"),
                generation: round / 3,
                rng: StdRng::seed_from_u64(seed ^ (round << 32) ^ (number << 16)),
                answers: sender.clone(),
            };
            clients.spawn(client.draw(server.lottery().await));
        }
        Self { clients, answers }
    }

    /// Waits until the clients have this many responses together.
    pub async fn answered(&mut self, count: u64) {
        for _ in 0..count {
            self.answers.recv().await.unwrap();
        }
    }

    /// What all clients heard; the server must be gone.
    pub async fn end(self) -> Vec<Attempt> {
        self.clients.join_all().await.concat()
    }
}

struct Client {
    name: String,
    generation: u64,
    rng: StdRng,
    answers: mpsc::UnboundedSender<()>,
}

impl Client {
    /// Draws until there is no response any more.
    async fn draw(
        mut self,
        mut lottery: tombola::proto::lottery_service_client::LotteryServiceClient<
            tonic::transport::Channel,
        >,
    ) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        loop {
            let request = request(&mut self.rng, &self.name, self.generation, attempts.len());
            let heard = match timeout(PATIENCE, lottery.draw(request.clone())).await {
                Ok(Ok(response)) => Heard::Answer(Box::new(response.into_inner())),
                Ok(Err(status)) => heard_from(&status),
                Err(_) => Heard::Nothing,
            };
            let is_over = matches!(heard, Heard::Nothing);
            attempts.push(Attempt { request, heard });
            if is_over {
                return attempts;
            }
            self.answers.send(()).ok();
        }
    }
}

/// A client's next draw, by one of six users of its generation.
pub fn request(rng: &mut StdRng, client: &str, generation: u64, number: usize) -> DrawRequest {
    let campaign = IDS[rng.random_range(0..IDS.len())];
    let user = rng.random_range(0..6);
    let funding = if rng.random_bool(0.3) {
        Funding::Paid
    } else {
        Funding::Free
    };
    DrawRequest {
        campaign_id: campaign.into(),
        user_id: format!("u-{generation}-{user}"),
        request_id: format!("r-{client}-{number}"),
        count: rng.random_range(1..=5),
        funding: funding.into(),
        ..Default::default()
    }
}
