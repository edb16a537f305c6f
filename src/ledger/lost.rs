//! What a store has lost in a rollback, of what was settled before.

use super::{
    SinkError,
    audit::source::{Source, StoredRow},
    wins::Win,
};
use crate::{model::Moment, store::entry::Body};

/// Entries that are read at a time.
const BATCH_ENTRIES: usize = 1_000;

/// A settled entry that the store does not have any more.
#[derive(Clone, Debug)]
pub struct LostEntry {
    /// As it is stored.
    pub row: StoredRow,
    /// What happened, if it can be read.
    pub body: Option<Body>,
    /// The units that it won.
    pub wins: Vec<Win>,
}

/// Settled entries that a store does not have any more.
#[derive(Clone, Debug, Default)]
pub struct Lost {
    /// The first of them, in order.
    pub entries: Vec<LostEntry>,
    /// How many there are.
    pub count: u64,
    /// The number of the last one; 0 if there are none.
    pub last: u64,
    /// When the last one was written.
    pub at: Option<Moment>,
}

/// The settled entries of a partition after the last one that the store has kept; the first `shown`
/// of them in full. With `has_fork`, a fork that begins at what was kept follows the lost ones: the
/// store has gone on in it. Otherwise it is that of an earlier loss, and lost too.
///
/// # Errors
/// The sink cannot be read.
pub async fn lost(
    source: &mut dyn Source,
    partition: u32,
    kept: u64,
    shown: usize,
    has_fork: bool,
) -> Result<Lost, SinkError> {
    let mut lost = Lost::default();
    let mut after = kept;
    loop {
        let rows = source.entries(partition, after, BATCH_ENTRIES).await?;
        let Some(last) = rows.last() else {
            return Ok(lost);
        };
        let first = after + 1;
        after = last.id.sequence;
        let mut wins = Vec::new();
        if lost.entries.len() < shown {
            wins = source.wins(partition, first, after).await?;
        }
        for row in rows {
            let body = row.body_with_clear_values().ok();
            let is_fork = matches!(body, Some(Body::Forked { base, .. }) if base <= kept);
            if has_fork && is_fork {
                return Ok(lost);
            }
            lost.count += 1;
            lost.last = row.id.sequence;
            lost.at = Some(row.at);
            if lost.entries.len() < shown {
                let own = wins.iter().filter(|win| win.sequence == row.id.sequence);
                let wins = own.cloned().collect();
                lost.entries.push(LostEntry { row, body, wins });
            }
        }
    }
}
