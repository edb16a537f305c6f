//! What `serve` and `demo` share: the store, its key and its injector.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;

use super::{
    failure::Exit,
    key::{self, KeyError},
    store_args::OnRedis,
};
use crate::{
    injector::Injector,
    store::{
        Store,
        clock::{Clock, SystemClock},
        redis::{self, Found, RedisStore},
        sqlite::{self, DATABASE_FILE, DirectoryLock, SqliteStore},
    },
};

/// What the house is built from.
pub(super) struct Plan {
    /// The directory of the key, and of the data of an embedded store.
    pub(super) data: PathBuf,
    /// The key's file, where it is not in that directory.
    pub(super) master_key: Option<PathBuf>,
    /// The store on Redis; none for the embedded one.
    pub(super) redis: Option<OnRedis>,
    /// A test clock; none for the real time.
    pub(super) clock: Option<Arc<dyn Clock>>,
    /// How long request ids are remembered.
    pub(super) request_memory: Duration,
    /// How long an envelope is kept after its refund or its last grab.
    pub(super) envelope_retention: Duration,
    /// How long before its start a window is injected.
    pub(super) lead: Duration,
}

/// Why the house was not built. Nothing was changed.
#[derive(Debug, Error)]
pub(super) enum BuildError {
    /// No key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is a key, but what it was made for is gone.
    #[error(
        "{0} has a master key but no data: restore {DATABASE_FILE} with its -wal file from a backup; \
         if nothing was ever served from there, remove master.key to begin anew"
    )]
    DataLost(String),
    /// No embedded store.
    #[error(transparent)]
    Embedded(#[from] sqlite::OpenError),
    /// No store on Redis.
    #[error(transparent)]
    Redis(#[from] redis::OpenError),
}

impl BuildError {
    /// What the process tells its caller.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Redis(error) if error.is_absence() => Exit::Unavailable,
            _ => Exit::Failed,
        }
    }
}

/// Opens the store and makes its injector.
pub(super) async fn build(plan: Plan) -> Result<Arc<Injector>, BuildError> {
    let file = plan
        .master_key
        .clone()
        .unwrap_or_else(|| plan.data.join(key::KEY_FILE));
    let (lead, retention) = (plan.lead, plan.envelope_retention);
    let (key, store) = match plan.redis.clone() {
        Some(on_redis) => build_on_redis(plan, on_redis, &file).await?,
        None => build_embedded(plan, &file)?,
    };
    let injector = Injector::new(store, key, lead).keeping_envelopes(retention);
    Ok(Arc::new(injector))
}

type Built = (crate::chance::MasterKey, Arc<dyn Store>);

fn build_embedded(plan: Plan, file: &Path) -> Result<Built, BuildError> {
    let lock = DirectoryLock::take(&plan.data)?;
    let has_data = SqliteStore::exists(&lock, &plan.data)?;
    // A key that is kept elsewhere may well be there before its data.
    if !has_data && plan.master_key.is_none() && file.exists() {
        return Err(BuildError::DataLost(plan.data.display().to_string()));
    }
    let key = key::load(file, has_data)?;
    let options = sqlite::Options {
        directory: plan.data,
        clock: plan.clock.unwrap_or_else(|| Arc::new(SystemClock)),
        request_memory: plan.request_memory,
        key_fingerprint: key.fingerprint(),
    };
    let store = SqliteStore::open_locked(lock, options)?;
    Ok((key, Arc::new(store)))
}

async fn build_on_redis(plan: Plan, on_redis: OnRedis, file: &Path) -> Result<Built, BuildError> {
    let found = Found::look(redis::Options {
        url: on_redis.url,
        prefix: on_redis.prefix,
        partitions: on_redis.partitions,
        durability: on_redis.durability,
        level: on_redis.level,
        clock: plan.clock,
        request_memory: plan.request_memory,
        store_id: on_redis.store_id,
    })
    .await?;
    let key = key::load(file, found.has_data())?;
    let store = RedisStore::open(found, &key.fingerprint()).await?;
    Ok((key, Arc::new(store)))
}
