//! Published ways to hand out prizes or to keep limits, each as its authors describe it, on the
//! same Redis as a service under measure.
//!
//! They are called without gRPC, straight from the load, which favours them. Each does less than a
//! draw: what it leaves out, and what that breaks, is provoked and counted in [`promises`].

pub(crate) mod ours;
pub(crate) mod promises;
mod ways;

pub(crate) use self::ways::OneKey;

use std::sync::Arc;

use self::ways::{Counter, JsonTable, Lock, RedPacket};
use crate::{
    beside::Beside,
    failure::Outcome,
    load::{self, Fault, Numbers, Plan},
    record::Record,
};

/// A lock hands out far fewer units than the others.
const LOCK_UNITS_MAX: u64 = 300_000;

/// How many calls of a way are under way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Concurrency {
    /// 20 connections with one call each, as the author of the script measured it.
    Published,
    /// As many connections and calls on each as the service's draws have.
    OfDraws,
}

/// A way, ready to be called.
pub(crate) enum Baseline {
    /// A script that takes the last packet of a list.
    RedPacket(Arc<RedPacket>, Concurrency),
    /// The table of prizes as JSON, under WATCH.
    JsonTable(Arc<JsonTable>),
    /// A lock, and a sorted set of units.
    Lock(Arc<Lock>),
    /// A counter with an expiry: a limit, no draw.
    Counter(Arc<Counter>),
}

impl Baseline {
    /// All of them, with `units` to take.
    pub(crate) async fn all(beside: &Beside, units: u64) -> Outcome<Vec<Self>> {
        Ok(vec![
            Self::RedPacket(
                Arc::new(RedPacket::prepare(beside, "packets-published", units).await?),
                Concurrency::Published,
            ),
            Self::RedPacket(
                Arc::new(RedPacket::prepare(beside, "packets", units).await?),
                Concurrency::OfDraws,
            ),
            Self::JsonTable(Arc::new(JsonTable::prepare(beside, "table", units).await?)),
            Self::Lock(Arc::new(
                Lock::prepare(beside, "locked", units.min(LOCK_UNITS_MAX)).await?,
            )),
            Self::Counter(Arc::new(Counter::prepare(beside, "counter"))),
        ])
    }

    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::RedPacket(..) => "red-packet script",
            Self::JsonTable(_) => "JSON table, WATCH",
            Self::Lock(_) => "SETNX lock, ZREM",
            Self::Counter(_) => "INCR, EXPIRE",
        }
    }

    /// How it is called if a service is called by `plan`: with as many calls under way, each on a
    /// connection of its own if the way needs that; the script besides as its author measured it.
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

    /// One round.
    pub(crate) async fn round(&self, plan: &Plan, numbers: &Arc<Numbers>) -> Result<Record, Fault> {
        match self {
            Self::RedPacket(target, _) => load::round(target, plan, numbers).await,
            Self::JsonTable(target) => load::round(target, plan, numbers).await,
            Self::Lock(target) => load::round(target, plan, numbers).await,
            Self::Counter(target) => load::round(target, plan, numbers).await,
        }
    }
}
