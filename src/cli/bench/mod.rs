//! `tombola bench`: what a machine bears, measured: draws and other calls beside an empty call, on any store, in one run.
//!
//! It measures from outside, over gRPC, services that are processes of their own; only what Redis tells of itself it asks there. It must
//! leave nothing behind, however it ends: processes, directories, keys and campaigns of its own are gone with it.

mod baselines;
mod beside;
mod campaigns;
mod cost;
mod empty;
mod envelopes;
mod figures;
mod host;
mod load;
mod options;
mod page;
mod process;
mod record;
mod run;
mod scenario;
mod subject;
mod table;

use std::io;

use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

pub(super) use self::{
    empty::{EmptyArgs, run as run_empty},
    options::BenchArgs,
};
use self::{options::Part, run::House};
use super::{
    client::{Client, Outcome},
    failure::Failure,
    output::{note, say},
};

/// Runs the bench and prints what it found. `server_is_named`: with `--server` on the command line.
pub(super) async fn run(client: &Client, server_is_named: bool, mut args: BenchArgs) -> Outcome {
    if let Some(Part::Cost(args)) = args.part.take() {
        let costs = tidily(async |house| cost::measure(&args, house).await).await?;
        show(client, &costs, cost::render)?;
        balanced(costs.balanced)?;
        return match costs.failed.as_slice() {
            [] => Ok(()),
            failed => Err(Failure::refused(
                "NOT_MEASURED",
                format!("not measured: {}", failed.join("; ")),
            )),
        };
    }
    let settings = args.read(client, server_is_named)?;
    let figures = tidily(async |house| run::measure(&settings, house).await).await?;
    if let Some(file) = &settings.report {
        std::fs::write(file, page::render(&figures)).map_err(|error| {
            let message = format!("--report: {} cannot be written: {error}", file.display());
            Failure::refused("NO_REPORT", message)
        })?;
        note(&format!("the report is in {}", file.display()));
    }
    show(client, &figures, table::render)?;
    balanced(figures.balanced)
}

/// Does the work, unless a signal comes first, and takes away what was made.
async fn tidily<T>(work: impl AsyncFnOnce(&mut House) -> Outcome<T>) -> Outcome<T> {
    let stop = stop()
        .map_err(|error| Failure::refused("SIGNALS", format!("cannot take signals: {error}")))?;
    let mut house = House::default();
    let outcome = tokio::select! {
        done = work(&mut house) => done,
        () = stop => {
            note("stopping: what the bench made is taken away");
            Err(Failure::refused("STOPPED", "stopped before the end; nothing of the bench is left"))
        }
    };
    house.leave().await;
    outcome
}

/// Prints figures.
fn show<T: Serialize>(client: &Client, figures: &T, text: impl FnOnce(&T) -> String) -> Outcome {
    if client.json {
        let json = serde_json::to_string_pretty(figures);
        say(&json.map_err(|error| Failure::refused("BUG", error.to_string()))?);
    } else {
        say(&text(figures));
    }
    Ok(())
}

fn balanced(balanced: bool) -> Outcome {
    if balanced {
        return Ok(());
    }
    Err(Failure::refused(
        "NOT_BALANCED",
        "the sums of a campaign do not add up: this must never be; please report it",
    ))
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
