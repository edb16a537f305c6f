//! `tombola migrate`: makes the tables of the ledger in PostgreSQL, or brings them to this version.

use clap::Args;
use serde_json::json;

use super::{
    client::{Client, Outcome},
    output,
    sink_args::{SinkArgs, failed},
};
use crate::ledger::PostgresSink;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola migrate --postgres-url postgres://owner@127.0.0.1/ledger

The user must be allowed to create a schema. Services of the version before go on working with the
new tables. It does nothing if the tables are of this version already.")]
pub(super) struct MigrateArgs {
    #[command(flatten)]
    sink: SinkArgs,
}

pub(super) async fn run(client: &Client, args: MigrateArgs) -> Outcome {
    let url = args.sink.needed_url()?;
    let migrated = PostgresSink::migrate(&url).await;
    let is_changed = migrated.map_err(|error| failed(&url, &error))?;
    if client.json {
        let answer = json!({ "postgresUrl": url.to_string(), "isChanged": is_changed });
        output::say(&format!("{answer:#}"));
    } else if is_changed {
        output::say(&format!(
            "the schema `tombola` in {url} is of this version now"
        ));
    } else {
        output::say(&format!(
            "the schema `tombola` in {url} was of this version already"
        ));
    }
    Ok(())
}
