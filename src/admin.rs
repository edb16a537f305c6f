//! The admin port: probes and metrics over plain HTTP, for the machinery that runs the service. It
//! is not for callers.
//!
//! | path | 200 means | otherwise |
//! |---|---|---|
//! | `/livez` | the process works, whatever its store does | |
//! | `/startupz` | the store is open | 503 |
//! | `/readyz` | draws and grabs work | 503, and a line that says why |
//! | `/metrics` | the metrics, in the text format of Prometheus | |

use std::io;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;

use crate::{
    grpc::{
        gauges::Gauges,
        readiness::{Phase, Readiness},
    },
    metrics,
};

/// Answers on `listener` until the future is dropped.
///
/// # Errors
/// The listener fails.
pub async fn serve(listener: TcpListener, readiness: Readiness, gauges: Gauges) -> io::Result<()> {
    let metrics = Router::new()
        .route("/metrics", get(measured))
        .with_state(gauges);
    let routes = Router::new()
        .route("/livez", get(live))
        .route("/startupz", get(started))
        .route("/readyz", get(ready))
        .with_state(readiness)
        .merge(metrics);
    axum::serve(listener, routes).await
}

async fn live() -> &'static str {
    "live\n"
}

async fn started(State(readiness): State<Readiness>) -> (StatusCode, &'static str) {
    match readiness.phase() {
        Phase::Starting => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the store is not open yet\n",
        ),
        Phase::Ready | Phase::NotReady(_) | Phase::Stopping => (StatusCode::OK, "started\n"),
    }
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, String) {
    let cause = match readiness.phase() {
        Phase::Ready => return (StatusCode::OK, "ready\n".into()),
        Phase::Starting => "the store is not open yet".into(),
        Phase::NotReady(cause) => cause.replace('\n', " "),
        Phase::Stopping => "the service is stopping".into(),
    };
    (StatusCode::SERVICE_UNAVAILABLE, format!("{cause}\n"))
}

async fn measured(State(gauges): State<Gauges>) -> Response {
    gauges.refresh().await;
    match metrics::text() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
