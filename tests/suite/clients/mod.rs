//! Other clients against the real program: gRPC for Python, and buf. Both find the API by
//! reflection and use none of the project's code.

mod deliverer;

use std::{path::PathBuf, process::Command};

use tombola::proto::{ApplyCampaignRequest, Campaign, DrawRequest, DrawResponse};
use tonic::{Code, Request, Status, client::Grpc, codegen::http::uri::PathAndQuery};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt as _;

use crate::process::{Ended, Server, Start, project};

/// A tool that `tests/prepare` installs.
fn tool(path: &str) -> PathBuf {
    let tool = project(path);
    assert!(
        tool.exists(),
        "{path} is missing: ./test installs what the tests need and runs them, tests/prepare only \
         installs it"
    );
    tool
}

/// Runs one part of the Python client against a new server.
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
fn python_learns_why_a_limit_refuses_and_when_it_resets() {
    python("limits");
}

#[test]
fn python_learns_what_is_wrong_with_a_bad_request() {
    python("refusals");
}

#[test]
fn python_may_have_deadlines_that_all_pass_at_once() {
    python("deadlines");
}

#[test]
fn python_learns_that_compressed_requests_are_not_taken() {
    python("compressions");
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

/// Asserts that a request that reached no method is refused for good, with a reason.
fn is_invalid(refused: &Status, word: &str) {
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    assert!(refused.message().contains(word), "{refused:?}");
    let details = refused.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!(
        (info.reason.as_str(), info.domain.as_str()),
        ("INVALID_REQUEST", "tombola.v1")
    );
    assert_eq!(info.metadata["executed"], "no");
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_refused_with_its_reason() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();

    let large = DrawRequest {
        payment_ref: "x".repeat(70 * 1024),
        ..Default::default()
    };
    let refused = server.lottery().await.draw(large).await.unwrap_err();
    is_invalid(&refused, "64 KiB");

    let large = ApplyCampaignRequest {
        campaign: Some(Campaign {
            name: "x".repeat(1100 * 1024),
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut campaigns = server.campaigns().await;
    let refused = campaigns.apply_campaign(large).await.unwrap_err();
    is_invalid(&refused, "1024 KiB");

    let mut client = Grpc::new(server.connect().await);
    client.ready().await.unwrap();
    let another = Request::new(prost_types::Timestamp {
        seconds: 1,
        nanos: 0,
    });
    let path = PathAndQuery::from_static("/tombola.v1.LotteryService/Draw");
    let codec = ProstCodec::<prost_types::Timestamp, DrawResponse>::default();
    let refused = client.unary(another, path, codec).await.unwrap_err();
    is_invalid(&refused, "cannot be read");
}

#[tokio::test]
async fn what_no_method_takes_is_refused_with_its_reason() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();

    let mut large = Request::new(DrawRequest::default());
    let note = "x".repeat(20 * 1024).parse().unwrap();
    large.metadata_mut().insert("note", note);
    let refused = server.lottery().await.draw(large).await.unwrap_err();
    is_invalid(&refused, "16 KiB");

    let mut client = Grpc::new(server.connect().await);
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/tombola.v1.LotteryService/Shuffle");
    let codec = ProstCodec::<DrawRequest, DrawResponse>::default();
    let unknown = Request::new(DrawRequest::default());
    let refused = client.unary(unknown, path, codec).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented, "{refused:?}");
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["executed"], "no");
}
