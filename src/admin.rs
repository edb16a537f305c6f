//! The admin port: probes and metrics over plain HTTP, for the machinery that runs the service. It
//! is not for callers.
//!
//! | path | 200 means | otherwise |
//! |---|---|---|
//! | `/livez` | the process works, whatever its store does | |
//! | `/startupz` | the store is open | 503 |
//! | `/readyz` | draws and grabs work, at least in some partitions | 503, and a line that says why |
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

async fn started(State(readiness): State<Readiness>) -> (StatusCode, String) {
    match readiness.phase() {
        phase @ (Phase::Starting | Phase::Waiting(_)) => {
            (StatusCode::SERVICE_UNAVAILABLE, line(&not_open(&phase)))
        }
        Phase::Ready | Phase::Impaired(_) | Phase::NotReady(_) | Phase::Stopping => {
            (StatusCode::OK, line("started"))
        }
    }
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, String) {
    let cause = match readiness.phase() {
        Phase::Ready => return (StatusCode::OK, line("ready")),
        Phase::Impaired(which) => return (StatusCode::OK, line(&format!("ready, but {which}"))),
        phase @ (Phase::Starting | Phase::Waiting(_)) => not_open(&phase),
        Phase::NotReady(cause) => cause,
        Phase::Stopping => "the service is stopping".into(),
    };
    (StatusCode::SERVICE_UNAVAILABLE, line(&cause))
}

/// Why the store is not open yet, as far as that is known.
fn not_open(phase: &Phase) -> String {
    match phase {
        Phase::Waiting(cause) => format!("the store is not open yet: {cause}"),
        _ => "the store is not open yet".into(),
    }
}

/// A text as one line.
fn line(text: &str) -> String {
    format!("{}\n", text.replace('\n', " "))
}

async fn measured(State(gauges): State<Gauges>) -> Response {
    gauges.refresh().await;
    match metrics::text() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
