//! `tombola init`: creates a store on Redis. `tombola serve` never does: a Redis that has lost its
//! data looks like an empty one, so a person has to say whether there was a store.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use serde_json::json;
use thiserror::Error;

use super::{
    client::{Client, Outcome},
    failure::{Exit, Failure},
    house::BuildError,
    key,
    output::{note, say},
    serve::PREFIX,
    store_args::{HomeArgs, OnRedis, PARTITIONS, StoreArgs},
    store_id::StoreIdFile,
};
use crate::{
    model::Problems,
    store::{
        clock::Clock,
        redis::{Expected, Found, Made, OpenError},
    },
};

/// This command makes no requests that need remembering.
const REQUEST_MEMORY: Duration = Duration::from_secs(86_400);

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola key generate tombola-data/master.key
  tombola init --redis-url redis://127.0.0.1:6379
  tombola serve --redis-url redis://127.0.0.1:6379")]
pub(super) struct InitArgs {
    #[command(flatten)]
    home: HomeArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Give up the store of this id, which Redis has lost, and make a new one: its campaigns, users
    /// and draws are gone for good
    #[arg(
        long,
        env = "TOMBOLA_BEGIN_ANEW",
        value_name = "STORE-ID",
        help_heading = "Redis"
    )]
    begin_anew: Option<String>,
}

/// Creates the store, or finds that it exists.
pub(super) async fn run(client: &Client, args: InitArgs) -> Outcome {
    let mut problems = Problems::default();
    let clock = args.home.clock();
    let clock = clock.map_err(|text| problems.add("--clock-start", text));
    let on_redis = args.store.on_redis(PREFIX, &mut problems);
    if !problems.is_empty() {
        return Err(Failure::options(problems));
    }
    let Some(on_redis) = on_redis else {
        return Err(Failure::usage(
            "--redis-url is missing: name the Redis of the store; the embedded store is made by \
             its first `tombola serve`",
        ));
    };
    let home = Home {
        key: key::file(&args.home.data, args.home.master_key.as_deref()),
        id_file: StoreIdFile::new(&args.home.data, &on_redis.prefix),
    };
    let clock = clock.ok().flatten();
    let made = make(&home, on_redis.clone(), clock, args.begin_anew.as_deref()).await;
    let made = made.map_err(|error| failure(&error))?;
    let kept = home.id_file.keep(&made.store_id);
    if let Err(cause) = &kept {
        let file = home.id_file.path().display();
        note(&format!(
            "the file {file} cannot be written ({cause}): start services with --store-id"
        ));
    }
    let id_file = kept.is_ok().then(|| home.id_file.path());
    show(client, &on_redis, id_file, &made);
    Ok(())
}

/// The files on this machine.
struct Home {
    key: PathBuf,
    id_file: StoreIdFile,
}

/// Why no store was created.
#[derive(Debug, Error)]
enum InitError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(
        "--begin-anew gives up the store {given_up}, but {} expects {}: name that one",
        .expected.source,
        .expected.id
    )]
    OtherGivenUp {
        given_up: String,
        expected: Expected,
    },
}

async fn make(
    home: &Home,
    on_redis: OnRedis,
    clock: Option<Arc<dyn Clock>>,
    begin_anew: Option<&str>,
) -> Result<Made, InitError> {
    let key = key::read(&home.key).map_err(BuildError::from)?;
    let mut options = on_redis.options(&home.id_file, clock, REQUEST_MEMORY)?;
    if let Some(given_up) = begin_anew
        && let Some(expected) = options.store_id.take()
        && expected.id != given_up
    {
        let given_up = given_up.to_owned();
        return Err(InitError::OtherGivenUp { given_up, expected });
    }
    let mut found = Found::look(options).await.map_err(BuildError::from)?;
    if let Some(given_up) = begin_anew.filter(|id| found.store_id() == Some(id)) {
        return Err(BuildError::from(OpenError::NotLost(given_up.to_owned())).into());
    }
    let made = found.init(&key.fingerprint()).await;
    Ok(made.map_err(BuildError::from)?)
}

fn failure(error: &InitError) -> Box<Failure> {
    let (exit, reason) = match error {
        InitError::Build(error) => (error.exit(), error.reason()),
        InitError::OtherGivenUp { .. } => (Exit::Failed, "NO_STORE"),
    };
    Failure::start(exit, reason, error.to_string())
}

/// Shows the store; `id_file` is the file that has its id, if it could be written.
fn show(client: &Client, on_redis: &OnRedis, id_file: Option<&Path>, made: &Made) {
    let (id, prefix) = (&made.store_id, on_redis.prefix.as_str());
    if client.json {
        let answer = json!({
            "storeId": id,
            "isNew": made.is_new,
            "redisUrl": on_redis.url.to_string(),
            "redisPrefix": prefix,
            "partitions": on_redis.partitions,
            "storeIdFile": id_file.map(|file| file.display().to_string()),
        });
        say(&format!("{answer:#}"));
        return;
    }
    let what = if made.is_new {
        "made the store"
    } else {
        "nothing to do: there is the store"
    };
    // A URL with a password came from its variable.
    let mut options = match on_redis.url.has_password() {
        true => "with TOMBOLA_REDIS_URL as here: tombola serve".to_owned(),
        false => format!("tombola serve --redis-url {}", on_redis.url),
    };
    for (option, file) in [
        ("--redis-password-file", &on_redis.password_files.servers),
        (
            "--sentinel-password-file",
            &on_redis.password_files.sentinels,
        ),
    ] {
        if let Some(file) = file {
            options.push_str(&format!(" {option} {}", file.display()));
        }
    }
    if prefix != PREFIX {
        options.push_str(&format!(" --redis-prefix {prefix}"));
    }
    if on_redis.partitions != PARTITIONS {
        options.push_str(&format!(" --partitions {}", on_redis.partitions));
    }
    say(&format!(
        "{what} {id} in Redis at {}, with {} partitions under the prefix {prefix}\nServe from it, \
         with the same master key everywhere:\n  {options} --store-id {id}",
        on_redis.url, on_redis.partitions
    ));
}
