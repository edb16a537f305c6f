//! Clients that send nothing, read nothing, do nothing, or cancel their calls.

use std::{
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time::sleep};
use tombola::proto::{
    CheckLimitRequest, DrawRequest, GetStatsRequest, lottery_service_client::LotteryServiceClient,
};
use tonic::transport::Channel;

use super::load;
use crate::process::{GOAWAY, Raw, Start};

type Lottery = LotteryServiceClient<Channel>;

const LIST: &str = "/tombola.v1.CampaignService/ListCampaigns";
const CHECK: &str = "/tombola.v1.LotteryService/CheckLimit";

const CREATE: &str = "/tombola.v1.EnvelopeService/CreateEnvelope";
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// The calls that a connection may have at once.
const CALLS_MAX: usize = 1024;

#[test]
fn a_client_that_never_speaks_is_closed() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let silent = TcpStream::connect(server.address).unwrap();
    server.says("does not speak HTTP/2");
    drop(silent);
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let mut slow = Raw::connect(server.address);
    // A client that reads nothing never extends the connection's window of 64 KiB.
    let campaign = crate::process::project("deploy/campaigns/spring-wheel.yaml");
    let apply = ["apply", "-f", campaign.to_str().unwrap()];
    server.run(&apply).well();
    for _ in 0..CALLS_MAX {
        slow.call(LIST);
    }
    slow.live_without_reading();
    server.says("does not read");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_closed_and_its_client_comes_back() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).with("--idle-timeout 1s").serve();
    let mut client = server.lottery().await;
    let request = CheckLimitRequest {
        campaign_id: "none".into(),
        user_id: "u-1".into(),
        segments: Vec::new(),
    };
    let before = client.check_limit(request.clone()).await.unwrap_err();
    let mut idle = Raw::connect(server.address);
    let frames = tokio::task::spawn_blocking(move || idle.frames());
    let frames = frames.await.unwrap();
    assert!(
        frames.iter().any(|frame| frame.kind == GOAWAY),
        "{frames:?}"
    );
    let after = client.check_limit(request).await.unwrap_err();
    assert_eq!(
        (before.code(), before.message()),
        (after.code(), after.message())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn old_connections_are_replaced_and_every_draw_is_made_once() {
    const CLIENTS: usize = 8;
    let data = tempfile::tempdir().unwrap();
    let start = Start::on(data.path()).with("--max-connection-age 1s");
    let server = start.serve();
    load::apply(&server).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(draw(server.lottery().await, number, Arc::clone(&is_over)));
    }
    for _ in 0..3 {
        let old = Raw::connect(server.address);
        let watched = tokio::task::spawn_blocking(|| is_replaced(old));
        watched.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    let drawn: u64 = clients.join_all().await.iter().sum();
    let stats = GetStatsRequest {
        campaign_id: "flow".into(),
    };
    let stats = server.campaigns().await.get_stats(stats).await;
    assert_eq!(stats.unwrap().into_inner().draws, drawn);
}

/// Draws until it is over, by the retry rule; returns the number of draws. A client library may
/// lose a call when it learns that it shall go; gRPC's own libraries repeat such a call themselves.
async fn draw(mut lottery: Lottery, client: usize, is_over: Arc<AtomicBool>) -> u64 {
    const ATTEMPTS: usize = 5;
    const PAUSE: Duration = Duration::from_millis(10);
    let mut drawn = 0;
    while !is_over.load(Ordering::Relaxed) {
        let request = DrawRequest {
            campaign_id: "flow".into(),
            user_id: format!("u-{client}"),
            request_id: format!("r-{client}-{drawn}"),
            ..Default::default()
        };
        let mut answer = lottery.draw(request.clone()).await;
        for _ in 1..ATTEMPTS {
            if answer.is_err() {
                answer = lottery.draw(request.clone()).await;
            }
        }
        answer.unwrap();
        drawn += 1;
        sleep(PAUSE).await;
    }
    drawn
}

/// Waits until the server asks the client to go. A call that was begun before is still answered.
fn is_replaced(mut old: Raw) {
    let call = old.begin_call(CHECK);
    let mut frames = std::iter::from_fn(|| old.frame());
    assert!(
        frames.any(|frame| frame.kind == GOAWAY),
        "the age changes nothing"
    );
    old.end_call(call);
    let mut frames = std::iter::from_fn(|| old.frame());
    assert!(
        frames.any(|frame| frame.ends(call)),
        "the call has no answer"
    );
}

#[test]
fn a_client_whose_calls_all_time_out_at_once_keeps_its_connection() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let mut client = Raw::connect(server.address);
    client.ping();
    client.call_and_cancel(CHECK, CALLS_MAX);
    let call = client.call(CHECK);
    while let Some(frame) = client.frame() {
        assert_ne!(frame.kind, GOAWAY, "{frame:?}");
        if frame.ends(call) {
            return;
        }
    }
    panic!("the server has closed the connection");
}

#[test]
fn a_flood_of_cancelled_calls_ends_its_connection() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let mut client = Raw::connect(server.address);
    client.ping();
    client.call_and_cancel(CHECK, 100 * CALLS_MAX);
    let goodbye = client.frames().pop(); // this frame may be lost
    assert!(goodbye.is_none_or(|last| last.payload.ends_with(b"too_many_resets")));
}

/// The messages of calls that no handler has seen yet are bounded too, and must arrive.
#[test]
fn requests_whose_messages_do_not_end_hold_little_and_keep_nobody_out() {
    const BYTES: u32 = 900_000;
    const BYTES_MAX: usize = 16 << 20; // of a connection
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let mut client = Raw::connect(server.address);
    client.ping();
    let huge = client.begin_message(HEALTH, 5000);
    client.wait_for(huge);
    let begin = |client: &mut Raw| client.begin_message(CREATE, BYTES);
    let calls: Vec<_> = (0..30).map(|_| begin(&mut client)).collect();
    let (held, refused) = calls.split_at(BYTES_MAX / BYTES as usize);
    for call in refused {
        client.wait_for(*call);
    }
    assert!(!held.iter().any(|call| client.is_answered(*call)));
    let mut honest = Raw::connect(server.address);
    let call = honest.call(CHECK);
    honest.wait_for(call);
    // They end once the call of a caller may take no longer. Then there is room for others.
    for call in held {
        client.wait_for(*call);
    }
    let call = begin(&mut client);
    client.ping();
    assert!(!client.is_answered(call));
    client.end_call(call);
    client.wait_for(call);
}
