//! Baselines: published methods to hand out prizes or to limit draws. Each is built as its authors
//! describe it and runs on the same Redis as a service under test.
//!
//! The load generator calls them directly, without gRPC, which favours them. Each does less than a
//! draw does. [`promises`] shows what that breaks.

mod methods;
pub(crate) mod ours;
pub(crate) mod promises;

pub(crate) use self::methods::OneKey;

use std::sync::Arc;

use self::methods::{Counter, JsonTable, Lock, RedPacket};
use crate::{
    failure::{Fault, Outcome},
    load::{self, Numbers, Plan},
    record::Record,
    redis_server::RedisServer,
};

/// A lock hands out far fewer units than the other methods.
const LOCK_UNITS_MAX: u64 = 300_000;

/// How many calls of a baseline are in progress at once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Concurrency {
    /// 20 connections with one call each, as the script's author measured it.
    Published,
    /// As many connections, and calls on each, as for the service's draws.
    OfDraws,
}

/// A baseline, ready to be called.
pub(crate) enum Baseline {
    /// A script that pops the last packet of a list.
    RedPacket(Arc<RedPacket>, Concurrency),
    /// The table of prizes as one JSON value, changed under WATCH.
    JsonTable(Arc<JsonTable>),
    /// A lock around a sorted set of units.
    Lock(Arc<Lock>),
    /// A counter with an expiry: it limits draws, but does not draw.
    Counter(Arc<Counter>),
}

impl Baseline {
    /// Prepares all baselines, each with `units` units.
    pub(crate) async fn all(redis: &RedisServer, units: u64) -> Outcome<Vec<Self>> {
        Ok(vec![
            Self::RedPacket(
                Arc::new(RedPacket::prepare(redis, "packets-published", units).await?),
                Concurrency::Published,
            ),
            Self::RedPacket(
                Arc::new(RedPacket::prepare(redis, "packets", units).await?),
                Concurrency::OfDraws,
            ),
            Self::JsonTable(Arc::new(JsonTable::prepare(redis, "table", units).await?)),
            Self::Lock(Arc::new(
                Lock::prepare(redis, "locked", units.min(LOCK_UNITS_MAX)).await?,
            )),
            Self::Counter(Arc::new(Counter::prepare(redis, "counter"))),
        ])
    }

    /// The name in tables.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::RedPacket(..) => "red-packet script",
            Self::JsonTable(_) => "JSON table, WATCH",
            Self::Lock(_) => "SETNX lock, ZREM",
            Self::Counter(_) => "INCR, EXPIRE",
        }
    }

    /// The plan for this baseline when a service is called by `plan`. It has as many calls in
    /// progress, each on its own connection if the baseline needs that. The script is also called
    /// as its author measured it.
    pub(crate) fn plan(&self, plan: &Plan) -> Plan {
        let (connections, outstanding) = match self {
            Self::RedPacket(_, Concurrency::Published) => (20, 1),
            Self::JsonTable(_) | Self::Lock(_) => (plan.connections * plan.outstanding, 1),
            Self::RedPacket(_, Concurrency::OfDraws) | Self::Counter(_) => {
                (plan.connections, plan.outstanding)
            }
        };
        Plan {
            connections,
            outstanding,
            rate: None,
            ..plan.clone()
        }
    }

    /// Runs one round of calls.
    pub(crate) async fn round(&self, plan: &Plan, numbers: &Arc<Numbers>) -> Result<Record, Fault> {
        match self {
            Self::RedPacket(target, _) => load::round(target, plan, numbers).await,
            Self::JsonTable(target) => load::round(target, plan, numbers).await,
            Self::Lock(target) => load::round(target, plan, numbers).await,
            Self::Counter(target) => load::round(target, plan, numbers).await,
        }
    }
}
