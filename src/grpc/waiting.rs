//! What a service answers while it waits for its store at the start: every call is `UNAVAILABLE`
//! and was not executed, health says `NOT_SERVING`. So callers and probes see a service that is not
//! ready, and no process that starts again and again.

use std::time::Duration;

use tokio::{net::TcpListener, sync::oneshot, time::timeout};
use tonic::Status;
use tonic_health::{ServingStatus, server::HealthReporter};

use super::{
    connections::{self, Bounds},
    health::NAMES,
    server::{OTHER_BYTES_MAX, Settings, health_server},
    services,
    status::{CallError, status},
};
use crate::store::{Executed, StoreError};

/// The service of the health protocol that says whether the process works, whatever its store does.
const LIVENESS: &str = "liveness";
/// How long answers that have begun may take once the store is there.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);

/// Answers on `listener` until `ready` has a value; then asks clients to connect again.
pub async fn serve_until<T>(
    listener: TcpListener,
    settings: &Settings,
    ready: impl Future<Output = T>,
) -> T {
    let reporter = HealthReporter::new();
    for name in NAMES {
        let status = ServingStatus::NotServing;
        reporter.set_service_status(name, status).await;
    }
    let status = ServingStatus::Serving;
    reporter.set_service_status(LIVENESS, status).await;
    let health = health_server(reporter.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let services = services::Builder::new(None, not_ready)
        .add(health, OTHER_BYTES_MAX)
        .build();
    let wire = (settings.tls.clone(), settings.tracer.clone());
    let bounds = Bounds::of(settings);
    let serving = connections::serve(listener, (services, None), wire, bounds, async {
        stopped.await.ok(); // an error means that the other half is gone: stop as well
    });
    let (mut serving, ready) = (std::pin::pin!(serving), std::pin::pin!(ready));
    let value = tokio::select! {
        value = ready => value,
        () = &mut serving => unreachable!("it serves until it is stopped"),
    };
    // Streams that watch would keep their connections.
    for name in NAMES.into_iter().chain([LIVENESS]) {
        reporter.clone().clear_service_status(name).await;
    }
    drop(stop);
    drop(timeout(DRAIN_TIME_MAX, serving).await);
    value
}

/// The status of calls of all services but health.
fn not_ready() -> Status {
    let waits = StoreError::Unavailable {
        executed: Executed::No,
        detail: "the service waits for its store".into(),
    };
    status(&CallError::from(waits), "")
}
