//! The signals that stop a server.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;

use super::log;

/// Completes at the first SIGINT or SIGTERM from now on, even one that arrives before it is
/// awaited. A second one ends the process at once.
pub(super) fn stop_signal() -> io::Result<impl Future<Output = ()> + Send> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut next = async move || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    Ok(async move {
        next().await;
        tokio::spawn(async move {
            next().await;
            warn!("stopped at once: what was acknowledged is kept as the durability level says");
            log::flush();
            std::process::exit(1);
        });
    })
}
