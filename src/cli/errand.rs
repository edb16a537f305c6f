//! What `recover` and `upgrade` share: both work on Redis directly, and services may run meanwhile.

use std::{sync::Arc, time::Duration};

use super::{
    client::Outcome,
    failure::{Exit, Failure},
    house::BuildError,
    serve::PREFIX,
    store_args::StoreArgs,
};
use crate::{
    model::Problems,
    store::{
        StoreError,
        clock::Clock,
        redis::{Expected, FORK_PAUSE, Found, OpenError, Options},
    },
};

/// Only draws need the request memory, and these commands make none.
const REQUEST_MEMORY: Duration = Duration::from_secs(24 * 3600);

/// Looks for the store on Redis that the options name. `why` says why a Redis is needed.
pub(super) async fn look(
    store: &StoreArgs,
    clock: Option<Arc<dyn Clock>>,
    why: &str,
) -> Outcome<Found> {
    let mut problems = Problems::default();
    let on_redis = store.on_redis(PREFIX, &mut problems);
    if !problems.is_empty() {
        return Err(Failure::usage(problems.to_string()));
    }
    let Some(on_redis) = on_redis else {
        return Err(Failure::usage(format!(
            "name the Redis of the store with --redis-url: {why}"
        )));
    };
    let found = Found::look(Options {
        url: on_redis.url,
        prefix: on_redis.prefix,
        partitions: on_redis.partitions,
        durability: on_redis.durability,
        level: on_redis.level,
        clock,
        request_memory: REQUEST_MEMORY,
        fork_pause: FORK_PAUSE,
        store_id: on_redis.store_id.map(|id| Expected {
            id,
            source: "--store-id".into(),
        }),
    });
    found.await.map_err(not_opened)
}

/// The error of a store that cannot be opened.
pub(super) fn not_opened(error: OpenError) -> Box<Failure> {
    let error = BuildError::Redis(error);
    match error.exit() {
        Exit::Unavailable => Failure::unavailable(error.to_string()),
        _ => Failure::refused("STORE", error.to_string()),
    }
}

/// The error of a step on the open store.
pub(super) fn failed(error: StoreError) -> Box<Failure> {
    Failure::refused("STORE", format!("{error}; run the same command again"))
}
