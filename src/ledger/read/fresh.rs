//! Waiting until what the store has is settled, so that a list has what was just drawn.

use std::{collections::BTreeMap, time::Duration};

use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use super::{LedgerReader, ReadError, SettledTo};
use crate::{
    model::Moment,
    store::{Result, Store},
};

/// How long a list waits for the settler.
pub const WAIT_MAX: Duration = Duration::from_secs(2);
/// The pause before cursors are read again: from this, half as long again each time, to that.
const PAUSE_MIN: Duration = Duration::from_millis(4);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Waits, for [`WAIT_MAX`] at most, until everything is settled that was in the store when this
/// began: in the partition of the campaign or envelope of this id, or in all. Returns nothing then,
/// or else the moment before which everything is settled.
///
/// `wake` is the settler of this process, which then does not wait for its next look.
///
/// Only the numbers of the last entries are read from the store. If it is away, they are not known,
/// and this returns how far the sink is.
///
/// # Errors
/// The sink cannot be read.
pub async fn wait(
    store: &dyn Store,
    reader: &dyn LedgerReader,
    wake: &Notify,
    of: Option<&str>,
) -> std::result::Result<Option<Moment>, ReadError> {
    let partitions: Vec<u32> = match of {
        Some(id) => vec![store.partition_of(id)],
        None => (0..store.info().partitions).collect(),
    };
    let Ok(mut heads) = heads(store, &partitions).await else {
        let cursors = reader.cursors().await?;
        let moments = partitions
            .iter()
            .map(|partition| settled_at(&cursors, *partition));
        return Ok(moments.min());
    };
    let deadline = Instant::now() + WAIT_MAX;
    let mut pause = PAUSE_MIN;
    loop {
        let cursors = reader.cursors().await?;
        heads.retain(|partition, head| {
            let cursor = cursors.get(partition);
            cursor.map_or(0, |cursor| cursor.up_to.sequence) < *head
        });
        if heads.is_empty() {
            return Ok(None);
        }
        if Instant::now() + pause > deadline {
            let behind = heads.keys();
            return Ok(behind
                .map(|partition| settled_at(&cursors, *partition))
                .min());
        }
        if pause == PAUSE_MIN {
            wake.notify_one();
        }
        sleep(pause).await;
        pause = (pause * 3 / 2).min(PAUSE_MAX);
    }
}

/// The number of the last entry of each partition.
async fn heads(store: &dyn Store, partitions: &[u32]) -> Result<BTreeMap<u32, u64>> {
    let mut heads = BTreeMap::new();
    for partition in partitions {
        heads.insert(*partition, store.head(*partition).await?);
    }
    Ok(heads)
}

/// The moment before which everything of a partition is settled. Further entries may have the
/// moment itself.
fn settled_at(cursors: &BTreeMap<u32, SettledTo>, partition: u32) -> Moment {
    let cursor = cursors.get(&partition);
    cursor.map_or(Moment::EPOCH, |cursor| cursor.at)
}
