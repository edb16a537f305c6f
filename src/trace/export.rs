//! The task that exports spans: in batches, with patience, and never in the way of calls.

use std::time::Duration;

use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use super::{collector::Collector, otlp, queue::WAITING_MAX, resource::Resource, span::Record};
use crate::metrics::TRACES;

/// The most spans of a request, and how long one waits for others.
const BATCH_MAX: usize = 512;
const DELAY: Duration = Duration::from_secs(1);

/// The pauses before a request that failed is sent again.
const PAUSES_MS: [u64; 4] = [500, 1_000, 2_000, 4_000];

/// How long the last spans may take when the service stops.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(2);

/// The task that exports. It works until it is ended.
pub struct Exporter {
    stopping: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Exporter {
    pub(super) fn start(
        collector: Collector,
        resource: Resource,
        records: mpsc::Receiver<Record>,
    ) -> Self {
        let (stopping, stopped) = watch::channel(false);
        let work = Work {
            collector,
            resource,
            records,
            stopped,
            reach: Reach::Unknown,
            unsent: 0,
        };
        let task = tokio::spawn(work.run());
        Self { stopping, task }
    }

    /// Sends what waits, for at most two seconds, and ends.
    pub async fn end(mut self) {
        self.stopping.send_replace(true);
        if timeout(FLUSH_TIME_MAX, &mut self.task).await.is_err() {
            self.task.abort();
            // It says what it leaves.
            drop(self.task.await);
        }
    }
}

/// What is known of the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Unknown,
    /// It takes all spans.
    Takes,
    /// It takes spans, but refuses some.
    Refuses,
    Away,
}

struct Work {
    collector: Collector,
    resource: Resource,
    records: mpsc::Receiver<Record>,
    stopped: watch::Receiver<bool>,
    reach: Reach,
    /// Spans that are being sent.
    unsent: usize,
}

impl Work {
    async fn run(mut self) {
        loop {
            let batch = self.gather().await;
            if batch.is_empty() {
                return;
            }
            self.unsent = batch.len();
            let lost = self.deliver(&batch).await;
            self.unsent = 0;
            TRACES.exported.inc_by(batch.len() as u64 - lost);
            TRACES.dropped_by_collector.inc_by(lost);
        }
    }

    /// The next spans to send; none once stopped and all are sent.
    async fn gather(&mut self) -> Vec<Record> {
        let mut batch = Vec::new();
        let (records, stopped) = (&mut self.records, &mut self.stopped);
        let filled = async {
            records.recv_many(&mut batch, BATCH_MAX).await;
            let more = async {
                // None come any more once all that records calls is gone.
                while batch.len() < BATCH_MAX {
                    let room = BATCH_MAX - batch.len();
                    if records.recv_many(&mut batch, room).await == 0 {
                        break;
                    }
                }
            };
            drop(timeout(DELAY, more).await);
        };
        let is_stopped = tokio::select! {
            biased;
            () = filled => false,
            _ = stopped.wait_for(|is_stopped| *is_stopped) => true,
        };
        if is_stopped {
            self.records.close();
            while batch.len() < BATCH_MAX
                && let Ok(record) = self.records.try_recv()
            {
                batch.push(record);
            }
        }
        batch
    }

    /// Sends spans; how many the collector did not take.
    async fn deliver(&mut self, batch: &[Record]) -> u64 {
        let mut pauses = PAUSES_MS.iter();
        loop {
            let request = otlp::request(&self.resource, batch);
            match self.collector.export(request).await {
                Ok((refused, reason)) => {
                    self.took(refused, &reason);
                    return refused.min(batch.len() as u64);
                }
                Err(fault) => {
                    self.failed(&fault.text);
                    match pauses.next().filter(|_| fault.may_pass) {
                        Some(pause) => self.pause(Duration::from_millis(*pause)).await,
                        None => return batch.len() as u64,
                    }
                }
            }
        }
    }

    /// Waits before a request is sent again. A stop that comes meanwhile ends the wait: otherwise
    /// the time that is left could pass without another try.
    async fn pause(&mut self, time: Duration) {
        let is_stopping = *self.stopped.borrow();
        tokio::select! {
            () = sleep(time) => {}
            _ = self.stopped.wait_for(|is_stopped| *is_stopped), if !is_stopping => {}
        }
    }

    /// The collector has answered. Only changes are logged.
    fn took(&mut self, refused: u64, reason: &str) {
        TRACES.collector_is_up.set(1);
        let reach = match refused {
            0 => Reach::Takes,
            _ => Reach::Refuses,
        };
        let before = std::mem::replace(&mut self.reach, reach);
        if before == reach {
            return;
        }
        let collector = self.collector.endpoint();
        match reach {
            Reach::Refuses => warn!(
                %collector,
                "the collector at {collector} refuses spans, {refused} of these: {reason}"
            ),
            _ => info!(%collector, "spans reach the collector at {collector}"),
        }
    }

    /// The collector did not take spans. Only changes are logged.
    fn failed(&mut self, reason: &str) {
        TRACES.collector_is_up.set(0);
        if std::mem::replace(&mut self.reach, Reach::Away) != Reach::Away {
            let collector = self.collector.endpoint();
            warn!(
                %collector,
                "spans do not reach the collector at {collector}: {reason}; calls go on, up to \
                 {WAITING_MAX} spans wait, and further ones are dropped"
            );
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let left = self.unsent + self.records.len();
        if left > 0 {
            TRACES.dropped_by_collector.inc_by(left as u64);
            warn!(
                left,
                "{left} spans are lost: the collector did not take them in time"
            );
        }
    }
}
