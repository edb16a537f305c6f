//! `tombola settle`: settles the ledger of a store on Redis, apart from the services that draw,
//! into PostgreSQL or into files.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use tracing::info;

use super::{
    client::Outcome,
    errand,
    failure::Failure,
    key,
    log::{self, LogArgs},
    private::make_files_private,
    sink_args::{RemovalArgs, SinkArgs, failed},
    stop::stop_signal,
    store_args::{HomeArgs, StoreArgs},
};
use crate::{
    chance::MasterKey,
    ledger::{DirectoryTarget, Settler, Target},
    store::{Store, redis::RedisStore},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola settle --redis-url redis://127.0.0.1 --postgres-url postgres://settler@127.0.0.1/ledger

It runs until it is stopped. `serve --postgres-url` does the same within a service. Of several that
run, one works and the others wait for its end. It needs the master key of the store.")]
pub(super) struct SettleArgs {
    #[command(flatten)]
    sink: SinkArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Settle into files of JSON lines in this directory instead of PostgreSQL
    #[arg(
        long,
        env = "TOMBOLA_TO_DIR",
        value_name = "DIR",
        conflicts_with = "postgres_url"
    )]
    to_dir: Option<PathBuf>,
    /// With --to-dir: begin a new file once one has this many MiB
    #[arg(
        long,
        env = "TOMBOLA_FILE_MIB",
        value_name = "N",
        default_value_t = 256,
        value_parser = clap::value_parser!(u64).range(1..=1 << 20)
    )]
    file_mib: u64,
    #[command(flatten)]
    removal: RemovalArgs,
    #[command(flatten)]
    home: HomeArgs,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) async fn run(args: SettleArgs) -> Outcome {
    args.log.start()?;
    make_files_private();
    let target = match &args.to_dir {
        Some(path) => Target::Directory(DirectoryTarget {
            path: path.clone(),
            file_bytes_max: args.file_mib << 20,
        }),
        None => Target::Postgres(Box::new(args.sink.needed_url()?)),
    };
    // The store itself keeps a campaign for as long as any service remembers its draws.
    let keep_closed = args.removal.keep(Duration::ZERO);
    let keep_closed =
        keep_closed.map_err(|text| Failure::usage(format!("--keep-closed: {text}")))?;
    let stop = stop_signal().map_err(|error| {
        Failure::refused("INTERNAL", format!("cannot take signals to stop: {error}"))
    })?;
    let key = key::file(&args.home.data, args.home.master_key.as_deref());
    let key = key::read(&key).map_err(|error| Failure::refused("NO_KEY", error.to_string()))?;
    let store = open(&args, &key).await?;
    check(&target, &store).await?;
    let settler = Settler::new(store, key, target).keeping_closed(keep_closed);
    settler.run(stop).await;
    info!("stopped: what is not settled is settled after the next start");
    log::flush();
    Ok(())
}

async fn open(args: &SettleArgs, key: &MasterKey) -> Outcome<Arc<dyn Store>> {
    let clock = args.home.clock();
    let clock = clock.map_err(|text| Failure::usage(format!("--clock-start: {text}")))?;
    let why = "the embedded store is settled by its own service, `tombola serve --postgres-url`";
    let found = errand::look(&args.store, clock, why).await?;
    let store = RedisStore::open(found, &key.fingerprint()).await;
    let store = store.map_err(errand::not_opened)?;
    Ok(Arc::new(store))
}

/// What someone must change first ends the start; a database that is away is waited for.
async fn check(target: &Target, store: &Arc<dyn Store>) -> Outcome {
    match target.open(&store.info().store_id).await {
        Err(error) if error.is_permanent() => Err(failed(target, &error)),
        Ok(_) | Err(_) => Ok(()),
    }
}
