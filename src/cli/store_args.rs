//! The options that choose a store: those of `serve`, `init` and `demo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{
    model::Problems,
    store::{
        Durability,
        redis::{KeyPrefix, PARTITIONS_MAX, RedisUrl},
    },
};

/// Partitions of a new store unless the options say otherwise.
pub(super) const PARTITIONS: u32 = 16;

/// What is promised of an acknowledged draw in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Level {
    /// In memory, on disk within about a second (appendfsync everysec)
    Fast,
    /// On the disk of Redis (appendfsync always)
    Local,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Redis")]
pub(super) struct StoreArgs {
    /// Keep the data in Redis instead of the embedded store: redis://, rediss://, redis+sentinel:// or redis+cluster://
    #[arg(
        long,
        env = "TOMBOLA_REDIS_URL",
        value_name = "URL",
        hide_env_values = true
    )]
    redis_url: Option<String>,
    /// What an acknowledged draw survives
    #[arg(
        long,
        env = "TOMBOLA_DURABILITY",
        value_name = "LEVEL",
        value_enum,
        default_value_t = Level::Local,
        requires = "redis_url"
    )]
    durability: Level,
    /// What all keys begin with; a store of its own for each [default: tombola]
    #[arg(
        long,
        env = "TOMBOLA_REDIS_PREFIX",
        value_name = "PREFIX",
        requires = "redis_url"
    )]
    redis_prefix: Option<String>,
    /// Into how many parts a new store is divided; a campaign is in one of them
    #[arg(
        long,
        env = "TOMBOLA_PARTITIONS",
        value_name = "N",
        default_value_t = PARTITIONS,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(PARTITIONS_MAX)),
        requires = "redis_url"
    )]
    partitions: u32,
    /// Refuse any other store than this one, also if Redis has lost it [default: the id that
    /// PREFIX.store-id in --data keeps]
    #[arg(
        long,
        env = "TOMBOLA_STORE_ID",
        value_name = "ID",
        requires = "redis_url"
    )]
    store_id: Option<String>,
}

/// The options that say where a service keeps what is its own.
#[derive(Args, Clone, Debug)]
pub(super) struct HomeArgs {
    /// The directory of the embedded store, and of the master key; made if it is absent
    #[arg(
        long,
        env = "TOMBOLA_DATA",
        value_name = "DIR",
        default_value = "./tombola-data"
    )]
    pub(super) data: PathBuf,
    /// The file of the master key, the same for all services of a store; the embedded store makes
    /// its own, for Redis `tombola key generate` does [default: master.key in --data]
    #[arg(long, env = "TOMBOLA_MASTER_KEY", value_name = "FILE")]
    pub(super) master_key: Option<PathBuf>,
    /// For tests: the store's clock starts at this moment instead of now (RFC 3339)
    #[arg(long, env = "TOMBOLA_CLOCK_START", value_name = "TIME")]
    pub(super) clock_start: Option<String>,
}

/// A store on Redis, as the options describe it.
#[derive(Clone, Debug)]
pub(super) struct OnRedis {
    pub(super) url: RedisUrl,
    pub(super) prefix: KeyPrefix,
    pub(super) partitions: u32,
    pub(super) durability: Durability,
    pub(super) store_id: Option<String>,
}

impl StoreArgs {
    /// The store on Redis, where one is asked for; `prefix` is what its keys begin with where the options do not say.
    pub(super) fn on_redis(&self, prefix: &str, problems: &mut Problems) -> Option<OnRedis> {
        let url = self.redis_url.as_ref()?;
        let url = RedisUrl::parse(url)
            .map_err(|error| problems.add("--redis-url", error.to_string()))
            .ok();
        let prefix = KeyPrefix::parse(self.redis_prefix.as_deref().unwrap_or(prefix))
            .map_err(|error| problems.add("--redis-prefix", error.to_string()))
            .ok();
        Some(OnRedis {
            url: url?,
            prefix: prefix?,
            partitions: self.partitions,
            durability: match self.durability {
                Level::Fast => Durability::Fast,
                Level::Local => Durability::Local,
            },
            store_id: self.store_id.clone(),
        })
    }
}
