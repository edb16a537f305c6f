//! What a service answers while it waits for its store at the start: every call is `UNAVAILABLE`
//! and was not executed, health says `NOT_SERVING`. So callers and probes see a service that is not
//! ready, and no process that starts again and again.

use std::time::Duration;

use tokio::{net::TcpListener, sync::oneshot, time::timeout};
use tonic::{
    Code, Status,
    body::Body,
    codegen::http::Response,
    transport::{Server, server::TcpIncoming},
};
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use tower::util::MapResponseLayer;
use tracing::warn;

use super::{
    health::NAMES,
    status::{CallError, status},
};
use crate::store::{Executed, StoreError};

/// The service of the health protocol that says whether the process works, whatever its store does.
const LIVENESS: &str = "liveness";
/// How long answers that have begun may take once the store is there.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);
/// The most calls at once on a connection; each is answered at once.
const STREAMS_PER_CONNECTION_MAX: u32 = 128;

/// Answers on `listener` until `ready` has a value; then asks clients to connect again.
pub async fn serve_until<T>(listener: TcpListener, ready: impl Future<Output = T>) -> T {
    let reporter = HealthReporter::new();
    for name in NAMES {
        let status = ServingStatus::NotServing;
        reporter.set_service_status(name, status).await;
    }
    let status = ServingStatus::Serving;
    reporter.set_service_status(LIVENESS, status).await;
    let health = HealthServer::new(HealthService::from_health_reporter(reporter.clone()));
    let (stop, stopped) = oneshot::channel::<()>();
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let serving = Server::builder()
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .layer(MapResponseLayer::new(not_ready))
        .add_service(health)
        .serve_with_incoming_shutdown(incoming, async {
            stopped.await.ok(); // an error means that the other half is gone: stop as well
        });
    let (mut serving, mut ready) = (std::pin::pin!(serving), std::pin::pin!(ready));
    let value = tokio::select! {
        value = &mut ready => value,
        served = &mut serving => {
            let error = served.err().map(|error| error.to_string());
            warn!(error, "nothing answers while the service waits for its store");
            return ready.await;
        }
    };
    // Streams that watch would keep their connections.
    for name in NAMES.into_iter().chain([LIVENESS]) {
        reporter.clone().clear_service_status(name).await;
    }
    drop(stop);
    drop(timeout(DRAIN_TIME_MAX, serving).await);
    value
}

/// The answer of health as it is; of any other service that it is not ready.
fn not_ready(answer: Response<Body>) -> Response<Body> {
    let given = Status::from_header_map(answer.headers());
    if given.is_none_or(|given| given.code() != Code::Unimplemented) {
        return answer;
    }
    let waits = StoreError::Unavailable {
        executed: Executed::No,
        detail: "the service waits for its store".into(),
    };
    status(&CallError::from(waits), "").into_http()
}
