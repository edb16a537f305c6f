//! The gauges of the store: where the units of each campaign are, what waits to be settled, memory
//! and clock. They are read when the metrics are asked for, and kept for some seconds, however many
//! ask. A campaign or a partition that cannot be read leaves those of the others fresh.

mod campaigns;
mod shared;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, SystemTime},
};

use tokio::{sync::Mutex, time::Instant};
use tracing::warn;

use self::{campaigns::CampaignReading, shared::SharedReading};
use crate::store::{PartitionState, Store};

/// How long what was read is good.
const FRESH_TIME: Duration = Duration::from_secs(5);
/// How long reading may take; Prometheus waits for ten seconds.
const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// How often the log says what cannot be read.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// The most failures that a line of the log names.
const NAMED_MAX: usize = 10;

/// Reads the gauges of a store.
#[derive(Clone, Default)]
pub struct Gauges(Arc<Reading>);

#[derive(Default)]
struct Reading {
    /// None before the store is open; gone once the service has stopped.
    store: OnceLock<Weak<dyn Store>>,
    shared: Mutex<SharedReading>,
    campaigns: Mutex<CampaignReading>,
}

impl Gauges {
    /// From now on, they are those of this store.
    pub fn open(&self, store: &Arc<dyn Store>) {
        drop(self.0.store.set(Arc::downgrade(store))); // a service opens one store
    }

    /// Reads them, unless they were read just now. What the store does not answer stays as it is.
    pub(crate) async fn refresh(&self) {
        let Some(store) = self.0.store.get().and_then(Weak::upgrade) else {
            return;
        };
        // At the same time: whoever asks waits no longer if the store does not answer either.
        tokio::join!(
            async { self.0.shared.lock().await.read(&*store).await },
            async { self.0.campaigns.lock().await.read(&*store).await },
        );
    }
}

/// The partitions of a store, one after another, with the time that reading each may take. One that
/// hangs leaves time to the others, and those that were away just now are not asked.
struct Rounds {
    end: Instant,
    partitions: u32,
    away: BTreeSet<u32>,
}

impl Rounds {
    fn begin(store: &dyn Store) -> Self {
        let troubles = store.troubles().into_iter();
        let away = troubles.filter(|trouble| trouble.state() == PartitionState::Unavailable);
        Self {
            end: Instant::now() + READ_TIME_MAX,
            partitions: store.info().partitions,
            away: away.map(|trouble| trouble.partition).collect(),
        }
    }

    fn partitions(&self) -> impl Iterator<Item = u32> + use<'_> {
        (0..self.partitions).filter(|partition| !self.away.contains(partition))
    }

    /// How long reading this partition may take.
    fn time(&self, partition: u32) -> Duration {
        let left = self.end.saturating_duration_since(Instant::now());
        let is_last = self.partitions().last() == Some(partition);
        if is_last { left } else { left / 2 }
    }
}

/// What could not be read, and when the log said so last.
#[derive(Default)]
struct Failures {
    logged: Option<Instant>,
    texts: Vec<String>,
}

impl Failures {
    fn add(&mut self, what: impl std::fmt::Display, cause: impl std::fmt::Display) {
        self.texts.push(format!("{what}: {cause}"));
    }

    /// Logs the failures of a reading, unless others were logged just now.
    fn log(&mut self) {
        if let Some(line) = self.line(Instant::now()) {
            warn!("{line}");
        }
    }

    fn line(&mut self, now: Instant) -> Option<String> {
        let mut texts = std::mem::take(&mut self.texts);
        let is_soon = |logged| now.saturating_duration_since(logged) < LOG_INTERVAL;
        if texts.is_empty() || self.logged.is_some_and(is_soon) {
            return None;
        }
        self.logged = Some(now);
        let count = texts.len();
        texts.truncate(NAMED_MAX);
        let named = texts.join("; ");
        Some(format!(
            "gauges of the store are not read, failures: {count}: {named}"
        ))
    }
}

fn since_epoch_s(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_is_named_and_logged_at_most_once_a_minute() {
        let (mut failures, begun) = (Failures::default(), Instant::now());
        assert_eq!(failures.line(begun), None);
        for campaign in 0..20 {
            failures.add(format_args!("campaign c-{campaign}"), "damaged");
        }
        let line = failures.line(begun).unwrap();
        assert!(
            line.contains("failures: 20: campaign c-0: damaged"),
            "{line}"
        );
        assert!(line.contains("c-9") && !line.contains("c-10"), "{line}");
        for (after_s, is_logged) in [(59, false), (60, true), (61, false)] {
            failures.add("campaign x", "damaged");
            let line = failures.line(begun + Duration::from_secs(after_s));
            assert_eq!(line.is_some(), is_logged, "{after_s}");
        }
    }
}
