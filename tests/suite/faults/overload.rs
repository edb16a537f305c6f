//! More calls than a server can answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{sync::mpsc, task::JoinSet};
use tombola::proto::{
    CancelEnvelopeRequest, CreateEnvelopeRequest, GetStatsRequest, ListOperationsRequest,
    PauseCampaignRequest, ResumeCampaignRequest, envelope_service_client::EnvelopeServiceClient,
    ledger_service_client::LedgerServiceClient, lottery_service_client::LotteryServiceClient,
};
use tonic::{Code, Status, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_types::StatusExt as _;

use super::{load, redis::request};
use crate::process::{PATIENCE, Server, Start};

/// Callers that call again at once, whatever they hear.
const CALLERS: u64 = 600;
const CONNECTIONS: u64 = 4;
/// So many draws must be made while others are refused.
const ANSWERED: u64 = 50;

/// The callers, until they are dropped.
struct Crowd {
    callers: JoinSet<()>,
    answered: Arc<AtomicU64>,
    refused: mpsc::UnboundedReceiver<Status>,
    stop: Arc<AtomicBool>,
}

impl Crowd {
    async fn start(server: &Server) -> Self {
        let (refuse, refused) = mpsc::unbounded_channel();
        let mut crowd = Self {
            callers: JoinSet::new(),
            answered: Arc::default(),
            refused,
            stop: Arc::default(),
        };
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(server.lottery().await);
        }
        for caller in 0..CALLERS {
            let lottery = connections[(caller % CONNECTIONS) as usize].clone();
            let (answered, stop) = (Arc::clone(&crowd.answered), Arc::clone(&crowd.stop));
            let refuse = refuse.clone();
            crowd.callers.spawn(async move {
                for number in 0.. {
                    match draw(lottery.clone(), &format!("r-{caller}-{number}")).await {
                        Ok(()) => drop(answered.fetch_add(1, Ordering::Relaxed)),
                        // Nobody reads them once the test is over.
                        Err(status) => drop(refuse.send(status)),
                    }
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        crowd
    }

    /// The next refusal.
    async fn refusal(&mut self) -> Status {
        let refused = tokio::time::timeout(PATIENCE, self.refused.recv()).await;
        refused.expect("nobody is refused").unwrap()
    }

    async fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while self.callers.join_next().await.is_some() {}
    }
}

async fn draw(mut lottery: LotteryServiceClient<Channel>, id: &str) -> Result<(), Status> {
    lottery.draw(request("flow", id, id)).await.map(drop)
}

/// Asserts that nothing happened, and that the caller learns when to come again.
fn is_refused_in_time(status: &Status) {
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!(
        (info.reason.as_str(), info.domain.as_str()),
        ("OVERLOADED", "tombola.v1")
    );
    assert_eq!(info.metadata["executed"], "no");
    let delay = details.retry_info().unwrap().retry_delay.unwrap();
    let delays = Duration::from_millis(100)..Duration::from_millis(500);
    assert!(delays.contains(&delay), "{delay:?}");
}

/// How often an operator does it: a call that is refused by chance is refused in one of them.
const ROUNDS: usize = 20;

/// What an operator does in an emergency, in every service that has something for operators.
async fn operate(server: &Server) {
    let mut operators = server.campaigns().await;
    let mut envelopes = EnvelopeServiceClient::new(server.connect().await);
    let mut ledger = LedgerServiceClient::new(server.connect().await);
    for round in 0..ROUNDS {
        let pause = PauseCampaignRequest {
            campaign_id: "cards".into(),
            operator: "ops".into(),
            ..Default::default()
        };
        operators.pause_campaign(pause).await.unwrap();
        let resume = ResumeCampaignRequest {
            campaign_id: "cards".into(),
            operator: "ops".into(),
            ..Default::default()
        };
        operators.resume_campaign(resume).await.unwrap();
        let cancel = CancelEnvelopeRequest {
            envelope_id: envelope(round),
            operator: "ops".into(),
            ..Default::default()
        };
        envelopes.cancel_envelope(cancel).await.unwrap();
        let list = ListOperationsRequest::default();
        let listed = ledger.list_operations(list).await.unwrap().into_inner();
        assert!(!listed.operations.is_empty());
        let stats = GetStatsRequest {
            campaign_id: "flow".into(),
        };
        let stats = operators.get_stats(stats).await.unwrap().into_inner();
        assert!(stats.balanced);
    }
    let mut health = HealthClient::new(server.connect().await);
    let checked = health.check(HealthCheckRequest::default()).await;
    assert_eq!(
        checked.unwrap().into_inner().status(),
        ServingStatus::Serving
    );
    assert_eq!(server.admin().get("/readyz").0, 200);
}

fn envelope(number: usize) -> String {
    format!("e-{number}")
}

/// Envelopes for operators to cancel, sent before there is too much to do.
async fn send_envelopes(server: &Server) {
    let envelopes = EnvelopeServiceClient::new(server.connect().await);
    for number in 0..ROUNDS {
        let create = CreateEnvelopeRequest {
            envelope_id: envelope(number),
            sender_id: "boss".into(),
            total_minor: 100,
            currency: "CNY".into(),
            packets: 2,
            ..Default::default()
        };
        // A machine that has much else to do refuses some.
        load::patiently(async || envelopes.clone().create_envelope(create.clone()).await)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_calls_are_refused_while_others_are_answered_and_operators_get_through() {
    let data = tempfile::tempdir().unwrap();
    let options = "--admin 127.0.0.1:0 --queue-target 1ms";
    let server = Start::on(data.path()).with(options).serve();
    load::apply(&server).await;
    send_envelopes(&server).await;
    let mut crowd = Crowd::start(&server).await;
    is_refused_in_time(&crowd.refusal().await);
    let before = crowd.answered.load(Ordering::Relaxed);
    operate(&server).await;
    let begun = Instant::now();
    while crowd.answered.load(Ordering::Relaxed) < before + ANSWERED {
        is_refused_in_time(&crowd.refusal().await);
        assert!(begun.elapsed() < PATIENCE, "nobody is answered");
    }
    crowd.end().await;
    let (_, _, metrics) = server.admin().get("/metrics");
    let shed = metrics
        .lines()
        .filter(|line| line.starts_with("tombola_shed_calls_total{"));
    let shed: f64 = shed
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
        .sum();
    assert!(shed > 0.0, "{metrics}");
    // It is over: a single caller is answered again.
    let lottery = server.lottery().await;
    load::patiently(async || draw(lottery.clone(), "after").await)
        .await
        .unwrap();
}
