//! The machine under measure: its cores, and how long its disk takes to keep a write.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{beside::Beside, subject::Subject};

/// Writes that are timed at most, and for how long.
const WRITES: usize = 200;
const WRITES_TIME_MAX: Duration = Duration::from_secs(2);
const WRITE_BYTES: usize = 4096;

/// A machine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Host {
    pub(crate) cores: usize,
    /// The processor's name, if the system says it.
    pub(crate) processor: String,
    /// How many processes wanted a core in the last minute, before the bench; empty if the system
    /// does not say.
    pub(crate) load: String,
    /// Where temporary data are.
    pub(crate) directory: String,
    /// How long a write of 4 KiB took to be on disk, in microseconds: half of the writes, 99 in
    /// 100; 0 if it could not be measured.
    pub(crate) fsync_us_p50: u64,
    pub(crate) fsync_us_p99: u64,
}

impl Host {
    /// Looks at this machine; times writes in a directory.
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

/// Microseconds of each synced write, in ascending order.
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

/// What a service under measure stands on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ground {
    pub(crate) store: String,
    /// Empty without Redis.
    pub(crate) redis_version: String,
    pub(crate) appendonly: String,
    pub(crate) appendfsync: String,
}

impl Ground {
    /// Asks the Redis of a service, if it has one.
    pub(crate) async fn of(subject: &Subject) -> Self {
        let mut ground = Self {
            store: subject.name.clone(),
            redis_version: String::new(),
            appendonly: String::new(),
            appendfsync: String::new(),
        };
        if let Some(beside) = &subject.beside {
            ground.redis_version = version(beside).await;
            ground.appendonly = beside.setting("appendonly").await;
            ground.appendfsync = beside.setting("appendfsync").await;
        }
        ground
    }
}

async fn version(beside: &Beside) -> String {
    let server = beside.info("server").await.unwrap_or_default();
    server.get("redis_version").cloned().unwrap_or_default()
}
