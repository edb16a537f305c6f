//! The signals that stop a server, and those that end a command before its end.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;

use super::{client::Outcome, failure::Failure, log};

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

/// Completes at the first SIGINT or SIGTERM, also where the shell that began this process has
/// switched SIGINT off, as it does for commands in the background.
pub(super) fn interrupted() -> Outcome<impl Future<Output = ()>> {
    let listen = |kind| {
        signal(kind).map_err(|error| {
            Failure::refused("SIGNALS", format!("cannot listen for signals: {error}"))
        })
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
