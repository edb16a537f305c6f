//! The bounded queue between calls and the task that exports: a collector that is slow costs spans,
//! and neither time of calls nor memory.

use tokio::sync::mpsc;

use super::span::Record;
use crate::metrics::TRACES;

/// The most spans that wait. With its strings and links, one has at most 4 KiB.
pub(super) const WAITING_MAX: usize = 4096;

/// The way into the queue.
#[derive(Clone)]
pub(super) struct Queue(mpsc::Sender<Record>);

impl Queue {
    /// A queue, and the other end of it.
    pub(super) fn new() -> (Self, mpsc::Receiver<Record>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Self(sender), receiver)
    }

    /// Queues a span, or drops it if too many wait.
    pub(super) fn push(&self, record: Record) {
        if self.0.try_send(record).is_err() {
            TRACES.dropped_in_queue.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{
        super::{
            ids::{SpanId, TraceId},
            span::{Head, Kind, Noted},
        },
        *,
    };

    #[test]
    fn spans_beyond_the_bound_are_dropped_and_counted() {
        let (queue, mut records) = Queue::new();
        let record = || Record {
            head: Head {
                trace: TraceId::random(),
                id: SpanId::random(),
                parent: None,
                flags: 1,
                state: String::new(),
                name: "a span".into(),
                kind: Kind::Internal,
                begun_at: SystemTime::UNIX_EPOCH,
            },
            took: Duration::ZERO,
            noted: Noted::default(),
            error: None,
        };
        let before = TRACES.dropped_in_queue.get();
        (0..WAITING_MAX + 10).for_each(|_| queue.push(record()));
        // Other tests of this process may drop spans as well.
        assert!(TRACES.dropped_in_queue.get() >= before + 10);
        assert_eq!(records.len(), WAITING_MAX);
        records.try_recv().unwrap();
        queue.push(record());
        assert_eq!(records.len(), WAITING_MAX);
    }
}
