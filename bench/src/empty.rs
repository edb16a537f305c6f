//! The empty call: a bare gRPC server that answers every draw with the same response. It shows what
//! gRPC itself costs on this machine, with messages of this size.

use jiff::Timestamp;
use tokio::net::TcpListener;
use tombola::proto::{
    self, CheckLimitRequest, CheckLimitResponse, DrawRequest, DrawResponse, DrawResult, Durability,
    GetDrawRequest, GetDrawResponse, GetOddsRequest, GetOddsResponse, GrantBonusRequest,
    GrantBonusResponse, LedgerId, Limits, Quota,
    lottery_service_server::{LotteryService, LotteryServiceServer},
};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

use crate::{
    failure::{Failure, Outcome},
    output::note,
};

/// The hidden subcommand that runs this server.
pub(crate) const COMMAND: &str = "empty-server";

/// Serves on a free port, prints that port, and runs until it is killed.
pub(crate) async fn run() -> Outcome {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::refused("EMPTY_SERVER", format!("the empty server failed: {error}"))
    };
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .map_err(|error| failed(&error))?;
    let address = listener.local_addr().map_err(|error| failed(&error))?;
    note(&format!("serving on {address}"));
    Server::builder()
        .add_service(LotteryServiceServer::new(Empty { answer: answer() }))
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await
        .map_err(|error| failed(&error))
}

struct Empty {
    answer: DrawResponse,
}

/// A response of the usual size: one won unit, and the user's limits.
fn answer() -> DrawResponse {
    let time: Option<prost_types::Timestamp> = Some(prost_types::Timestamp {
        seconds: Timestamp::now().as_second(),
        nanos: 123_456_000,
    });
    let quota = |used| {
        Some(Quota {
            used,
            ..Quota::default()
        })
    };
    DrawResponse {
        request_id: "request-0000000000".into(),
        results: vec![DrawResult {
            outcome: proto::Outcome::Won.into(),
            prize_id: "coupon".into(),
            unit_id: "0-0-1893456000-0-123456".into(),
            release_time: time,
            ledger_id: Some(LedgerId {
                partition: 3,
                sequence: 1_234_567,
            }),
            ..DrawResult::default()
        }],
        draw_time: time,
        replayed: false,
        durability: Durability::Local.into(),
        limits: Some(Limits {
            draws_today: quota(1),
            paid_draws_today: quota(0),
            draws_total: quota(1),
            wins_total: quota(1),
            ..Limits::default()
        }),
    }
}

fn absent<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("the empty server only draws"))
}

#[tonic::async_trait]
impl LotteryService for Empty {
    async fn draw(&self, _: Request<DrawRequest>) -> Result<Response<DrawResponse>, Status> {
        Ok(Response::new(self.answer.clone()))
    }

    async fn get_draw(
        &self,
        _: Request<GetDrawRequest>,
    ) -> Result<Response<GetDrawResponse>, Status> {
        absent()
    }

    async fn check_limit(
        &self,
        _: Request<CheckLimitRequest>,
    ) -> Result<Response<CheckLimitResponse>, Status> {
        absent()
    }

    async fn grant_bonus(
        &self,
        _: Request<GrantBonusRequest>,
    ) -> Result<Response<GrantBonusResponse>, Status> {
        absent()
    }

    async fn get_odds(
        &self,
        _: Request<GetOddsRequest>,
    ) -> Result<Response<GetOddsResponse>, Status> {
        absent()
    }
}
