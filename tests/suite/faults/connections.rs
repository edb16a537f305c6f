//! Clients that send nothing, read nothing, do nothing, or cancel their calls.

use std::net::TcpStream;

use tombola::proto::CheckLimitRequest;

use crate::process::{GOAWAY, Raw, Start};

const LIST: &str = "/tombola.v1.CampaignService/ListCampaigns";
const CHECK: &str = "/tombola.v1.LotteryService/CheckLimit";

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
