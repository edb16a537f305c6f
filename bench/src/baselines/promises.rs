//! Which promises each baseline breaks. Each test provokes a stalled process, a lost answer or the
//! end of a day, and counts what happened. Only failures that happened in the run are reported.

use std::{collections::BTreeMap, time::Duration};

use redis::{RedisResult, aio::MultiplexedConnection, cmd, pipe};
use serde::Serialize;
use tokio::task::JoinSet;

use super::methods::{Counter, JsonTable, Lock, QUOTA, RedPacket, connect, expire};
use crate::{
    failure::Outcome,
    redis_server::{RedisServer, redis_failed},
};

/// Orders whose answer is lost, so that the caller sends them again.
pub(crate) const ORDERS: u64 = 500;
/// How often the holder of a lock stalls, how long the lock lives, and how long a stall takes.
const STALLS: u64 = 20;
const LOCK_TIME: Duration = Duration::from_millis(40);
const STALL: Duration = Duration::from_millis(80);
/// Users who draw over several short days: how long a day is, how many, and tries in each.
const USERS: u64 = 100;
const DAY: Duration = Duration::from_millis(1000);
const DAYS: u32 = 3;
const TRIES_A_DAY: u32 = 6;
/// One caller in this many crashes between two commands.
const CRASH_ONE_IN: u64 = 50;

/// How often a promise was broken.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Broken {
    /// Whether Tombola gave the promise, and not a baseline.
    #[serde(skip)]
    is_of_tombola: bool,
    pub(crate) way: String,
    pub(crate) promise: &'static str,
    /// What `times` counts.
    pub(crate) what: String,
    pub(crate) times: u64,
    pub(crate) of: u64,
}

impl Broken {
    /// How often a baseline broke a promise.
    fn by_baseline(way: &str, promise: &'static str, what: &str, times: u64, of: u64) -> Self {
        Self {
            is_of_tombola: false,
            way: way.into(),
            promise,
            what: what.into(),
            times,
            of,
        }
    }

    /// How often Tombola broke a promise, on this store.
    pub(super) fn by_tombola(
        store: &str,
        promise: &'static str,
        what: &str,
        times: u64,
        of: u64,
    ) -> Self {
        Self {
            is_of_tombola: true,
            ..Self::by_baseline(&format!("tombola, {store}"), promise, what, times, of)
        }
    }

    /// Whether Tombola broke it.
    pub(crate) fn counts_against_tombola(&self) -> bool {
        self.is_of_tombola && self.times > 0
    }
}

/// Provokes all of them.
pub(crate) async fn provoke(redis: &RedisServer) -> Outcome<Vec<Broken>> {
    let mut all = Vec::new();
    all.push(lost_answers_of_packets(redis).await?);
    all.push(lost_answers_of_the_table(redis).await?);
    all.push(stalls_of_the_lock(redis).await?);
    all.extend(days_of_the_counter(redis).await?);
    all.push(crashes_of_the_counter(redis).await?);
    Ok(all)
}

/// The caller who asks again after a lost answer gets "nothing", though a packet was taken for it.
async fn lost_answers_of_packets(redis: &RedisServer) -> Outcome<Broken> {
    let way = RedPacket::prepare(redis, "lost-packets", ORDERS * 2).await?;
    let mut connection = connect(redis.client()).await.map_err(redis_failed)?;
    let mut false_nothing = 0;
    for number in 0..ORDERS {
        let user = format!("user-{number}");
        // The first answer is lost on its way.
        drop(
            way.take(&mut connection, &user)
                .await
                .map_err(redis_failed)?,
        );
        let again = way
            .take(&mut connection, &user)
            .await
            .map_err(redis_failed)?;
        false_nothing += u64::from(again.is_none());
    }
    let what = "a retry after a lost answer got \"nothing\", though a packet was taken";
    Ok(Broken::by_baseline(
        "red-packet script",
        "P4, P8",
        what,
        false_nothing,
        ORDERS,
    ))
}

async fn lost_answers_of_the_table(redis: &RedisServer) -> Outcome<Broken> {
    let way = JsonTable::prepare(redis, "lost-table", ORDERS * 16).await?;
    let mut connection = connect(redis.client()).await.map_err(redis_failed)?;
    let before = way.left(&mut connection).await.map_err(redis_failed)?;
    for number in 0..ORDERS {
        for _ in 0..2 {
            way.draw(&mut connection, number)
                .await
                .map_err(redis_failed)?;
        }
    }
    let taken = before - way.left(&mut connection).await.map_err(redis_failed)?;
    let what = "a retry after a lost answer took a second unit";
    Ok(Broken::by_baseline(
        "JSON table, WATCH",
        "P4",
        what,
        taken.saturating_sub(ORDERS),
        ORDERS,
    ))
}

/// The holder stalls for longer than the lock lives, so the next one takes the same unit.
async fn stalls_of_the_lock(redis: &RedisServer) -> Outcome<Broken> {
    let way = Lock::prepare(redis, "stalled", STALLS * 4)
        .await?
        .expiring_after(LOCK_TIME);
    let mut stalled = connect(redis.client()).await.map_err(redis_failed)?;
    let mut other = connect(redis.client()).await.map_err(redis_failed)?;
    let mut won: BTreeMap<String, u64> = BTreeMap::new();
    for number in 0..STALLS {
        let (one, two) = (format!("a{number}"), format!("b{number}"));
        let units = tokio::join!(way.draw_stalled(&mut stalled, &one, STALL), async {
            // Comes when the first one has the lock.
            tokio::time::sleep(LOCK_TIME / 4).await;
            way.draw(&mut other, &two).await
        });
        for unit in [
            units.0.map_err(redis_failed)?,
            units.1.map_err(redis_failed)?,
        ]
        .into_iter()
        .flatten()
        {
            *won.entry(unit).or_default() += 1;
        }
    }
    let twice = won.values().filter(|times| **times > 1).count() as u64;
    let what =
        "a unit was won twice: the holder of the lock stalled for longer than the lock lived";
    Ok(Broken::by_baseline(
        "SETNX lock, ZREM",
        "P1",
        what,
        twice,
        STALLS,
    ))
}

/// On days that last a second, counts users who drew more than the quota, and users who were
/// refused although quota of the day was left.
async fn days_of_the_counter(redis: &RedisServer) -> Outcome<Vec<Broken>> {
    let mut tasks = JoinSet::new();
    for user in 0..USERS {
        let way = Counter::prepare(redis, "days");
        let connection = connect(redis.client()).await.map_err(redis_failed)?;
        tasks.spawn(days_of_a_user(way, connection, format!("user-{user}")));
    }
    let (mut exceeded, mut deprived) = (0, 0);
    while let Some(ended) = tasks.join_next().await {
        let Ok(drawn) = ended else { continue };
        let (more, fewer) = drawn.map_err(redis_failed)?;
        exceeded += u64::from(more);
        deprived += u64::from(fewer);
    }
    let way = "INCR, EXPIRE";
    Ok(vec![
        Broken::by_baseline(
            way,
            "P5",
            "a user drew more than the quota in one day",
            exceeded,
            USERS,
        ),
        Broken::by_baseline(
            way,
            "P5",
            "a user was refused, though quota of that day was left",
            deprived,
            USERS,
        ),
    ])
}

/// Whether a user drew more than the quota in a day, and whether it was refused with quota left.
async fn days_of_a_user(
    way: Counter,
    mut connection: MultiplexedConnection,
    user: String,
) -> RedisResult<(bool, bool)> {
    let mut drawn: BTreeMap<u64, u64> = BTreeMap::new();
    let mut deprived = false;
    for number in 0..=DAYS * TRIES_A_DAY {
        // The first draw is in the middle of a day; on later days draws come early and late.
        let pause = match number {
            0 => DAY.mul_f64(rand::random_range(0.0..1.0)),
            1 => DAY / 2,
            _ => (DAY / TRIES_A_DAY).mul_f64(rand::random_range(0.2..1.8)),
        };
        tokio::time::sleep(pause).await;
        // The script counts and reads the time in one step, by one clock.
        let mut step = pipe();
        step.atomic()
            .incr(way.key(&user), 1)
            .add_command(cmd("TIME").to_owned());
        let (count, (seconds, micros)): (u64, (u64, u64)) =
            step.query_async(&mut connection).await?;
        if count == 1 {
            expire(&mut connection, &way.key(&user), DAY).await?;
        }
        let day = (seconds * 1_000_000 + micros) / DAY.as_micros() as u64;
        if count <= QUOTA {
            *drawn.entry(day).or_default() += 1;
        } else {
            deprived |= drawn.get(&day).copied().unwrap_or(0) < QUOTA;
        }
    }
    Ok((drawn.values().any(|draws| *draws > QUOTA), deprived))
}

/// A caller crashes between counting and setting the expiry. Once the quota is used, the user is
/// refused for ever.
async fn crashes_of_the_counter(redis: &RedisServer) -> Outcome<Broken> {
    let way = Counter::prepare(redis, "crashed");
    let mut connection = connect(redis.client()).await.map_err(redis_failed)?;
    let mut for_ever = 0;
    for number in 0..ORDERS {
        let user = format!("user-{number}");
        if number % CRASH_ONE_IN == 0 {
            let counted: RedisResult<u64> = cmd("INCR")
                .arg(way.key(&user))
                .query_async(&mut connection)
                .await;
            counted.map_err(redis_failed)?;
        } else {
            way.count(&mut connection, &user, DAY * 60)
                .await
                .map_err(redis_failed)?;
        }
        let left: RedisResult<i64> = cmd("PTTL")
            .arg(way.key(&user))
            .query_async(&mut connection)
            .await;
        for_ever += u64::from(left.map_err(redis_failed)? == -1);
    }
    let what = "a user's counter never expires: the caller ended between INCR and EXPIRE";
    Ok(Broken::by_baseline(
        "INCR, EXPIRE",
        "P5",
        what,
        for_ever,
        ORDERS / CRASH_ONE_IN,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_tombola_breaks_counts_against_it() {
        let by_tombola = |times| Broken::by_tombola("redis", "P4", "", times, 2);
        assert!(by_tombola(1).counts_against_tombola());
        assert!(!by_tombola(0).counts_against_tombola());
        assert_eq!(by_tombola(1).way, "tombola, redis");
        // Whatever the baseline is called.
        let by_baseline = Broken::by_baseline("tombola, redis", "P4", "", 2, 2);
        assert!(!by_baseline.counts_against_tombola());
    }
}
