//! Tests of draws against a service that fails at first.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::*;
use crate::grpc::access::Credentials;
use crate::proto::{
    CheckLimitRequest, CheckLimitResponse, GetOddsRequest, GetOddsResponse, GrantBonusRequest,
    GrantBonusResponse,
    lottery_service_client::LotteryServiceClient,
    lottery_service_server::{LotteryService, LotteryServiceServer},
};

/// Fails with each of these statuses in turn, then answers. It notes the request ids.
struct Flaky {
    failures: Vec<Status>,
    seen: Arc<Mutex<Vec<String>>>,
}

#[tonic::async_trait]
impl LotteryService for Flaky {
    async fn draw(&self, request: Request<DrawRequest>) -> Result<Response<DrawResponse>, Status> {
        let mut seen = self.seen.lock().unwrap();
        let failure = self.failures.get(seen.len()).cloned();
        seen.push(request.into_inner().request_id);
        match failure {
            Some(status) => Err(status),
            None => Ok(Response::new(DrawResponse::default())),
        }
    }

    async fn get_draw(
        &self,
        _: Request<GetDrawRequest>,
    ) -> Result<Response<GetDrawResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn check_limit(
        &self,
        _: Request<CheckLimitRequest>,
    ) -> Result<Response<CheckLimitResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn grant_bonus(
        &self,
        _: Request<GrantBonusRequest>,
    ) -> Result<Response<GrantBonusResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn get_odds(
        &self,
        _: Request<GetOddsRequest>,
    ) -> Result<Response<GetOddsResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}

fn request() -> DrawRequest {
    DrawRequest {
        campaign_id: "c".into(),
        user_id: "u".into(),
        request_id: "r-1".into(),
        ..DrawRequest::default()
    }
}

/// A status of the service itself.
fn answer(code: Code, reason: &str, executed: &str) -> Status {
    let metadata = HashMap::from([("executed".to_owned(), executed.to_owned())]);
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, "tombola.v1", metadata);
    Status::with_error_details(code, "not now", details)
}

/// Draws once from a service that fails at first; returns the outcome and the request ids that the
/// service saw.
async fn draw(failures: Vec<Status>) -> (Result<DrawResponse, Unanswered>, Vec<String>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let service = Flaky {
        failures,
        seen: Arc::clone(&seen),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server =
        tonic::transport::Server::builder().add_service(LotteryServiceServer::new(service));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let channel = tonic::transport::Endpoint::from_shared(url).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut client = LotteryServiceClient::with_interceptor(channel, Credentials::default());
    let outcome = until_known(&mut client, &request(), Duration::from_millis(1)).await;
    let seen = seen.lock().unwrap().clone();
    (outcome, seen)
}

#[tokio::test]
async fn a_draw_is_retried_with_the_same_request_id_until_it_is_known() {
    let (outcome, seen) = draw(vec![Status::unavailable("not now"); 2]).await;
    assert!(outcome.is_ok());
    assert_eq!(seen, ["r-1"; 3]);
}

#[tokio::test]
async fn a_refused_draw_is_not_retried() {
    let (outcome, seen) = draw(vec![Status::resource_exhausted("not now"); 9]).await;
    let status = outcome.unwrap_err().status;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(seen, ["r-1"]);
}

#[tokio::test]
async fn a_draw_that_is_given_up_says_how_to_learn_its_outcome() {
    let (outcome, seen) = draw(vec![Status::unavailable("not now"); 99]).await;
    assert_eq!(seen.len(), TRIES as usize);
    let text = given_up(outcome.unwrap_err(), &request()).to_string();
    assert!(text.contains("tombola get-draw c u r-1"), "{text}");
    assert!(!text.contains("an earlier try"), "{text}");
}

#[tokio::test]
async fn a_refusal_does_not_undo_an_earlier_try_that_may_have_drawn() {
    let lost = answer(Code::Unavailable, "STORE_UNAVAILABLE", "unknown");
    let away = answer(Code::Unavailable, "STORE_UNAVAILABLE", "no");
    let limited = answer(Code::ResourceExhausted, "RATE_LIMITED", "no");
    let expired = answer(Code::Unauthenticated, "CREDENTIALS_EXPIRED", "no");
    let paused = answer(Code::FailedPrecondition, "CAMPAIGN_PAUSED", "no");
    let mut then_away = vec![lost.clone()];
    then_away.resize(TRIES as usize, away.clone());
    for (failures, reason) in [
        (then_away, "STORE_UNAVAILABLE"),
        (vec![lost.clone(), limited], "RATE_LIMITED"),
        (vec![away.clone(), lost, expired], "CREDENTIALS_EXPIRED"),
        (vec![Status::unavailable("gone"), paused], "CAMPAIGN_PAUSED"),
    ] {
        let tries = failures.len();
        let (outcome, seen) = draw(failures).await;
        assert_eq!(seen.len(), tries, "{reason}");
        let failure = given_up(outcome.unwrap_err(), &request());
        assert_eq!(
            (&failure.reason[..], &failure.executed[..]),
            (reason, "unknown")
        );
        let text = failure.to_string();
        for words in [
            "error: not now",
            "it may have happened",
            "an earlier try may have drawn",
            "tombola get-draw c u r-1",
        ] {
            assert!(text.contains(words), "{text}");
        }
    }
    let (outcome, seen) = draw(vec![away; 9]).await;
    assert_eq!(seen.len(), TRIES as usize);
    let failure = given_up(outcome.unwrap_err(), &request());
    assert_eq!(failure.executed, "no");
    assert!(
        failure.to_string().contains("nothing happened"),
        "{failure}"
    );
}
