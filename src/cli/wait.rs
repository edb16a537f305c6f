//! Waiting for a Redis that is away at the start, or still loads its data. What does not pass by
//! itself, like a wrong password or another master key, ends the start at once.

use std::{
    net::TcpListener as StdListener,
    os::fd::AsFd as _,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{net::TcpListener, time::sleep};
use tracing::{info, warn};

use super::house::{self, BuildError, Plan};
use crate::{grpc::waiting, injector::Injector};

/// The pause between two tries: from this, twice as long each time, to that.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often the log says what is waited for.
const TOLD_INTERVAL: Duration = Duration::from_secs(30);

/// Builds the house; as long as its Redis is away, answers on the listener that it is not ready,
/// and tries again.
pub(super) async fn build(plan: Plan, listener: &TcpListener) -> Result<Arc<Injector>, BuildError> {
    match house::build(plan.clone()).await {
        Err(absence) if absence.may_pass() => {
            let again = build_again(plan, absence);
            match same(listener) {
                Ok(listener) => waiting::serve_until(listener, again).await,
                Err(error) => {
                    warn!(%error, "nothing answers while the service waits for its store");
                    again.await
                }
            }
        }
        built => built,
    }
}

/// Tries until it succeeds, or fails for good.
async fn build_again(plan: Plan, absence: BuildError) -> Result<Arc<Injector>, BuildError> {
    let begun = Instant::now();
    let (mut absence, mut pause) = (absence, PAUSE_MIN);
    let mut told: Option<Instant> = None;
    loop {
        if told.is_none_or(|told| told.elapsed() >= TOLD_INTERVAL) {
            let waited_s = begun.elapsed().as_secs();
            warn!(waited_s, "not ready, waiting for the store: {absence}");
            told = Some(Instant::now());
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

/// A second handle of the same port, which clients that connect meanwhile wait at.
fn same(listener: &TcpListener) -> std::io::Result<TcpListener> {
    let handle = listener.as_fd().try_clone_to_owned()?;
    TcpListener::from_std(StdListener::from(handle))
}
