//! The options that choose a store, for `serve`, `init` and `demo`.

use std::{path::PathBuf, sync::Arc};

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use crate::{
    model::{Moment, Problems},
    store::{
        Durability,
        clock::{Clock, ShiftedClock},
        redis::{KeyPrefix, LevelOptions, OnWeakerLevel, PARTITIONS_MAX, PasswordFiles, RedisUrl},
    },
};

/// The earliest start of a test clock, in seconds: 1971. From then on, the moments that stores
/// encode all have the same length.
const CLOCK_SECOND_MIN: i64 = 365 * 86_400;

/// The number of partitions of a new store unless the options name one.
pub(super) const PARTITIONS: u32 = 16;

/// What an acknowledged draw in Redis survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Level {
    /// In memory, on disk within about a second (appendfsync everysec)
    Fast,
    /// On the disk of Redis (appendfsync always)
    Local,
    /// The same, and held by replicas: survives the loss of the primary
    Strict,
}

/// What to do while Redis keeps less than the durability level needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnWeaker {
    /// Refuse draws until the settings are restored
    Refuse,
    /// Draw, and state the lower level in each response
    State,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Redis")]
pub(super) struct StoreArgs {
    /// Keep the data in Redis instead of the embedded store: redis://, rediss://, redis+sentinel://
    /// or redis+cluster://
    #[arg(
        long,
        env = "TOMBOLA_REDIS_URL",
        value_name = "URL",
        hide_env_values = true
    )]
    redis_url: Option<String>,
    /// The file whose first line is the password of the Redis servers, read for each connection
    #[arg(
        long,
        env = "TOMBOLA_REDIS_PASSWORD_FILE",
        value_name = "FILE",
        requires = "redis_url"
    )]
    redis_password_file: Option<PathBuf>,
    /// The same for the password of the sentinels
    #[arg(
        long,
        env = "TOMBOLA_SENTINEL_PASSWORD_FILE",
        value_name = "FILE",
        requires = "redis_url"
    )]
    sentinel_password_file: Option<PathBuf>,
    /// What an acknowledged draw survives [default: strict with Sentinel and in a cluster, else
    /// local]
    #[arg(
        long,
        env = "TOMBOLA_DURABILITY",
        value_name = "LEVEL",
        value_enum,
        requires = "redis_url"
    )]
    durability: Option<Level>,
    /// How many replicas must have a draw before its response, with --durability strict [default: a
    /// majority together with the primary; all of a cluster's shard]
    #[arg(
        long,
        env = "TOMBOLA_ACK_REPLICAS",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        requires = "redis_url"
    )]
    ack_replicas: Option<u32>,
    /// What to do if someone changes Redis so that it keeps less than the level needs
    #[arg(
        long,
        env = "TOMBOLA_ON_WEAKER_LEVEL",
        value_name = "WHAT",
        value_enum,
        default_value_t = OnWeaker::Refuse,
        requires = "redis_url"
    )]
    on_weaker_level: OnWeaker,
    /// The prefix of all keys; each prefix is a store of its own [default: tombola]
    #[arg(
        long,
        env = "TOMBOLA_REDIS_PREFIX",
        value_name = "PREFIX",
        requires = "redis_url"
    )]
    redis_prefix: Option<String>,
    /// The number of partitions of a new store; a campaign is in one of them
    #[arg(
        long,
        env = "TOMBOLA_PARTITIONS",
        value_name = "N",
        default_value_t = PARTITIONS,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(PARTITIONS_MAX)),
        requires = "redis_url"
    )]
    partitions: u32,
    /// The id of the store; any other store is refused, and an emptied Redis too [default: the id
    /// in PREFIX.store-id in --data]
    #[arg(
        long,
        env = "TOMBOLA_STORE_ID",
        value_name = "ID",
        requires = "redis_url"
    )]
    store_id: Option<String>,
}

/// The options for a service's own files.
#[derive(Args, Clone, Debug)]
pub(super) struct HomeArgs {
    /// The directory of the embedded store and of the master key; created if it does not exist
    #[arg(
        long,
        env = "TOMBOLA_DATA",
        value_name = "DIR",
        default_value = "./tombola-data"
    )]
    pub(super) data: PathBuf,
    /// The file of the master key, the same for all services of a store. The embedded store makes
    /// one; for Redis, `tombola key generate` makes one [default: master.key in --data]
    #[arg(long, env = "TOMBOLA_MASTER_KEY", value_name = "FILE")]
    pub(super) master_key: Option<PathBuf>,
    /// For tests: the store's clock starts at this moment instead of now (RFC 3339)
    #[arg(long, env = "TOMBOLA_CLOCK_START", value_name = "TIME")]
    clock_start: Option<String>,
    /// For tests: the store's clock runs this many times as fast as the machine's, 1 to 1000
    #[arg(
        long,
        env = "TOMBOLA_CLOCK_SPEED",
        value_name = "N",
        requires = "clock_start",
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    clock_speed: Option<u32>,
}

impl HomeArgs {
    /// The test clock that is asked for, if any.
    pub(super) fn clock(&self) -> Result<Option<Arc<dyn Clock>>, String> {
        let speed = self.clock_speed.unwrap_or(1);
        let start = self.clock_start.as_deref();
        start.map(|start| read_clock(start, speed)).transpose()
    }
}

pub(super) fn read_clock(start: &str, speed: u32) -> Result<Arc<dyn Clock>, String> {
    let start: Timestamp = start
        .parse()
        .map_err(|_| format!("`{start}` is no moment: write one like 2026-11-29T19:55:00+08:00"))?;
    if start.as_second() < CLOCK_SECOND_MIN {
        return Err(format!("`{start}` is before 1971: name a later moment"));
    }
    let clock = ShiftedClock::starting_at(Moment::from_timestamp(start));
    Ok(Arc::new(clock.at_speed(speed)))
}

/// A store on Redis, as the options describe it.
#[derive(Clone, Debug)]
pub(super) struct OnRedis {
    pub(super) url: RedisUrl,
    pub(super) password_files: PasswordFiles,
    pub(super) prefix: KeyPrefix,
    pub(super) partitions: u32,
    pub(super) durability: Durability,
    pub(super) level: LevelOptions,
    pub(super) store_id: Option<String>,
}

impl StoreArgs {
    /// The store on Redis, if the options name one. `prefix` is the key prefix if the options name
    /// none.
    pub(super) fn on_redis(&self, prefix: &str, problems: &mut Problems) -> Option<OnRedis> {
        let url = self.redis_url.as_ref()?;
        let files = PasswordFiles {
            servers: self.redis_password_file.clone(),
            sentinels: self.sentinel_password_file.clone(),
        };
        let url = RedisUrl::parse_with(url, files.clone())
            .map_err(|error| problems.add("--redis-url", error.to_string()))
            .ok();
        let prefix = KeyPrefix::parse(self.redis_prefix.as_deref().unwrap_or(prefix))
            .map_err(|error| problems.add("--redis-prefix", error.to_string()))
            .ok();
        let url = url?;
        let durability = self.level_on(&url);
        if self.ack_replicas.is_some() && durability != Durability::Strict {
            problems.add("--ack-replicas", "it is for --durability strict only");
        }
        Some(OnRedis {
            url,
            password_files: files,
            prefix: prefix?,
            partitions: self.partitions,
            durability,
            level: LevelOptions {
                ack_replicas: self.ack_replicas,
                on_weaker: match self.on_weaker_level {
                    OnWeaker::Refuse => OnWeakerLevel::Refuse,
                    OnWeaker::State => OnWeakerLevel::State,
                },
            },
            store_id: self.store_id.clone(),
        })
    }

    /// The named durability level; by default the one that survives the failovers of this kind of
    /// Redis.
    fn level_on(&self, url: &RedisUrl) -> Durability {
        match self.durability {
            Some(Level::Fast) => Durability::Fast,
            Some(Level::Local) => Durability::Local,
            Some(Level::Strict) => Durability::Strict,
            None if url.fails_over() => Durability::Strict,
            None => Durability::Local,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        store: StoreArgs,
    }

    fn read(line: &str) -> (Option<OnRedis>, Problems) {
        let line = Line::try_parse_from(format!("x {line}").split(' ')).unwrap();
        let mut problems = Problems::default();
        (line.store.on_redis("tombola", &mut problems), problems)
    }

    #[test]
    fn a_test_clock_starts_in_1971_or_later() {
        assert!(read_clock("1970-12-31T23:59:59Z", 1).is_err());
        assert!(read_clock("1971-01-01T00:00:00Z", 1).is_ok());
    }

    #[test]
    fn what_fails_over_is_strict_unless_another_level_is_named() {
        for (line, level) in [
            ("redis://h", Durability::Local),
            ("redis+sentinel://h/main", Durability::Strict),
            ("redis+cluster://h", Durability::Strict),
            ("redis+cluster://h --durability local", Durability::Local),
            (
                "redis+sentinel://h/main --durability fast",
                Durability::Fast,
            ),
            ("redis://h --durability strict", Durability::Strict),
        ] {
            let found = read(&format!("--redis-url {line}")).0.unwrap();
            assert_eq!(found.durability, level, "{line}");
        }
    }

    #[test]
    fn replicas_to_wait_for_are_named_for_strict_only_and_never_none() {
        let (found, problems) = read("--redis-url redis+cluster://h --ack-replicas 2");
        assert!(problems.is_empty(), "{problems}");
        assert_eq!(found.unwrap().level.ack_replicas, Some(2));
        let (_, problems) = read("--redis-url redis://h --ack-replicas 2");
        assert!(
            problems.to_string().contains("--durability strict"),
            "{problems}"
        );
        let zero = "x --redis-url redis+cluster://h --ack-replicas 0";
        assert!(Line::try_parse_from(zero.split(' ')).is_err());
    }
}
