//! `tombola bench`: what a machine bears, measured: draws and other calls beside an empty call, on any store, in one run.
//!
//! It measures from outside, over gRPC, services that are processes of their own; only what Redis tells of itself it asks there. It must
//! leave nothing behind, however it ends: processes, directories, keys and campaigns of its own are gone with it.

mod baselines;
mod beside;
mod campaigns;
mod empty;
mod figures;
mod host;
mod load;
mod options;
mod process;
mod run;
mod scenario;
mod subject;
mod table;

use std::io;

use tokio::signal::unix::{SignalKind, signal};

pub(super) use self::{
    empty::{EmptyArgs, run as run_empty},
    options::BenchArgs,
};
use super::{
    client::{Client, Outcome},
    failure::Failure,
    output::{note, say},
};

/// Runs the bench and prints what it found. `server_is_named`: with `--server` on the command line.
pub(super) async fn run(client: &Client, server_is_named: bool, args: BenchArgs) -> Outcome {
    let settings = args.read(client, server_is_named)?;
    let stop = stop()
        .map_err(|error| Failure::refused("SIGNALS", format!("cannot take signals: {error}")))?;
    let mut house = run::House::default();
    let outcome = tokio::select! {
        figures = run::measure(&settings, &mut house) => figures,
        () = stop => {
            note("stopping: what the bench made is taken away");
            Err(Failure::refused("STOPPED", "stopped before the end; nothing of the bench is left"))
        }
    };
    house.leave().await;
    let figures = outcome?;
    if client.json {
        let json = serde_json::to_string_pretty(&figures);
        say(&json.map_err(|error| Failure::refused("BUG", error.to_string()))?);
    } else {
        say(&table::render(&figures));
    }
    if !figures.balanced {
        return Err(Failure::refused(
            "NOT_BALANCED",
            "the sums of a campaign do not add up: this must never be; please report it",
        ));
    }
    Ok(())
}

/// Ends with the first signal to stop. Further ones are swallowed, so that nothing keeps the bench from taking its traces away.
fn stop() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    })
}
