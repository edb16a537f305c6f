//! The baselines: what each keeps in Redis, and one call of it.

use std::time::{Duration, Instant};

use redis::{
    AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, Value,
    aio::MultiplexedConnection, cmd, pipe,
};
use serde_json::{Value as Json, json};

use crate::{
    failure::{Fault, Outcome},
    load::{Caller, Target},
    record::Answer,
    redis_server::{RedisServer, redis_failed},
};

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// In some baselines thousands of callers wait for one another.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// The largest number of entries that one command adds while a baseline is filled.
const FILLED: u64 = 1000;
/// The number of prizes in the JSON table.
const PRIZES: u64 = 8;
/// The lock's expiry, and the pause before another try to take it.
const LOCK_TIME: Duration = Duration::from_secs(3);
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// How long a caller tries before it gives up: as long as a user would wait.
const TRIED: Duration = Duration::from_secs(2);
/// A user's counter expires after a day.
const DAY: Duration = Duration::from_secs(86_400);
/// Draws per user and day.
pub(super) const QUOTA: u64 = 3;

/// Opens a connection.
pub(super) async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    let configuration = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIME_MAX))
        .set_response_timeout(Some(ANSWER_TIME_MAX));
    client
        .get_multiplexed_async_connection_with_config(&configuration)
        .await
}

/// The error of a caller that tried for too long.
const GAVE_UP: &str = "GAVE_UP";

fn gave_up() -> RedisError {
    RedisError::from((ErrorKind::Client, GAVE_UP))
}

fn answer(won: RedisResult<bool>) -> Answer {
    match won {
        Ok(true) => Answer::Won,
        Ok(false) => Answer::Done,
        Err(error) if error.kind() == ErrorKind::Client => Answer::Failed(GAVE_UP.into()),
        Err(error) => Answer::Failed(error.code().unwrap_or("REDIS_ERROR").into()),
    }
}

/// Calls `fill` with the numbers from 0 to `units`, some at a time.
async fn fill(
    redis: &RedisServer,
    units: u64,
    fill: impl Fn(&mut redis::Cmd, u64),
    begin: impl Fn() -> redis::Cmd,
) -> Outcome {
    let mut connection = connect(redis.client()).await.map_err(redis_failed)?;
    for first in (0..units).step_by(FILLED as usize) {
        let mut command = begin();
        for number in first..(first + FILLED).min(units) {
            fill(&mut command, number);
        }
        let _: u64 = command
            .query_async(&mut connection)
            .await
            .map_err(redis_failed)?;
    }
    Ok(())
}

/// A script that pops the last packet of a list.
#[derive(Clone)]
pub(crate) struct RedPacket {
    client: Client,
    keys: [String; 3],
    digest: String,
}

impl RedPacket {
    pub(super) async fn prepare(redis: &RedisServer, name: &str, packets: u64) -> Outcome<Self> {
        let digest = redis
            .ask(&["SCRIPT", "LOAD", include_str!("red_packet.lua")])
            .await?;
        let key = |kind: &str| format!("{}:{name}:{kind}", redis.prefix);
        let keys = [key("waiting"), key("taken"), key("users")];
        let push = || cmd("LPUSH").arg(&keys[0]).to_owned();
        let packet = |command: &mut redis::Cmd, number: u64| {
            command.arg(format!(
                "{{\"id\":{number},\"money\":{}}}",
                number % 100 + 1
            ));
        };
        fill(redis, packets, packet, push).await?;
        Ok(Self {
            client: redis.client().clone(),
            keys,
            digest,
        })
    }

    pub(super) async fn take(
        &self,
        connection: &mut MultiplexedConnection,
        user: &str,
    ) -> RedisResult<Option<String>> {
        let mut script = cmd("EVALSHA");
        script.arg(&self.digest).arg(4).arg(&self.keys).arg(user);
        script.query_async(connection).await
    }
}

/// A connection, and the baseline that it calls.
pub(crate) struct BaselineCaller<W> {
    connection: MultiplexedConnection,
    baseline: std::rc::Rc<W>,
}

impl<W> Clone for BaselineCaller<W> {
    fn clone(&self) -> Self {
        Self {
            connection: self.connection.clone(),
            baseline: std::rc::Rc::clone(&self.baseline),
        }
    }
}

macro_rules! targets {
    ($($baseline:ident: |$caller:ident, $number:ident| $call:expr;)*) => {$(
        impl Target for $baseline {
            type Caller = BaselineCaller<Self>;

            async fn connect(&self) -> Result<Self::Caller, Fault> {
                let connection = connect(&self.client).await?;
                Ok(BaselineCaller { connection, baseline: std::rc::Rc::new(self.clone()) })
            }
        }

        impl Caller for BaselineCaller<$baseline> {
            async fn call(&mut self, $number: u64) -> Answer {
                let $caller = self;
                answer($call.await)
            }
        }
    )*};
}

targets! {
    RedPacket: |it, number| async {
        let user = format!("user-{number:010}");
        Ok(it.baseline.take(&mut it.connection, &user).await?.is_some())
    };
    JsonTable: |it, number| it.baseline.draw(&mut it.connection, number);
    Lock: |it, number| async {
        Ok(it.baseline.draw(&mut it.connection, &format!("{number:016x}")).await?.is_some())
    };
    OneKey: |it, number| it.baseline.write(&mut it.connection, number);
    Counter: |it, number| it.baseline.count(&mut it.connection, &format!("user-{number:010}"), DAY);
}

/// The table of prizes as one JSON value. A draw reads it, chooses, and writes it back if it has
/// not changed meanwhile; otherwise it starts again.
#[derive(Clone)]
pub(crate) struct JsonTable {
    client: Client,
    key: String,
}

impl JsonTable {
    pub(super) async fn prepare(redis: &RedisServer, name: &str, units: u64) -> Outcome<Self> {
        let key = format!("{}:{name}", redis.prefix);
        let prizes: Vec<Json> = (0..PRIZES)
            .map(|n| json!({"id": n, "name": format!("prize {n}"), "left": units / PRIZES + 1}))
            .collect();
        let table = json!({ "prizes": prizes }).to_string();
        let _: Value = redis.ask(&["SET", &key, &table]).await?;
        Ok(Self {
            client: redis.client().clone(),
            key,
        })
    }

    /// Units that are left.
    pub(super) async fn left(&self, connection: &mut MultiplexedConnection) -> RedisResult<u64> {
        let text: String = cmd("GET").arg(&self.key).query_async(connection).await?;
        let table: Json = serde_json::from_str(&text).unwrap_or_default();
        let prizes = table["prizes"].as_array().into_iter().flatten();
        Ok(prizes.filter_map(|prize| prize["left"].as_u64()).sum())
    }

    /// Needs a connection of its own, since WATCH belongs to the connection.
    pub(super) async fn draw(
        &self,
        connection: &mut MultiplexedConnection,
        number: u64,
    ) -> RedisResult<bool> {
        let begun = Instant::now();
        while begun.elapsed() < TRIED {
            let _: Value = cmd("WATCH").arg(&self.key).query_async(connection).await?;
            let text: String = cmd("GET").arg(&self.key).query_async(connection).await?;
            let mut table: Json = serde_json::from_str(&text).unwrap_or_default();
            let prize = (number % PRIZES) as usize;
            let left = table["prizes"][prize]["left"].as_u64().unwrap_or(0);
            if left == 0 {
                let _: Value = cmd("UNWATCH").query_async(connection).await?;
                return Ok(false);
            }
            table["prizes"][prize]["left"] = json!(left - 1);
            let mut write = pipe();
            write.atomic().set(&self.key, table.to_string()).ignore();
            let written: Option<()> = write.query_async(connection).await?;
            if written.is_some() {
                return Ok(true);
            }
        }
        Err(gave_up())
    }
}

/// A lock with an expiry around the earliest unit of a sorted set.
#[derive(Clone)]
pub(crate) struct Lock {
    client: Client,
    lock: String,
    units: String,
    time: Duration,
}

impl Lock {
    pub(super) async fn prepare(redis: &RedisServer, name: &str, units: u64) -> Outcome<Self> {
        let key = |kind: &str| format!("{}:{name}:{kind}", redis.prefix);
        let (lock, set) = (key("lock"), key("units"));
        let add = || cmd("ZADD").arg(&set).to_owned();
        let unit = |command: &mut redis::Cmd, number: u64| {
            command.arg(number).arg(format!("unit-{number}"));
        };
        fill(redis, units, unit, add).await?;
        Ok(Self {
            client: redis.client().clone(),
            lock,
            units: set,
            time: LOCK_TIME,
        })
    }

    /// The same baseline with a lock that expires sooner.
    pub(super) fn expiring_after(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    pub(super) async fn draw(
        &self,
        connection: &mut MultiplexedConnection,
        token: &str,
    ) -> RedisResult<Option<String>> {
        self.take(connection, token).await?;
        self.draw_locked(connection, Duration::ZERO).await
    }

    /// Waits until it holds the lock.
    async fn take(&self, connection: &mut MultiplexedConnection, token: &str) -> RedisResult<()> {
        let begun = Instant::now();
        while begun.elapsed() < TRIED {
            let mut set = cmd("SET");
            set.arg(&self.lock).arg(token).arg("NX").arg("PX");
            set.arg(self.time.as_millis() as u64);
            let taken: Option<String> = set.query_async(connection).await?;
            if taken.is_some() {
                return Ok(());
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        Err(gave_up())
    }

    /// Looks up a unit, takes it and unlocks, while it holds the lock. A stall in between is
    /// possible, as in any process.
    async fn draw_locked(
        &self,
        connection: &mut MultiplexedConnection,
        stall: Duration,
    ) -> RedisResult<Option<String>> {
        let mut look = cmd("ZRANGEBYSCORE");
        look.arg(&self.units).arg("-inf").arg("+inf");
        look.arg("LIMIT").arg(0).arg(1);
        let units: Vec<String> = look.query_async(connection).await?;
        if !stall.is_zero() {
            tokio::time::sleep(stall).await;
        }
        if let Some(unit) = units.first() {
            // The lock keeps others from taking it, so nobody checks the reply.
            let _: u64 = cmd("ZREM")
                .arg(&self.units)
                .arg(unit)
                .query_async(connection)
                .await?;
        }
        let _: u64 = cmd("DEL").arg(&self.lock).query_async(connection).await?;
        Ok(units.into_iter().next())
    }

    /// A draw whose caller stalls between looking up the unit and taking it.
    pub(super) async fn draw_stalled(
        &self,
        connection: &mut MultiplexedConnection,
        token: &str,
        stall: Duration,
    ) -> RedisResult<Option<String>> {
        self.take(connection, token).await?;
        self.draw_locked(connection, stall).await
    }
}

/// A script that writes one key: the least that a draw could cost Redis.
#[derive(Clone)]
pub(crate) struct OneKey {
    client: Client,
    key: String,
    digest: String,
}

impl OneKey {
    pub(crate) async fn prepare(redis: &RedisServer) -> Outcome<Self> {
        let script = "return redis.call('SET', KEYS[1], ARGV[1])";
        Ok(Self {
            client: redis.client().clone(),
            key: format!("{}:one-key", redis.prefix),
            digest: redis.ask(&["SCRIPT", "LOAD", script]).await?,
        })
    }

    async fn write(
        &self,
        connection: &mut MultiplexedConnection,
        number: u64,
    ) -> RedisResult<bool> {
        let mut script = cmd("EVALSHA");
        script.arg(&self.digest).arg(1).arg(&self.key).arg(number);
        let _: Value = script.query_async(connection).await?;
        Ok(true)
    }
}

/// A counter of a user's draws that expires; draws above the quota are refused.
#[derive(Clone)]
pub(crate) struct Counter {
    client: Client,
    key: String,
}

impl Counter {
    pub(super) fn prepare(redis: &RedisServer, name: &str) -> Self {
        Self {
            client: redis.client().clone(),
            key: format!("{}:{name}", redis.prefix),
        }
    }

    /// The key of a user's counter.
    pub(super) fn key(&self, user: &str) -> String {
        format!("{}:{user}", self.key)
    }

    /// Counts a draw; returns false if it is refused.
    pub(super) async fn count(
        &self,
        connection: &mut MultiplexedConnection,
        user: &str,
        day: Duration,
    ) -> RedisResult<bool> {
        let key = self.key(user);
        let count: u64 = cmd("INCR").arg(&key).query_async(connection).await?;
        if count == 1 {
            expire(connection, &key, day).await?;
        }
        Ok(count <= QUOTA)
    }
}

/// Sets the expiry of a key.
pub(super) async fn expire(
    connection: &mut MultiplexedConnection,
    key: &str,
    after: Duration,
) -> Result<(), RedisError> {
    let mut expire = cmd("PEXPIRE");
    expire.arg(key).arg(after.as_millis() as u64);
    let _: u64 = expire.query_async(connection).await?;
    Ok(())
}
