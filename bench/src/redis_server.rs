//! The Redis server of a service: a running one, or one that the bench starts. This file reads its
//! state and removes the bench's keys. Draws go through the service; only what the bench itself
//! asks of Redis is here.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use redis::{AsyncConnectionConfig, FromRedisValue, RedisError, aio::MultiplexedConnection, cmd};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::{
    failure::{Failure, Outcome},
    process::Process,
};

/// How long a Redis server may take until it replies.
const START_TIME_MAX: Duration = Duration::from_secs(20);
/// Another process may take a port between its choice and its use.
pub(crate) const PORT_ATTEMPTS: usize = 10;
/// Long enough to compute the memory of a key with millions of fields.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a rewrite of the append-only file may take.
const REWRITE_TIME_MAX: Duration = Duration::from_secs(60);
/// The number of keys that one command removes.
const KEYS_REMOVED: usize = 1000;

/// A Redis server.
pub(crate) struct RedisServer {
    /// The URL that reaches it.
    pub(crate) url: String,
    /// The prefix of all keys of the bench.
    pub(crate) prefix: String,
    client: redis::Client,
    connection: MultiplexedConnection,
    // The process ends before its directory is removed.
    own: Option<(Process, TempDir)>,
}

impl RedisServer {
    /// Connects to a running server.
    pub(crate) async fn running(url: &str) -> Outcome<Self> {
        const FORM: &str = "write redis://[user:password@]host[:port][/db]";
        if !url.starts_with("redis://") {
            return Err(Failure::usage(format!(
                "--redis-url: the bench uses one Redis server without TLS: {FORM}; for Sentinel, a \
                 cluster or TLS start \"tombola serve\" on it and name that with --server"
            )));
        }
        let client = redis::Client::open(url)
            .map_err(|error| Failure::usage(format!("--redis-url: {error}; {FORM}")))?;
        Self::connect(url, client, None).await.map_err(|error| {
            Failure::unavailable(
                "NO_REDIS",
                format!(
                    "no Redis at --redis-url ({error}): start one with \"redis-server \
                         --appendonly yes --appendfsync always\", or let the bench start one: \
                         --store redis"
                ),
            )
        })
    }

    /// Starts a server that has every write on disk before it replies, with its data in a directory
    /// below `parent`.
    pub(crate) async fn start(parent: &Path) -> Outcome<Self> {
        let directory = directory(parent)?;
        let log = directory.path().join("redis.log");
        for _ in 0..PORT_ATTEMPTS {
            let port = free_port()?;
            let mut command = Process::command("redis-server");
            command
                .args([
                    "--bind",
                    "127.0.0.1",
                    "--port",
                    &port.to_string(),
                    "--save",
                    "",
                ])
                .args(["--appendonly", "yes", "--appendfsync", "always"])
                // A rewrite of a file that is still small would fall into some rounds and not into
                // others.
                .args(["--auto-aof-rewrite-percentage", "0"])
                .args(["--maxmemory-policy", "noeviction", "--dir"])
                .arg(directory.path());
            let mut process = Process::spawn("redis-server", &mut command, &log).map_err(absent)?;
            let url = format!("redis://127.0.0.1:{port}");
            let client = redis::Client::open(url.as_str()).map_err(redis_failed)?;
            let deadline = Instant::now() + START_TIME_MAX;
            while !process.has_ended() {
                match client.get_multiplexed_async_connection().await {
                    Ok(_) => {
                        let own = Some((process, directory));
                        return Self::connect(&url, client, own).await.map_err(redis_failed);
                    }
                    Err(_) if Instant::now() > deadline => {
                        return Err(process.failed("does not answer"));
                    }
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            }
            if !process.failed("").message.contains("in use") {
                return Err(process.failed("ended"));
            }
        }
        let message = format!("redis-server found no free port in {PORT_ATTEMPTS} tries");
        Err(Failure::refused("PROCESS_FAILED", message))
    }

    /// Starts a replica of this server, with the same settings, and waits until it has all data.
    pub(crate) async fn replicate(&self, parent: &Path) -> Outcome<Self> {
        let replica = Self::start(parent).await?;
        let (host, port) = self.address();
        replica.ask::<String>(&["REPLICAOF", host, port]).await?;
        let deadline = Instant::now() + START_TIME_MAX;
        loop {
            let state = replica.info("replication").await?;
            let is_up = state
                .get("master_link_status")
                .is_some_and(|link| link == "up");
            if is_up {
                return Ok(replica);
            }
            if Instant::now() > deadline {
                return Err(Failure::refused(
                    "REDIS",
                    format!(
                        "the replica at {} does not follow {}",
                        replica.url, self.url
                    ),
                ));
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Host and port of a server that the bench started.
    fn address(&self) -> (&str, &str) {
        let address = self.url.trim_start_matches("redis://");
        address.rsplit_once(':').unwrap_or((address, "6379"))
    }

    async fn connect(
        url: &str,
        client: redis::Client,
        own: Option<(Process, TempDir)>,
    ) -> Result<Self, RedisError> {
        let configuration =
            AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_TIME_MAX));
        let connection = client
            .get_multiplexed_async_connection_with_config(&configuration)
            .await?;
        Ok(Self {
            url: url.into(),
            prefix: format!("tombola-bench-{:016x}", rand::random::<u64>()),
            client,
            connection,
            own,
        })
    }

    /// Whether the bench started it.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// The connection for single commands.
    pub(crate) fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// A client for further connections.
    pub(crate) fn client(&self) -> &redis::Client {
        &self.client
    }

    /// Sends one command.
    pub(crate) async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> Outcome<T> {
        let Some((name, arguments)) = words.split_first() else {
            return Err(Failure::refused("REDIS", "no command"));
        };
        let mut connection = self.connection.clone();
        cmd(name)
            .arg(arguments)
            .query_async(&mut connection)
            .await
            .map_err(redis_failed)
    }

    /// A section of `INFO`, by field.
    pub(crate) async fn info(&self, section: &str) -> Outcome<BTreeMap<String, String>> {
        let text: String = self.ask(&["INFO", section]).await?;
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(fields
            .map(|(name, value)| (name.into(), value.trim().into()))
            .collect())
    }

    /// The number of script calls, and the time that Redis spent on them.
    pub(crate) async fn scripts(&self) -> Outcome<(u64, Duration)> {
        let stats = self.info("commandstats").await?;
        let line = stats.get("cmdstat_evalsha").map_or("", String::as_str);
        let field = |name: &str| -> u64 {
            let mut fields = line.split(',').filter_map(|field| field.split_once('='));
            let value = fields.find_map(|(field, value)| (field == name).then_some(value));
            value.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        Ok((field("calls"), Duration::from_micros(field("usec"))))
    }

    /// Waits until Redis does not rewrite its append-only file. A rewrite begins when the file has
    /// doubled, so filling the store starts one; it would compete with the measurement for the
    /// disk.
    pub(crate) async fn settle(&self) -> Outcome {
        let deadline = Instant::now() + REWRITE_TIME_MAX;
        while Instant::now() < deadline {
            let persistence = self.info("persistence").await?;
            let fields = [
                "aof_rewrite_in_progress",
                "aof_rewrite_scheduled",
                "rdb_bgsave_in_progress",
            ];
            let is_idle = |field: &str| persistence.get(field).is_none_or(|value| value == "0");
            if fields.into_iter().all(is_idle) {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Bytes of all data in Redis.
    pub(crate) async fn memory(&self) -> Outcome<u64> {
        let memory = self.info("memory").await?;
        let used = memory.get("used_memory").and_then(|text| text.parse().ok());
        Ok(used.unwrap_or(0))
    }

    /// The value of a setting; empty if it may not be read.
    pub(crate) async fn setting(&self, name: &str) -> String {
        let pair: Outcome<Vec<String>> = self.ask(&["CONFIG", "GET", name]).await;
        pair.ok()
            .and_then(|mut pair| pair.pop())
            .unwrap_or_default()
    }

    /// Calls `each` with the keys that match, some at a time.
    pub(crate) async fn scan(
        &self,
        pattern: &str,
        mut each: impl AsyncFnMut(Vec<Vec<u8>>) -> Outcome,
    ) -> Outcome {
        let mut cursor = "0".to_owned();
        loop {
            let count = KEYS_REMOVED.to_string();
            let (next, keys): (String, Vec<Vec<u8>>) = self
                .ask(&["SCAN", &cursor, "MATCH", pattern, "COUNT", &count])
                .await?;
            if !keys.is_empty() {
                each(keys).await?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Removes all keys of the bench.
    pub(crate) async fn sweep(&self) -> Outcome {
        let pattern = format!("{}*", self.prefix);
        self.scan(&pattern, async |keys| {
            let mut connection = self.connection.clone();
            let removed: Result<u64, RedisError> =
                cmd("UNLINK").arg(keys).query_async(&mut connection).await;
            removed.map(drop).map_err(redis_failed)
        })
        .await
    }
}

/// An error of Redis, or of the connection to it.
pub(crate) fn redis_failed(error: RedisError) -> Box<Failure> {
    Failure::refused("REDIS", format!("Redis failed: {error}"))
}

fn absent(error: std::io::Error) -> Box<Failure> {
    let message = match error.kind() {
        ErrorKind::NotFound => "there is no redis-server to start: install Redis 6.2 or later \
            (Debian, Ubuntu: apt install redis-server; macOS: brew install redis), or name a \
            running one with --redis-url"
            .into(),
        _ => format!("cannot start redis-server: {error}"),
    };
    Failure::refused("NO_REDIS_SERVER", message)
}

/// Makes a temporary directory below `parent`.
pub(crate) fn directory(parent: &Path) -> Outcome<TempDir> {
    tempfile::Builder::new()
        .prefix("tombola-bench-")
        .tempdir_in(parent)
        .map_err(|error| {
            let message = format!(
                "cannot make a directory in {}: {error}; name another one with --directory",
                parent.display()
            );
            Failure::refused("NO_DIRECTORY", message)
        })
}

/// A port that nothing listens at.
pub(crate) fn free_port() -> Outcome<u16> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| Failure::refused("NO_PORT", format!("no free port: {error}")))
}
