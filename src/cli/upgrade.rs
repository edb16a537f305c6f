//! `tombola upgrade`: raises the format of a Redis store's data once all services are new enough.

use clap::Args;
use serde_json::json;

use super::{
    client::{Client, Outcome},
    errand::{self, failed},
    failure::Failure,
    output,
    store_args::{StoreArgs, read_clock},
};
use crate::store::redis::{OlderService, Upgrade};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola upgrade --redis-url redis://127.0.0.1
  tombola upgrade --redis-url redis://127.0.0.1 --finish

Without --finish it shows the format of the data and whether older services are running. Services
that read only format 2 do not say that they are running: stop them first. The embedded store
needs no upgrade: the version that opens it brings its data up to date.")]
pub(super) struct UpgradeArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Raise the format of the data to this version's format. Older versions cannot use the data
    /// afterwards. Refused while an older service is running
    #[arg(long, env = "TOMBOLA_FINISH")]
    finish: bool,
    /// For a store on a test clock: its current time (RFC 3339)
    #[arg(long, env = "TOMBOLA_CLOCK_START", value_name = "TIME")]
    clock_start: Option<String>,
}

pub(super) async fn run(client: &Client, args: UpgradeArgs) -> Outcome {
    let upgrade = open(&args).await?;
    let before = upgrade.format();
    let older = if args.finish {
        upgrade.finish().await.map_err(failed)?
    } else {
        upgrade.older_service().await.map_err(failed)?
    };
    if let Some(older) = older.filter(|_| args.finish) {
        return Err(Failure::refused("OLDER_SERVICE", refusal(older)));
    }
    show(client, &upgrade, before, args.finish, older);
    Ok(())
}

async fn open(args: &UpgradeArgs) -> Outcome<Upgrade> {
    let start = args.clock_start.as_deref();
    let clock = start.map(|start| read_clock(start, 1)).transpose();
    let clock = clock.map_err(|text| Failure::usage(format!("--clock-start: {text}")))?;
    let why = "the embedded store is upgraded by the version that opens it";
    let found = errand::look(&args.store, clock, why).await?;
    Upgrade::open(found).map_err(errand::not_opened)
}

fn refusal(older: OlderService) -> String {
    format!(
        "a service that reads only format {} was running at {}: replace all services by this \
         version, then try again a minute after the last one has stopped",
        older.format, older.probed_at
    )
}

fn show(
    client: &Client,
    upgrade: &Upgrade,
    before: u32,
    finished: bool,
    older: Option<OlderService>,
) {
    let (id, newest) = (upgrade.store_id(), Upgrade::FORMAT);
    let now = if finished { newest } else { before };
    if client.json {
        let older = older.map(
            |older| json!({ "format": older.format, "probedAt": older.probed_at.to_string() }),
        );
        let answer = json!({
            "storeId": id,
            "format": now,
            "formatBefore": before,
            "formatOfThisVersion": newest,
            "olderService": older,
        });
        return output::say(&format!("{answer:#}"));
    }
    let text = match (finished, older) {
        _ if before == newest => {
            format!("the store {id} is of format {newest} already: there is nothing to upgrade")
        }
        (true, _) => format!("the store {id} is upgraded from format {before} to {newest}"),
        (false, Some(older)) => format!(
            "the store {id} is of format {before}, this version writes {newest}; {}",
            refusal(older)
        ),
        (false, None) => format!(
            "the store {id} is of format {before}, this version writes {newest}; once no older \
             service runs: tombola upgrade --finish"
        ),
    };
    output::say(&text);
}
