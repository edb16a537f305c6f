//! The part of `GetStats` about the ledger: what waits to be settled.

use std::time::Duration;

use crate::{
    model::{Moment, convert::duration_to_proto},
    proto,
    store::{Result, Store, Trouble},
};

/// A ledger that is further behind is not settled as it should be.
pub(crate) const LAG_MAX: Duration = Duration::from_secs(60);

/// What waits to be settled, in all partitions.
pub(super) async fn ledger_stats(store: &dyn Store) -> Result<proto::LedgerStats> {
    let (mut stats, mut oldest) = (proto::LedgerStats::default(), None::<Moment>);
    let lag = |oldest| duration_to_proto(store.clock_hint().since(oldest));
    let troubles = store.troubles();
    let trouble = |partition| {
        let mut its = troubles.iter().filter(|it| it.partition == partition);
        its.next().map_or_else(String::new, Trouble::to_string)
    };
    for partition in 0..store.info().partitions {
        let backlog = store.backlog(partition).await?;
        stats.settled |= backlog.has_sink;
        stats.unsettled_entries += backlog.entries;
        oldest = oldest.into_iter().chain(backlog.oldest).min();
        stats.partitions.push(proto::PartitionLedger {
            partition,
            unsettled_entries: backlog.entries,
            lag: backlog.oldest.map(lag),
            trouble: trouble(partition),
        });
    }
    stats.lag = oldest.map(lag);
    if let Some(memory) = store.memory() {
        stats.memory_used_bytes = memory.used_bytes;
        stats.memory_max_bytes = memory.max_bytes;
        stats.memory_lasts = memory.lasts.map(duration_to_proto);
    }
    Ok(stats)
}
