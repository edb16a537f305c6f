//! The gauges of the store as a whole: what waits to be settled, memory and clock.

use std::time::SystemTime;

use tokio::time::{Instant, timeout};

use super::{FRESH_TIME, Failures, READ_TIME_MAX, Rounds, since_epoch_s};
use crate::{
    metrics::STORE,
    model::Moment,
    store::{Backlog, Result, Store},
};

/// When they are read next, and what failed.
#[derive(Default)]
pub(super) struct SharedReading {
    fresh_until: Option<Instant>,
    failures: Failures,
}

impl SharedReading {
    /// Reads them, unless what was read last is good still.
    pub(super) async fn read(&mut self, store: &dyn Store) {
        if self.fresh_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let has_read_ledger = self.read_ledger(store).await;
        set_memory(store);
        let skew = match timeout(READ_TIME_MAX, clock_skew_s(store)).await {
            Ok(Ok(skew)) => Some(skew),
            Ok(Err(error)) => {
                self.failures.add("the clock", error);
                None
            }
            Err(_) => {
                self.failures.add("the clock", "no answer in time");
                None
            }
        };
        if let Some(skew) = skew {
            STORE.clock_skew_s.set(skew);
        }
        if has_read_ledger && skew.is_some() {
            STORE.shared_read_at_s.set(since_epoch_s(SystemTime::now()));
        }
        self.failures.log();
        self.fresh_until = Some(Instant::now() + FRESH_TIME);
    }

    /// Reads the partitions that can be read; true if there is one.
    async fn read_ledger(&mut self, store: &dyn Store) -> bool {
        let rounds = Rounds::begin(store);
        let mut unsettled = Unsettled::default();
        for partition in rounds.partitions() {
            let read = timeout(rounds.time(partition), store.backlog(partition)).await;
            let what = format_args!("the ledger of partition {partition}");
            match read {
                Ok(Ok(backlog)) => unsettled.add(&backlog),
                Ok(Err(error)) => self.failures.add(what, error),
                Err(_) => self.failures.add(what, "no answer in time"),
            }
        }
        if unsettled.partitions > 0 {
            unsettled.set(store.clock_hint());
        }
        unsettled.partitions > 0
    }
}

/// The entries that wait, in the partitions that were read.
#[derive(Default)]
struct Unsettled {
    partitions: u32,
    entries: u64,
    oldest: Option<Moment>,
}

impl Unsettled {
    fn add(&mut self, backlog: &Backlog) {
        self.partitions += 1;
        self.entries += backlog.entries;
        // Without a sink, nothing waits.
        if backlog.has_sink {
            self.oldest = self.oldest.into_iter().chain(backlog.oldest).min();
        }
    }

    fn set(&self, now: Moment) {
        let entries = i64::try_from(self.entries).unwrap_or(i64::MAX);
        STORE.unsettled_entries.set(entries);
        let age = self.oldest.map(|oldest| now.since(oldest).as_secs_f64());
        STORE.unsettled_age_s.set(age.unwrap_or(0.0));
    }
}

fn set_memory(store: &dyn Store) {
    if let Some(memory) = store.memory() {
        let bytes = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        STORE.memory_used_bytes.set(bytes(memory.used_bytes));
        STORE.memory_max_bytes.set(bytes(memory.max_bytes));
    }
}

/// How far the store's clock is ahead of this machine's; 0 on a test clock.
async fn clock_skew_s(store: &dyn Store) -> Result<f64> {
    let before = SystemTime::now();
    let now = store.now().await?;
    if store.info().test_clock {
        return Ok(0.0);
    }
    let now = now.as_micros() as f64 / 1e6;
    let (before, after) = (since_epoch_s(before), since_epoch_s(SystemTime::now()));
    // The store read its clock somewhere in between.
    Ok(now - now.clamp(before, after.max(before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_wait_only_for_a_sink_that_there_is() {
        let backlog = |has_sink, oldest| Backlog {
            has_sink,
            entries: 5,
            oldest: Some(Moment::from_micros(oldest)),
        };
        let mut unsettled = Unsettled::default();
        unsettled.add(&backlog(false, 1));
        assert_eq!((unsettled.entries, unsettled.oldest), (5, None));
        unsettled.add(&backlog(true, 3));
        unsettled.add(&backlog(true, 2));
        let oldest = Some(Moment::from_micros(2));
        assert_eq!((unsettled.entries, unsettled.oldest), (15, oldest));
    }
}
