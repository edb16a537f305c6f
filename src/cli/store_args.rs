//! The options that choose a store: those of `serve` and `demo`.

use clap::{Args, ValueEnum};

use crate::{
    model::Problems,
    store::{
        Durability,
        redis::{KeyPrefix, PARTITIONS_MAX, RedisUrl},
    },
};

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
        default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(PARTITIONS_MAX)),
        requires = "redis_url"
    )]
    partitions: u32,
    /// Refuse any other store than this one, also where Redis has lost it
    #[arg(
        long,
        env = "TOMBOLA_STORE_ID",
        value_name = "ID",
        requires = "redis_url"
    )]
    store_id: Option<String>,
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
