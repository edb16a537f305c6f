//! Follows the ledger: entries of each partition in order, from the store while it has the next
//! one, else from the sink. A follower of settled entries never sees one that a rollback of the
//! store can undo.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use thiserror::Error;
use tokio::{sync::Mutex, time::Instant};

use super::read::{LedgerReader, ReadError};
use crate::store::{Entry, LedgerId, Store, StoreError, entry::Body};

/// Entries that are read at once. Of large ones a follower holds fewer: see
/// [`crate::store::LEDGER_PAGE_BYTES`].
const BATCH_ENTRIES: usize = 50;
/// For how long followers share what one of them has read of the sink's cursors.
const CURSORS_AGE_MAX: Duration = Duration::from_millis(100);

/// Why the ledger cannot be followed.
#[derive(Debug, Error)]
pub enum FollowError {
    /// The sink.
    #[error(transparent)]
    Sink(#[from] ReadError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The follower has seen an entry that is not there.
    #[error(
        "entry {} of partition {}, which the cursor has seen, is not there: it was lost in a \
         rollback of the store, or is another store's; begin without a cursor",
        .0.sequence, .0.partition
    )]
    Lost(LedgerId),
}

/// The last entry that a follower has seen of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its number; 0 before the first one.
    pub sequence: u64,
    /// Mark of its fork.
    pub fork: u32,
}

/// How far a follower is, by partition.
pub type Positions = BTreeMap<u32, Seen>;

/// How far the sink is, by partition, shared by all followers.
#[derive(Default)]
pub struct Heads(Mutex<Option<(Instant, BTreeMap<u32, u64>)>>);

impl Heads {
    async fn read(&self, reader: &dyn LedgerReader) -> Result<BTreeMap<u32, u64>, ReadError> {
        let mut known = self.0.lock().await;
        if let Some((at, heads)) = &*known
            && at.elapsed() < CURSORS_AGE_MAX
        {
            return Ok(heads.clone());
        }
        let cursors = reader.cursors().await?.into_iter();
        let heads: BTreeMap<_, _> = cursors
            .map(|(partition, settled)| (partition, settled.up_to.sequence))
            .collect();
        *known = Some((Instant::now(), heads.clone()));
        Ok(heads)
    }
}

/// What is followed.
pub struct Source {
    /// The store.
    pub store: Arc<dyn Store>,
    /// What is settled of it.
    pub reader: Arc<dyn LedgerReader>,
    /// How far the sink is.
    pub heads: Arc<Heads>,
    /// Also entries that are not settled.
    pub unsettled: bool,
}

impl Source {
    /// The number of the last entry that can be followed now.
    async fn heads(&self, partitions: &[u32]) -> Result<BTreeMap<u32, u64>, FollowError> {
        if !self.unsettled {
            return Ok(self.heads.read(&*self.reader).await?);
        }
        let mut heads = BTreeMap::new();
        for partition in partitions {
            heads.insert(*partition, self.store.head(*partition).await?);
        }
        Ok(heads)
    }

    /// The end of these partitions.
    ///
    /// # Errors
    /// Store or sink cannot be read.
    pub async fn end(&self, partitions: &[u32]) -> Result<Positions, FollowError> {
        let heads = self.heads(partitions).await?;
        let mut end = Positions::new();
        for (partition, sequence) in heads {
            let last = self.after(partition, sequence.saturating_sub(1), 1).await?;
            if let Some(last) = last.first() {
                end.insert(partition, seen(last));
            }
        }
        Ok(end)
    }

    /// Checks that what a cursor has seen is there.
    ///
    /// # Errors
    /// [`FollowError::Lost`], or store or sink cannot be read.
    pub async fn check(&self, positions: &Positions) -> Result<(), FollowError> {
        for (partition, position) in positions {
            if position.sequence == 0 {
                continue;
            }
            let found = self.after(*partition, position.sequence - 1, 1).await?;
            if found.first().map(seen) != Some(*position) {
                return Err(FollowError::Lost(LedgerId {
                    partition: *partition,
                    sequence: position.sequence,
                }));
            }
        }
        Ok(())
    }

    /// The next entries of the first of these partitions that has some; none if there are none.
    /// `positions` move past them.
    ///
    /// # Errors
    /// Store or sink cannot be read.
    pub async fn next(
        &self,
        partitions: &[u32],
        positions: &mut Positions,
    ) -> Result<Vec<Entry>, FollowError> {
        let heads = self.heads(partitions).await?;
        for partition in partitions {
            let position = positions.entry(*partition).or_default();
            let head = heads.get(partition).copied().unwrap_or(0);
            if head <= position.sequence {
                continue;
            }
            let mut found = self
                .after(*partition, position.sequence, BATCH_ENTRIES)
                .await?;
            found.retain(|entry| entry.id.sequence <= head);
            if let Some(last) = found.last() {
                *position = seen(last);
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    /// Entries after a number.
    async fn after(
        &self,
        partition: u32,
        sequence: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, FollowError> {
        let mut found = self.store.ledger(partition, sequence, limit).await?;
        // The store may keep single entries among others that it has given up.
        let mut last = sequence;
        let gap = found.iter().position(|entry| {
            let follows = match &entry.body {
                Body::Forked { base, .. } => *base <= last,
                _ => entry.id.sequence == last + 1,
            };
            last = entry.id.sequence;
            !follows
        });
        found.truncate(gap.unwrap_or(found.len()));
        if found.is_empty() {
            found = self.reader.entries(partition, sequence, limit).await?;
        }
        Ok(found)
    }
}

fn seen(entry: &Entry) -> Seen {
    Seen {
        sequence: entry.id.sequence,
        fork: entry.fork,
    }
}
