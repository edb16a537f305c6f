//! Settles all partitions of a store until it is stopped.
//!
//! Draws never wait for it: while the sink is away, entries stay in the store, and the log says
//! for how long they have been waiting. Any number of settlers may run for one store. One of them
//! works; the others wait for its end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::Notify, time::sleep};
use tracing::{error, info, warn};

use super::{
    removal::Removals,
    said::Said,
    settle::{Carrier, SettleError, Settled},
    sink::{Sink, SinkError, Target},
};
use crate::{chance::MasterKey, metrics::STORE, model::Moment, store::Store};

/// The pause after all that there was is settled.
const IDLE_PAUSE: Duration = Duration::from_millis(200);
/// The pause after a fault of the sink: from this, twice as long each time, to that.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often a settler that waits looks whether the one at work has ended.
const STANDBY_PAUSE: Duration = Duration::from_secs(1);
/// Entries that wait for longer than this are worth a line in the log.
const LAG_SHOWN: Duration = Duration::from_secs(10);

/// Settles a store's ledger into a sink.
pub struct Settler {
    carrier: Carrier,
    target: Target,
    /// Ends the pause: someone waits for what is in the store.
    wake: Arc<Notify>,
    pause: Duration,
    /// Since when the sink does not do its work.
    away: Option<Instant>,
    said_away: Said,
    said_lag: Said,
    /// Partitions that are not settled.
    faults: BTreeMap<u32, Said>,
    /// Removals of closed campaigns, if there are any.
    removals: Option<Removals>,
    /// Partitions that are settled; what the sink says of them is in the past.
    well: BTreeSet<u32>,
}

impl Settler {
    /// From this store, whose master key this is, to this sink.
    pub fn new(store: Arc<dyn Store>, key: MasterKey, target: Target) -> Self {
        Self {
            carrier: Carrier::new(store, key),
            target,
            wake: Arc::default(),
            pause: PAUSE_MIN,
            away: None,
            said_away: Said::default(),
            said_lag: Said::default(),
            faults: BTreeMap::new(),
            removals: None,
            well: BTreeSet::new(),
        }
    }

    /// The same, which looks at once when it is woken.
    pub fn woken_by(mut self, wake: Arc<Notify>) -> Self {
        self.wake = wake;
        self
    }

    /// The same settler, which also lets campaigns leave the store that nothing has happened to for
    /// `keep` since they were closed.
    #[must_use]
    pub fn keeping_closed(mut self, keep: Duration) -> Self {
        self.removals = Some(Removals::after(keep));
        self
    }

    /// Settles until `stop` ends. What it is doing then is cut off, which does no harm: see
    /// [`super::settle`].
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = stop => {}
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        loop {
            let Err(error) = self.session().await;
            self.note_away(&error);
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
    }

    /// Settles into one open sink, until it fails.
    async fn session(&mut self) -> Result<std::convert::Infallible, SinkError> {
        let store = Arc::clone(self.carrier.store());
        let mut sink = self.target.open(&store.info().store_id).await?;
        let mut stands_by = false;
        while !sink.is_leader().await? {
            self.note_reached();
            if !stands_by {
                info!(sink = %self.target, "another settler works: this one stands by");
            }
            stands_by = true;
            sleep(STANDBY_PAUSE).await;
        }
        self.carrier.resume(&mut *sink).await?;
        if self.away.is_none() {
            info!(sink = %self.target, "settling the ledger into {}", self.target);
        }
        loop {
            let mut is_busy = self.pass(&mut *sink).await?;
            // A sink that can be opened may still refuse what is written, as on a full disk.
            self.note_reached();
            if let Some(removals) = &mut self.removals {
                is_busy |= removals.work(&*store, &mut *sink).await?;
            }
            if !is_busy {
                tokio::select! {
                    () = sleep(IDLE_PAUSE) => {}
                    () = self.wake.notified() => {}
                }
            }
        }
    }

    /// Settles a batch of each partition; whether further entries wait. What has come since then
    /// does not count: a batch of a few entries costs nearly as much as a full one.
    async fn pass(&mut self, sink: &mut dyn Sink) -> Result<bool, SinkError> {
        let partitions = self.carrier.store().info().partitions;
        let (mut oldest, mut has_more) = (None::<Moment>, false);
        for partition in 0..partitions {
            match self.carrier.settle(sink, partition).await {
                Ok(settled) => {
                    self.note_well(sink, partition).await?;
                    if let Settled::Entries {
                        count,
                        first,
                        has_more: of_partition,
                    } = settled
                    {
                        STORE.settled_entries.inc_by(count as u64);
                        has_more |= of_partition;
                        oldest = Some(oldest.map_or(first, |oldest| oldest.min(first)));
                    }
                }
                Err(SettleError::Sink(error)) => return Err(error),
                Err(fault) => self.note_fault(sink, partition, &fault).await?,
            }
        }
        self.pause = PAUSE_MIN;
        match oldest {
            Some(oldest) => self.note_lag(oldest),
            None => STORE.settle_lag_s.set(0.0),
        }
        Ok(has_more)
    }

    fn note_away(&mut self, error: &SinkError) {
        STORE.sink_is_up.set(0);
        let away_s = self
            .away
            .get_or_insert_with(Instant::now)
            .elapsed()
            .as_secs();
        if !self.said_away.is_due() {
            return;
        }
        let sink = &self.target;
        if error.is_permanent() {
            error!(%sink, away_s, "the ledger is not settled: {error}");
        } else {
            warn!(
                %sink,
                away_s,
                "the ledger is not settled since {away_s} s, and draws go on: {error}"
            );
        }
    }

    fn note_reached(&mut self) {
        STORE.sink_is_up.set(1);
        if let Some(away) = self.away.take() {
            let away_s = away.elapsed().as_secs();
            let sink = &self.target;
            info!(%sink, away_s, "{sink} is there again after {away_s} s");
        }
        self.said_away = Said::default();
    }

    fn note_lag(&mut self, oldest: Moment) {
        let lag = self.carrier.store().passed_since(oldest);
        STORE.settle_lag_s.set(lag.as_secs_f64());
        if lag > LAG_SHOWN && self.said_lag.is_due() {
            let lag_s = lag.as_secs();
            warn!(lag_s, "settling is {lag_s} s behind the draws");
        }
    }

    async fn note_fault(
        &mut self,
        sink: &mut dyn Sink,
        partition: u32,
        fault: &SettleError,
    ) -> Result<(), SinkError> {
        self.well.remove(&partition);
        if !self.faults.entry(partition).or_default().is_due() {
            return Ok(());
        }
        error!(partition, "partition {partition} is not settled: {fault}");
        match fault {
            SettleError::Contradiction(contradiction) => sink.quarantine(contradiction).await,
            SettleError::Sink(_) | SettleError::Store(_) => Ok(()),
        }
    }

    async fn note_well(&mut self, sink: &mut dyn Sink, partition: u32) -> Result<(), SinkError> {
        if self.faults.remove(&partition).is_some() {
            info!(partition, "partition {partition} is settled again");
        }
        if self.well.contains(&partition) {
            return Ok(());
        }
        sink.end_quarantine(partition).await?;
        self.well.insert(partition);
        Ok(())
    }
}
