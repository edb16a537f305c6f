//! What the settler needs of a store: entries in order, and that the store gives up what is
//! settled.

use async_trait::async_trait;

use super::{Entry, Result, sqlite::LedgerTables};

/// How far a partition is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledUpTo {
    /// The fork under which the last settled entry was read; empty on a store without forks.
    pub fork: String,
    /// The number of the last settled entry.
    pub sequence: u64,
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
}

impl Unsettled {
    /// Takes entries in order: finds the settled one, and drops those before it.
    pub(super) fn of(fork: String, entries: Vec<Entry>, settled: u64) -> Self {
        let mut unsettled = Self {
            fork,
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

    /// Gives up entries before the last settled one, as far as nothing in the store needs them.
    /// Does nothing if the store does not have that entry, under that fork: then it was rolled
    /// back, and other entries may have numbers below it.
    async fn trim(&self, partition: u32, settled: &SettledUpTo) -> Result<()>;

    /// Tables for the settled ledger in the store's own file, if it is one.
    fn ledger_tables(&self) -> Option<LedgerTables> {
        None
    }

    /// The number of a partition's last entry; 0 if it has none. A halted partition says it too.
    async fn head(&self, partition: u32) -> Result<u64>;

    /// The partition of a campaign or an envelope of this id.
    fn partition_of(&self, id: &str) -> u32;
}
