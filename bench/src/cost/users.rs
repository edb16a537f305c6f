//! Bytes of users who drew once: in Redis by type of key, on disk in total, with ids of 8 and of 36
//! characters.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use redis::{Cmd, RedisError, pipe};

use super::work::Work;
use crate::{
    calls::Grpc,
    campaigns::AFTER,
    failure::Outcome,
    load::Plan,
    redis_server::{RedisServer, redis_failed},
    round::{call, refuse_failures},
    scenario::{Ids, Scenario},
    subject::Store,
};

/// Enough calls in progress to fill whole batches.
const CONNECTIONS: usize = 8;
const OUTSTANDING: usize = 128;
const TIME_MAX: Duration = Duration::from_secs(3600);
/// Spare units, so that draws from a nearly empty pool cost the same as from a full one.
pub(super) const SPARE: u64 = 1000;

/// A plan with this many draws.
pub(super) fn draws(calls: u64) -> Plan {
    Plan {
        connections: CONNECTIONS,
        outstanding: OUTSTANDING,
        rate: None,
        time: TIME_MAX,
        calls_max: calls,
    }
}

pub(super) async fn measure(work: &mut Work<'_>, store: Store) -> Outcome {
    for users in work.args.users.clone() {
        for (ids, letters) in [(Ids::Short, 8), (Ids::Uuid, 36)] {
            measure_one(work, store, users, ids, letters).await?;
        }
    }
    Ok(())
}

async fn measure_one(
    work: &mut Work<'_>,
    store: Store,
    users: u64,
    ids: Ids,
    letters: usize,
) -> Outcome {
    let name = store.name();
    let at = format!("{users} users, ids of {letters}");
    let kind = work.own(store);
    let subject = work
        .rig
        .open(kind, &work.directory, &[Scenario::Draw], users + SPARE)
        .await?;
    let before = Bytes::of(subject.redis.as_ref()).await?;
    let cpu = subject.server.as_ref().and_then(|server| server.cpu());
    let calls = Arc::new(Grpc {
        ids,
        ..subject.calls(Scenario::Draw)
    });
    let plan = draws(users);
    let record = call(&calls, &plan, &Arc::default()).await?;
    refuse_failures("draws", &record)?;
    // Some draws may have failed, or come too late.
    let drawn = (record.calls - record.failures()) as f64;
    let spent = subject.server.as_ref().and_then(|server| server.cpu());
    if let Some(redis) = &subject.redis {
        let after = Bytes::of(Some(redis)).await?;
        let (_, time) = redis.scripts().await?;
        for (kind, what) in KINDS {
            let bytes = after.kind(kind).saturating_sub(before.kind(kind)) as f64 / drawn;
            work.costs.found(name, what, &at, bytes, "bytes a user");
        }
        let all = after.all.saturating_sub(before.all) as f64 / drawn;
        work.costs
            .found(name, "all of Redis's memory", &at, all, "bytes a user");
        let micros = time.saturating_sub(before.scripts).as_secs_f64() * 1e6 / drawn;
        work.costs
            .found(name, "Redis's time", &at, micros, "µs a draw");
    } else if let Some(data) = subject.data().map(Path::to_owned) {
        let wal = size(&data, "tombola.sqlite3-wal");
        // The server moves its write-ahead log into the database when it ends.
        if let Some(server) = subject.server.as_mut() {
            server.stop().await?;
        }
        let bytes = size(&data, "tombola.sqlite3") as f64 / drawn;
        work.costs.found(
            name,
            "on disk, its won unit with it",
            &at,
            bytes,
            "bytes a user",
        );
        work.costs
            .found(name, "log while it runs", &at, wal as f64 / 1e6, "MB");
        subject.serve_at(AFTER).await?;
    }
    if let (Some(before), Some(after)) = (cpu, spent) {
        let micros = after.saturating_sub(before).as_secs_f64() * 1e6 / drawn;
        work.costs
            .found(name, "server's processor", &at, micros, "µs a draw");
    }
    work.close().await
}

fn size(directory: &Path, file: &str) -> u64 {
    std::fs::metadata(directory.join(file)).map_or(0, |metadata| metadata.len())
}

/// Types of keys by the word after the hash tag; see docs/redis.md, "Keys".
const KINDS: [(&str, &str); 3] = [
    ("users", "user records"),
    ("older", "older draws"),
    ("ledger", "ledger not yet settled"),
];

/// Bytes in Redis.
pub(super) struct Bytes {
    kinds: BTreeMap<String, u64>,
    all: u64,
    scripts: Duration,
}

impl Bytes {
    /// Memory by type of key, including the key names and the key table.
    pub(super) async fn of(redis: Option<&RedisServer>) -> Outcome<Self> {
        let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
        let Some(redis) = redis else {
            return Ok(Self {
                kinds,
                all: 0,
                scripts: Duration::ZERO,
            });
        };
        let mut connection = redis.connection();
        redis
            .scan(&format!("{}*", redis.prefix), async |keys| {
                let mut ask = pipe();
                for key in &keys {
                    let mut usage = Cmd::new();
                    usage
                        .arg("MEMORY")
                        .arg("USAGE")
                        .arg(key)
                        .arg("SAMPLES")
                        .arg(0);
                    ask.add_command(usage);
                }
                let bytes: Result<Vec<Option<u64>>, RedisError> =
                    ask.query_async(&mut connection).await;
                for (key, bytes) in keys.iter().zip(bytes.map_err(redis_failed)?) {
                    *kinds.entry(kind_of(key)).or_default() += bytes.unwrap_or(0);
                }
                Ok(())
            })
            .await?;
        let (_, scripts) = redis.scripts().await?;
        Ok(Self {
            kinds,
            all: redis.memory().await?,
            scripts,
        })
    }

    /// Bytes of all keys of one type.
    pub(super) fn kind(&self, kind: &str) -> u64 {
        self.kinds.get(kind).copied().unwrap_or(0)
    }
}

/// The word after the hash tag of a key.
fn kind_of(key: &[u8]) -> String {
    let name = String::from_utf8_lossy(key);
    let behind = name.split_once("}:").map_or("", |(_, behind)| behind);
    behind.split(':').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_key_stands_behind_its_tag() {
        assert_eq!(kind_of(b"tombola{3}:users:wheel:b"), "users");
        assert_eq!(kind_of(b"tombola{3}:ledger"), "ledger");
        assert_eq!(kind_of(b"other"), "");
    }
}
