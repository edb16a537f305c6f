//! The server is stopped by a signal.

use std::{io::Write as _, net::TcpStream, process::Command};

use tombola::proto::CheckLimitRequest;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{
    book::Book,
    load::{self, Load},
};
use crate::process::{Raw, Start};

async fn stopped_under_load(signal: &str) {
    let data = tempfile::tempdir().unwrap();
    let mut server = Start::on(data.path()).serve();
    load::apply(&server).await;
    let mut load = Load::start(&server, 1, 0).await;
    load.answered(200).await;
    server.signal(signal);
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("stopped"), "{said}");
    let server = Start::on(data.path()).serve();
    Book::default().settle(&server, load.end().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_under_load_ends_well_and_loses_no_acknowledged_draw() {
    stopped_under_load("INT").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_termination_under_load_ends_well_and_loses_no_acknowledged_draw() {
    stopped_under_load("TERM").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_never_go_do_not_keep_a_stopped_server() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Start::on(data.path()).serve();
    let silent = TcpStream::connect(server.address).unwrap();
    let mut half = TcpStream::connect(server.address).unwrap();
    half.write_all(b"PRI * HTTP/2.0\r\n\r\nS").unwrap();
    let mut idle = server.lottery().await;
    let request = CheckLimitRequest {
        campaign_id: "none".into(),
        user_id: "u-1".into(),
        segments: Vec::new(),
    };
    idle.check_limit(request).await.unwrap_err();
    let mut quiet = Raw::connect(server.address);
    quiet.frame(); // the server has read the hello
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("did not end in time"), "{said}");
    drop((silent, half, idle, quiet));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_watches_health_learns_of_a_stop_and_does_not_delay_it() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Start::on(data.path()).serve();
    let mut client = HealthClient::new(server.connect().await);
    let mut watches = Vec::new();
    for service in ["", "tombola.v1.LotteryService", "TEST"] {
        let service = service.into();
        let watch = client.watch(HealthCheckRequest { service }).await;
        let mut watch = watch.unwrap().into_inner();
        let now = watch.message().await.unwrap().unwrap();
        assert_eq!(now.status(), ServingStatus::Serving);
        watches.push(watch);
    }
    server.signal("TERM");
    for mut watch in watches {
        let last = watch.message().await.unwrap().unwrap();
        assert_eq!(last.status(), ServingStatus::NotServing);
        assert!(watch.message().await.unwrap().is_none());
    }
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("did not end in time"), "{said}");
    drop(client);
}

#[test]
fn a_stopped_server_leaves_its_data_to_the_next() {
    let data = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let mut server = Start::on(data.path()).serve();
        server.signal("TERM");
        let (code, said) = server.ended();
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn a_signal_ends_a_server_while_it_opens_its_store() {
    let data = tempfile::tempdir().unwrap();
    let key = data.path().join("key");
    // Nobody writes into this pipe, so reading the master key takes for ever.
    let made = Command::new("mkfifo").arg(&key).status();
    assert!(made.unwrap().success());
    for signal in ["TERM", "INT"] {
        let options = format!("--admin 127.0.0.1:0 --master-key {}", key.display());
        let mut server = Start::on(data.path()).with(&options).begin();
        server.signal(signal);
        let (code, said) = server.ended();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("before the store was open"), "{said}");
    }
}

#[test]
fn a_second_signal_does_not_wait_for_clients() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Start::on(data.path()).serve();
    let mut client = Raw::connect(server.address);
    client.begin_call("/tombola.v1.LotteryService/Draw");
    client.ping(); // the server has read the call
    server.signal("INT");
    server.says("stopping");
    server.signal("INT");
    let (code, said) = server.ended();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("at once"), "{said}");
    drop(client);
}
