//! Other people's clients against the real binary: gRPC for Python and buf, both by reflection, without a line of ours.

use std::{path::PathBuf, process::Command};

use crate::process::{Ended, Server, Start, project};

/// A tool that `tests/prepare` installs.
fn tool(path: &str) -> PathBuf {
    let tool = project(path);
    assert!(
        tool.exists(),
        "{path} is missing: ./test installs what the tests need and runs them, tests/prepare only installs it"
    );
    tool
}

/// Runs one part of the Python client against a server of its own.
fn python(part: &str) {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let mut client = Command::new(tool(".venv/bin/python"));
    client.arg(project("tests/clients/client.py"));
    client.args([&server.address.to_string(), part]);
    let said = Ended::of(&mut client).well();
    assert!(said.ends_with("good\n"), "{said}");
}

#[test]
fn python_finds_the_services_by_reflection() {
    python("reflection");
}

#[test]
fn python_sees_the_health_of_each_service() {
    python("health");
}

#[test]
fn python_draws_once_however_often_it_retries() {
    python("draws");
}

#[test]
fn python_is_told_why_a_limit_refuses_and_when_it_resets() {
    python("limits");
}

#[test]
fn python_is_told_what_is_wrong_with_a_bad_request() {
    python("refusals");
}

/// `buf curl`, which finds methods and messages by reflection, as grpcurl does.
fn buf_curl(server: &Server, method: &str, body: &str) -> Ended {
    let mut buf = Command::new(tool("tests/clients/node_modules/.bin/buf"));
    buf.args(["curl", "--http2-prior-knowledge", "--protocol", "grpc"]);
    buf.args(["--data", body]);
    buf.arg(format!("{}/tombola.v1.{method}", server.url()));
    Ended::of(&mut buf)
}

#[test]
fn buf_curl_calls_by_reflection() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let sample = project("deploy/campaigns/spring-wheel.yaml");
    server
        .run(&["apply", "-f", sample.to_str().unwrap()])
        .well();

    let body = r#"{"campaign_id": "spring-wheel", "user_id": "u-1"}"#;
    let answer = buf_curl(&server, "LotteryService/CheckLimit", body).well();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["allowed"], true, "{answer:#}");
    assert_eq!(answer["limits"]["drawsToday"]["limit"], "3", "{answer:#}");

    let body = r#"{"campaign_id": "autumn-wheel", "user_id": "u-1"}"#;
    let refused = buf_curl(&server, "LotteryService/CheckLimit", body);
    assert_ne!(refused.code, Some(0), "{refused:#?}");
    for word in ["not_found", "no campaign", "google.rpc.ErrorInfo"] {
        assert!(refused.stderr.contains(word), "no {word}: {refused:#?}");
    }
}
