//! What the settler needs of a store: entries in order, and that the store gives up what is
//! settled.

use std::time::Duration;

use async_trait::async_trait;

use super::{Entry, Result, sqlite::LedgerTables};
use crate::{chance::Salt, model::Moment};

/// How far a partition is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledUpTo {
    /// The fork under which the last settled entry was read; empty on a store without forks.
    pub fork: String,
    /// The number of the last settled entry.
    pub sequence: u64,
}

/// How many entries of a partition may wait to be settled, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogBound {
    /// From so many entries on, there are too many.
    pub entries: u64,
    /// From this age of the oldest one on, it waits for too long.
    pub age: Duration,
}

impl BacklogBound {
    /// Whether so many entries are too many.
    pub(super) fn is_reached_by(&self, entries: u64) -> bool {
        entries >= self.entries
    }

    /// Whether an entry of this moment waits for too long.
    pub(super) fn is_passed_at(&self, now: Moment, oldest: Moment) -> bool {
        now.since(oldest) >= self.age
    }
}

/// The entries of a partition that are not settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Something was settled, or this service [settles](SettleStore::expect_settling): there is a
    /// sink, and the entries wait for it.
    pub has_sink: bool,
    /// How many they are.
    pub entries: u64,
    /// When the oldest of them was written.
    pub oldest: Option<Moment>,
}

/// The memory of the part of a store that has the least left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What it takes.
    pub used_bytes: u64,
    /// What it may take.
    pub max_bytes: u64,
    /// How long the rest lasts at the present rate; none if the rate is not known, or the memory
    /// does not become less.
    pub lasts: Option<Duration>,
}

/// What a store has from the last settled entry on.
#[derive(Clone, Debug, Default)]
pub struct Unsettled {
    /// The fork under which this was read; empty on a store without forks.
    pub fork: String,
    /// The entry that was settled last, if the store still has it.
    pub settled: Option<Entry>,
    /// Entries after it, in order.
    pub entries: Vec<Entry>,
    /// Whether further entries may come after these.
    pub has_more: bool,
}

impl Unsettled {
    /// Takes entries in order: finds the settled one, and drops those before it.
    pub(super) fn of(fork: String, entries: Vec<Entry>, settled: u64, has_more: bool) -> Self {
        let mut unsettled = Self {
            fork,
            has_more,
            ..Self::default()
        };
        for entry in entries {
            if entry.id.sequence > settled {
                unsettled.entries.push(entry);
            } else if entry.id.sequence == settled {
                unsettled.settled = Some(entry);
            }
        }
        unsettled
    }
}

/// A part of [`super::Store`], with the same errors.
#[async_trait]
pub trait SettleStore: Send + Sync {
    /// Entries of a partition after the last settled one, about `limit` at most, and that one. What
    /// it gives is as durable as the store promises. On Redis the last settled entry is a witness:
    /// a partition that has lost it halts.
    async fn unsettled(
        &self,
        partition: u32,
        settled: Option<&SettledUpTo>,
        limit: usize,
    ) -> Result<Unsettled>;

    /// Gives up entries before the last settled one, as far as nothing in the store needs them, and
    /// notes how far the partition is settled. Does nothing, and is false, if the store does not
    /// have that entry, under that fork: then it was rolled back, and other entries may have
    /// numbers below it.
    async fn trim(&self, partition: u32, settled: &SettledUpTo) -> Result<bool>;

    /// Sets how many entries of a partition may wait to be settled. Beyond that, draws and grabs
    /// that are not retries are refused ([`super::Refusal::LedgerBacklog`]); what operators do, and
    /// refunds, are not. It holds for partitions of which something was settled: another process
    /// may be the one that settles.
    fn bound_backlog(&self, bound: BacklogBound);

    /// Notes that this service settles the ledger. If that fails from the start, nothing is ever
    /// settled, and all the same the entries wait for a sink ([`Backlog::has_sink`]).
    fn expect_settling(&self);

    /// The entries of a partition that are not settled.
    async fn backlog(&self, partition: u32) -> Result<Backlog>;

    /// The random bytes from which the pseudonyms of a campaign, or with an empty id of all other
    /// entries of a partition, are derived. If there are none, `new` is kept: data of versions
    /// without pseudonyms have none.
    async fn salt(&self, partition: u32, campaign: &str, new: Salt) -> Result<Salt>;

    /// The memory that the store has, if it is bounded and known.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// Tables for the settled ledger in the store's own file, if it is one.
    fn ledger_tables(&self) -> Option<LedgerTables> {
        None
    }

    /// The number of a partition's last entry; 0 if it has none. A halted partition says it too.
    async fn head(&self, partition: u32) -> Result<u64>;

    /// The partition of a campaign or an envelope of this id.
    fn partition_of(&self, id: &str) -> u32;
}
