//! Tests of draws against a service that fails at first.

use std::sync::{Arc, Mutex};

use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response};

use super::*;
use crate::grpc::access::Credentials;
use crate::proto::{
    CheckLimitRequest, CheckLimitResponse, GetOddsRequest, GetOddsResponse, GrantBonusRequest,
    GrantBonusResponse,
    lottery_service_client::LotteryServiceClient,
    lottery_service_server::{LotteryService, LotteryServiceServer},
};

/// Fails `failures` times, then answers. It notes the request ids.
struct Flaky {
    failures: usize,
    code: Code,
    seen: Arc<Mutex<Vec<String>>>,
}

#[tonic::async_trait]
impl LotteryService for Flaky {
    async fn draw(&self, request: Request<DrawRequest>) -> Result<Response<DrawResponse>, Status> {
        let mut seen = self.seen.lock().unwrap();
        seen.push(request.into_inner().request_id);
        if seen.len() <= self.failures {
            return Err(Status::new(self.code, "not now"));
        }
        Ok(Response::new(DrawResponse::default()))
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

/// Draws once from a service that fails `failures` times at first; returns the outcome and the
/// request ids that the service saw.
async fn draw(failures: usize, code: Code) -> (Result<DrawResponse, Status>, Vec<String>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let service = Flaky {
        failures,
        code,
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
    let request = DrawRequest {
        request_id: "r-1".into(),
        ..DrawRequest::default()
    };
    let outcome = until_known(&mut client, &request, Duration::from_millis(1)).await;
    let seen = seen.lock().unwrap().clone();
    (outcome, seen)
}

#[tokio::test]
async fn a_draw_is_retried_with_the_same_request_id_until_it_is_known() {
    let (outcome, seen) = draw(2, Code::Unavailable).await;
    assert!(outcome.is_ok());
    assert_eq!(seen, ["r-1"; 3]);
}

#[tokio::test]
async fn a_refused_draw_is_not_retried() {
    let (outcome, seen) = draw(9, Code::ResourceExhausted).await;
    assert_eq!(outcome.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(seen, ["r-1"]);
}

#[tokio::test]
async fn a_draw_that_is_given_up_says_how_to_learn_its_outcome() {
    let (outcome, seen) = draw(99, Code::Unavailable).await;
    assert_eq!(seen.len(), TRIES as usize);
    let request = DrawRequest {
        campaign_id: "c".into(),
        user_id: "u".into(),
        request_id: "r-1".into(),
        ..DrawRequest::default()
    };
    let text = given_up(outcome.unwrap_err(), &request).to_string();
    assert!(text.contains("tombola get-draw c u r-1"), "{text}");
}
