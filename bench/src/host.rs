//! The machine under test: its cores, and how long its disk takes to store a write.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{protections::PROTECTIONS, redis_server::RedisServer, subject::Subject};

/// The largest number of timed writes, and the time after which timing stops.
const WRITES: usize = 200;
const WRITES_TIME_MAX: Duration = Duration::from_secs(2);
const WRITE_BYTES: usize = 4096;

/// A machine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Host {
    pub(crate) cores: usize,
    /// The processor's name if the system gives it.
    pub(crate) processor: String,
    /// The load average of the last minute before the bench; empty if the system does not give it.
    pub(crate) load: String,
    /// The directory of temporary data.
    pub(crate) directory: String,
    /// How long a synced write of 4 KiB takes in microseconds, as p50 and p99; 0 if it could not be
    /// measured.
    pub(crate) fsync_us_p50: u64,
    pub(crate) fsync_us_p99: u64,
}

impl Host {
    /// Describes this machine, and times writes in `directory`.
    pub(crate) fn look(directory: &Path) -> Self {
        let syncs = syncs(directory).unwrap_or_default();
        let quantile = |of_100: usize| syncs.get(syncs.len() * of_100 / 100).copied().unwrap_or(0);
        Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            processor: processor(),
            load: fs::read_to_string("/proc/loadavg")
                .ok()
                .and_then(|text| text.split_whitespace().next().map(str::to_owned))
                .unwrap_or_default(),
            directory: directory.display().to_string(),
            fsync_us_p50: quantile(50),
            fsync_us_p99: quantile(99),
        }
    }
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':'));
    name.map_or(String::new(), |(_, name)| name.trim().into())
}

/// The duration of each synced write in microseconds, in ascending order.
fn syncs(directory: &Path) -> std::io::Result<Vec<u64>> {
    let path = directory.join(format!("tombola-bench-sync-{:08x}", rand::random::<u32>()));
    let mut file = OpenOptions::new()
        .create_new(true)
        .append(true)
        .open(&path)?;
    let timed = time_writes(&mut file);
    fs::remove_file(&path)?;
    let mut micros = timed?;
    micros.sort_unstable();
    Ok(micros)
}

fn time_writes(file: &mut fs::File) -> std::io::Result<Vec<u64>> {
    let begun = Instant::now();
    let mut micros = Vec::with_capacity(WRITES);
    while micros.len() < WRITES && begun.elapsed() < WRITES_TIME_MAX {
        let from = Instant::now();
        file.write_all(&[7; WRITE_BYTES])?;
        file.sync_data()?;
        micros.push(u64::try_from(from.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    Ok(micros)
}

/// The versions and settings that a service under test depends on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Environment {
    pub(crate) store: String,
    /// Empty without Redis.
    pub(crate) redis_version: String,
    pub(crate) appendonly: String,
    pub(crate) appendfsync: String,
    /// Empty unless the ledger is settled into PostgreSQL.
    pub(crate) postgres_version: String,
    /// What a service in production has besides; empty if the service has none of it.
    pub(crate) protections: &'static str,
}

impl Environment {
    /// Reads the settings of the service's Redis, if it has one.
    pub(crate) async fn of(subject: &Subject) -> Self {
        let mut environment = Self {
            store: subject.name.clone(),
            redis_version: String::new(),
            appendonly: String::new(),
            appendfsync: String::new(),
            postgres_version: subject
                .postgres
                .as_ref()
                .map_or_else(String::new, |postgres| postgres.version.clone()),
            protections: subject.protections.as_ref().map_or("", |_| PROTECTIONS),
        };
        if let Some(redis) = &subject.redis {
            environment.redis_version = version(redis).await;
            environment.appendonly = redis.setting("appendonly").await;
            environment.appendfsync = redis.setting("appendfsync").await;
        }
        environment
    }
}

async fn version(redis: &RedisServer) -> String {
    let server = redis.info("server").await.unwrap_or_default();
    server.get("redis_version").cloned().unwrap_or_default()
}
