//! What `serve` and `demo` share: they open the store, read its key and make the injector.

use std::{
    io, panic,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
use tracing::{info, warn};

use super::{
    failure::Exit,
    key::{self, KeyError},
    restore,
    store_args::OnRedis,
    store_id::StoreIdFile,
};
use crate::{
    injector::Injector,
    store::{
        Store,
        clock::{Clock, SystemClock},
        redis::{self, Found, RedisStore, Upgrade},
        sqlite::{self, DATABASE_FILE, DirectoryLock, SqliteStore},
    },
};

/// What to open.
#[derive(Clone)]
pub(super) struct Plan {
    /// The directory of the key, and of the data of an embedded store.
    pub(super) data: PathBuf,
    /// The key's file; if absent, it is in that directory.
    pub(super) master_key: Option<PathBuf>,
    /// The store on Redis; absent for the embedded store.
    pub(super) redis: Option<OnRedis>,
    /// Creates the store on Redis if there is none: for first tries.
    pub(super) init_if_empty: bool,
    /// A test clock; absent for the real time.
    pub(super) clock: Option<Arc<dyn Clock>>,
    /// How long request ids are remembered.
    pub(super) request_memory: Duration,
    /// How long an envelope is kept after its refund or its last grab.
    pub(super) envelope_retention: Duration,
    /// How long before its start a window is injected.
    pub(super) lead: Duration,
}

/// Why the store was not opened. Nothing was changed.
#[derive(Debug, Error)]
pub(super) enum BuildError {
    /// The master key is missing or invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is a key, but the data made with it are missing.
    #[error(
        "{0} has a master key but no data: put {DATABASE_FILE} and its -wal file back if they were \
         moved away, else restore a backup with `tombola restore`; if nothing was ever served from \
         there, remove master.key to start with a new one"
    )]
    DataLost(String),
    /// There are no data, but files that only a store or its restore makes.
    #[error(
        "{data} has no data, but {left} is left of a store, or of a restore that was cut off: put \
         {DATABASE_FILE} and its -wal file back if they were moved away, else restore a backup \
         with `tombola restore`; for a new store, name an empty directory with --data, or remove \
         {left}"
    )]
    DataGone {
        /// The directory.
        data: String,
        /// A file or a directory in it.
        left: String,
    },
    /// The embedded store could not be opened.
    #[error(transparent)]
    Embedded(#[from] sqlite::OpenError),
    /// The store on Redis could not be opened.
    #[error(transparent)]
    Redis(#[from] redis::OpenError),
    /// The file with the expected store's id could not be read.
    #[error("the file {file}, which keeps the id of the store, cannot be read: {cause}")]
    StoreId {
        /// The file.
        file: String,
        /// The cause.
        cause: io::Error,
    },
}

impl BuildError {
    /// The exit code of the process.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Redis(error) if error.is_absence() => Exit::Unavailable,
            _ => Exit::Failed,
        }
    }

    /// The reason, for programs.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Key(_) => "NO_KEY",
            Self::Redis(error) if error.is_absence() => "STORE_UNAVAILABLE",
            Self::DataLost(_)
            | Self::DataGone { .. }
            | Self::Embedded(_)
            | Self::Redis(_)
            | Self::StoreId { .. } => "NO_STORE",
        }
    }

    /// Whether it may pass by itself, so that waiting helps.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::Redis(error) if error.may_pass())
    }
}

/// Opens the store and makes its injector.
pub(super) async fn build(plan: Plan) -> Result<Arc<Injector>, BuildError> {
    let file = key::file(&plan.data, plan.master_key.as_deref());
    let (lead, retention) = (plan.lead, plan.envelope_retention);
    let (key, store) = match plan.redis.clone() {
        Some(on_redis) => build_on_redis(plan, on_redis, &file).await?,
        // It may take long: a store of an earlier version is indexed first.
        None => tokio::task::spawn_blocking(move || build_embedded(plan, &file))
            .await
            .unwrap_or_else(|error| panic::resume_unwind(error.into_panic()))?,
    };
    let injector = Injector::new(store, key, lead).keeping_envelopes(retention);
    Ok(Arc::new(injector))
}

type Built = (crate::chance::MasterKey, Arc<dyn Store>);

fn build_embedded(plan: Plan, file: &Path) -> Result<Built, BuildError> {
    let lock = DirectoryLock::take(&plan.data)?;
    let has_data = SqliteStore::exists(&lock, &plan.data)?;
    if !has_data {
        refuse_lost_data(&lock, &plan, file)?;
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

/// A store whose data are gone is not quietly made anew.
fn refuse_lost_data(lock: &DirectoryLock, plan: &Plan, key: &Path) -> Result<(), BuildError> {
    let data = plan.data.display().to_string();
    // A key that is kept elsewhere may exist before its data.
    if plan.master_key.is_none() && key.exists() {
        return Err(BuildError::DataLost(data));
    }
    let unfinished = restore::unfinished(&plan.data).unwrap_or_default();
    let unfinished = unfinished.into_iter().next();
    match unfinished.or_else(|| SqliteStore::remains(lock, &plan.data)) {
        Some(left) => Err(BuildError::DataGone {
            data,
            left: left.display().to_string(),
        }),
        None => Ok(()),
    }
}

async fn build_on_redis(plan: Plan, on_redis: OnRedis, file: &Path) -> Result<Built, BuildError> {
    let init_if_empty = plan.init_if_empty;
    if !init_if_empty {
        key::read(file)?;
    }
    let id_file = StoreIdFile::new(&plan.data, &on_redis.prefix);
    let is_named = on_redis.store_id.is_some();
    let mut found =
        Found::look(on_redis.options(&id_file, plan.clock, plan.request_memory)?).await?;
    let key = if init_if_empty {
        let key = key::load(file, found.store_id().is_some())?;
        let made = found.init(&key.fingerprint()).await?;
        if made.is_new {
            let id = made.store_id;
            warn!(store = %id, "made the store {id} in Redis, as --init-if-empty asks: not for \
                production");
        }
        key
    } else {
        key::read(file)?
    };
    let format = found.format();
    let store = RedisStore::open(found, &key.fingerprint()).await?;
    if format < Upgrade::FORMAT {
        info!(
            format,
            "the data in Redis are of format {format}, this version writes {}: it behaves as the \
             older one until all services are replaced and `tombola upgrade --finish` has run",
            Upgrade::FORMAT
        );
    }
    let id = &store.info().store_id;
    if let Err(cause) = id_file.keep(id)
        && !is_named
    {
        let file = id_file.path().display();
        warn!(
            %cause,
            "the file {file} cannot be written, so a restart will not know which store to expect: \
             start with --store-id {id}"
        );
    }
    Ok((key, Arc::new(store)))
}

impl OnRedis {
    /// The options with which the store is opened.
    pub(super) fn options(
        self,
        id_file: &StoreIdFile,
        clock: Option<Arc<dyn Clock>>,
        request_memory: Duration,
    ) -> Result<redis::Options, BuildError> {
        let expected = id_file.expected(self.store_id.as_deref());
        Ok(redis::Options {
            store_id: expected.map_err(|cause| BuildError::StoreId {
                file: id_file.path().display().to_string(),
                cause,
            })?,
            url: self.url,
            prefix: self.prefix,
            partitions: self.partitions,
            durability: self.durability,
            level: self.level,
            clock,
            request_memory,
            fork_pause: redis::FORK_PAUSE,
        })
    }
}
