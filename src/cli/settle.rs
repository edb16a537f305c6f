//! `tombola settle`: settles the ledger of a store on Redis into PostgreSQL, apart from the
//! services that draw.

use std::sync::Arc;

use clap::Args;
use tracing::info;

use super::{
    client::Outcome,
    errand,
    failure::Failure,
    log::{self, LogArgs},
    serve::{read_clock, stop_signal},
    sink_args::{SinkArgs, failed},
    store_args::StoreArgs,
};
use crate::{
    ledger::{PostgresSink, PostgresUrl, Settler, Target},
    store::{Store, redis::RedisStore},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola settle --redis-url redis://127.0.0.1 --postgres-url postgres://settler@127.0.0.1/ledger

It runs until it is stopped. `serve --postgres-url` does the same within a service. Of several that
run, one works and the others wait for its end. It needs no master key.")]
pub(super) struct SettleArgs {
    #[command(flatten)]
    sink: SinkArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// For a store that was made on a test clock: a moment of it (RFC 3339)
    #[arg(long, env = "TOMBOLA_CLOCK_START", value_name = "TIME")]
    clock_start: Option<String>,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) async fn run(args: SettleArgs) -> Outcome {
    args.log.start()?;
    let url = args.sink.needed_url()?;
    let stop = stop_signal().map_err(|error| {
        Failure::refused("INTERNAL", format!("cannot take signals to stop: {error}"))
    })?;
    let store = open(&args).await?;
    check(&url, &store).await?;
    Settler::new(store, Target::Postgres(url)).run(stop).await;
    info!("stopped: what is not settled is settled after the next start");
    log::flush();
    Ok(())
}

async fn open(args: &SettleArgs) -> Outcome<Arc<dyn Store>> {
    let clock = read_clock(args.clock_start.as_deref());
    let clock = clock.map_err(|text| Failure::usage(format!("--clock-start: {text}")))?;
    let why = "the embedded store is settled by its own service, `tombola serve --postgres-url`";
    let found = errand::look(&args.store, clock, why).await?;
    let store = RedisStore::open_without_key(found).map_err(errand::not_opened)?;
    Ok(Arc::new(store))
}

/// What someone must change first ends the start; a database that is away is waited for.
async fn check(url: &PostgresUrl, store: &Arc<dyn Store>) -> Outcome {
    match PostgresSink::open(url, &store.info().store_id).await {
        Err(error) if error.is_permanent() => Err(failed(url, &error)),
        Ok(_) | Err(_) => Ok(()),
    }
}
