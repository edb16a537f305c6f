//! Waits at the start for a Redis that is away or still loads its data. Failures that do not pass
//! by themselves, such as a wrong password or another master key, end the start at once.

use std::{
    net::TcpListener as StdListener,
    os::fd::AsFd as _,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{net::TcpListener, time::sleep};
use tracing::{info, warn};

use super::house::{self, BuildError, Plan};
use crate::{
    grpc::{readiness::Readiness, server::Settings, waiting},
    injector::Injector,
};

/// The pause between two tries doubles from the first of these to the second.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often the log says what the service waits for.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Opens the store. While its Redis is away, reports "not ready" on the listener, and tries again.
pub(super) async fn build(
    plan: Plan,
    listener: &TcpListener,
    settings: &Settings,
) -> Result<Arc<Injector>, BuildError> {
    match house::build(plan.clone()).await {
        Err(absence) if absence.may_pass() => {
            let again = build_again(plan, absence, &settings.readiness);
            match same(listener) {
                Ok(listener) => waiting::serve_until(listener, settings, again).await,
                Err(error) => {
                    warn!(%error, "nothing answers while the service waits for its store");
                    again.await
                }
            }
        }
        built => built,
    }
}

/// Tries until it succeeds or fails for good.
async fn build_again(
    plan: Plan,
    absence: BuildError,
    readiness: &Readiness,
) -> Result<Arc<Injector>, BuildError> {
    let begun = Instant::now();
    let (mut absence, mut pause) = (absence, PAUSE_MIN);
    let mut logged: Option<Instant> = None;
    loop {
        readiness.wait(absence.to_string());
        if logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
            let waited_s = begun.elapsed().as_secs();
            warn!(waited_s, "not ready, waiting for the store: {absence}");
            logged = Some(Instant::now());
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
        match house::build(plan.clone()).await {
            Err(error) if error.may_pass() => absence = error,
            built => {
                if built.is_ok() {
                    let waited_s = begun.elapsed().as_secs();
                    info!(waited_s, "the store is there after {waited_s} s");
                }
                return built;
            }
        }
    }
}

/// A second handle of the same port. Clients that connect meanwhile wait there.
fn same(listener: &TcpListener) -> std::io::Result<TcpListener> {
    let handle = listener.as_fd().try_clone_to_owned()?;
    TcpListener::from_std(StdListener::from(handle))
}
