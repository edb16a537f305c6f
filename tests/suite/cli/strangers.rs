//! Commands and `serve` at an address that another program uses: the error says what answers there.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

use serde_json::Value;

use super::Desk;
use crate::{
    process::{Ended, Start, tombola},
    support::redis_server::RedisServer,
};

/// A server that answers anything with these bytes, for as long as the test runs.
fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.unwrap();
            // The client may close the connection at any moment.
            let mut request = [0; 512];
            drop(stream.read(&mut request));
            drop(stream.write_all(bytes));
        }
    });
    format!("http://{address}")
}

#[track_caller]
fn assert_reported(url: &str, words: &[&str]) {
    for line in ["campaigns", "pause wheel"] {
        let words = [&[url, "no Tombola"], words].concat();
        let mut command = tombola(line.split_whitespace());
        Ended::of(command.args(["--server", url])).badly(69, &words);
    }
}

#[test]
fn a_server_of_another_kind_is_reported() {
    let http =
        answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert_reported(&http, &["HTTP/1 server"]);
    assert_reported(
        &answering(b"SSH-2.0-OpenSSH_9.2\r\n"),
        &["SSH-2.0-OpenSSH_9.2"],
    );
    assert_reported(&answering(b"\x15\x03\x01\0\x02\x02\x46"), &["expects TLS"]);
    assert_reported(&answering(b""), &["closes the connection"]);
}

#[test]
fn a_redis_is_reported() {
    let redis = RedisServer::start(&[]);
    let url = redis.url().replace("redis://", "http://");
    assert_reported(&url, &["a Redis", "--redis-url"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_grpc_service_is_reported() {
    let (_, health) = tonic_health::server::health_reporter();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = tonic::transport::Server::builder().add_service(health);
    let serving = tokio::spawn(server.serve_with_incoming(incoming));
    let reported = tokio::task::spawn_blocking(move || assert_reported(&url, &["another gRPC"]));
    reported.await.unwrap();
    serving.abort();
}

#[test]
fn an_error_of_wrong_usage_or_of_the_start_is_one_json_object() {
    let object = |ended: Ended, code: i32| -> Value {
        let output = ended.badly(code, &[]);
        serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"))
    };
    let mut typo = tombola(["draw", "wheel", "u", "--cuont", "1", "--json"]);
    let typo = object(Ended::of(&mut typo), 64);
    assert_eq!(typo["reason"], "USAGE");
    assert!(
        typo["message"].as_str().unwrap().contains("--cuont"),
        "{typo:#}"
    );
    let mut variable = tombola(["fly"]);
    let variable = object(Ended::of(variable.env("TOMBOLA_JSON", "on")), 64);
    assert!(
        variable["message"].as_str().unwrap().contains("fly"),
        "{variable:#}"
    );

    let data = tempfile::tempdir().unwrap();
    let options = Start::on(data.path()).with("--json --request-memory 1s --idle-timeout soon");
    let options = object(options.fail(), 64);
    assert_eq!(
        options["violations"][1]["field"], "--idle-timeout",
        "{options:#}"
    );
    let desk = Desk::new();
    let port = desk.server.address.to_string();
    let mut taken = Start::on(data.path()).with("--json");
    taken.listen = &port;
    let taken = object(taken.fail(), 1);
    assert_eq!(taken["reason"], "ADDRESS_UNAVAILABLE", "{taken:#}");
    assert!(
        taken["message"]
            .as_str()
            .unwrap()
            .contains("another program listens"),
        "{taken:#}"
    );
}

#[test]
fn options_for_one_command_are_not_taken_from_the_environment() {
    let desk = Desk::with_wheel();
    let mut draw = tombola([
        "draw",
        "wheel",
        "u-1",
        "--json",
        "--server",
        &desk.server.url(),
    ]);
    draw.envs([("TOMBOLA_COUNT", "3"), ("TOMBOLA_REQUEST_ID", "r-1")]);
    for _ in 0..2 {
        let drawn: Value = serde_json::from_str(&Ended::of(&mut draw).well()).unwrap();
        assert_eq!(drawn["results"].as_array().unwrap().len(), 1, "{drawn:#}");
        assert_eq!(drawn["replayed"], false, "{drawn:#}");
    }
    let mut close = tombola(["close", "wheel", "--server", &desk.server.url()]);
    Ended::of(close.env("TOMBOLA_YES", "1")).badly(1, &["--yes"]);
}
