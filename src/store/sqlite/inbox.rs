//! The inbox of the writer: commands that wait for its thread. It is bounded, and draws never wait
//! behind more than one chunk of other work.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::job::Job;
use crate::{metrics::STORE, store::StoreError};

/// Calls that may wait; one more is refused at once.
const WAITING_MAX: usize = 8192;
/// Draws of one batch (a call of `count` draws is that many).
const BATCH_UNITS_MAX: usize = 500;

/// What waits for the writer.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Draws.
    hot: VecDeque<Queued>,
    /// Everything else: chunks of injections, operators' acts.
    slow: VecDeque<Queued>,
    closed: bool,
    idle: bool,
}

/// A job, and since when it waits.
struct Queued(Instant, Box<dyn Job>);

/// Why a job was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// Too many wait.
    Full,
    /// The store was closed.
    Closed,
}

impl Inbox {
    /// Hands a job to the writer.
    pub(super) fn push(&self, job: Box<dyn Job>) -> Result<(), NotTaken> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(NotTaken::Closed);
        }
        let queue = if job.is_hot() {
            &mut waiting.hot
        } else {
            &mut waiting.slow
        };
        if queue.len() >= WAITING_MAX {
            return Err(NotTaken::Full);
        }
        queue.push_back(Queued(Instant::now(), job));
        if waiting.idle {
            waiting.idle = false;
            drop(waiting);
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// The next batch: all draws that wait, up to the bound, and one other job. None once closed
    /// and empty.
    pub(super) fn next_batch(&self) -> Option<Vec<Box<dyn Job>>> {
        let mut waiting = self.lock();
        while waiting.hot.is_empty() && waiting.slow.is_empty() {
            if waiting.closed {
                return None;
            }
            waiting.idle = true;
            waiting = self
                .arrived
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
        waiting.idle = false;
        let mut batch: Vec<_> = waiting.slow.pop_front().into_iter().collect();
        let mut units = 0;
        while let Some(job) = waiting.hot.front() {
            units += job.1.units();
            if units > BATCH_UNITS_MAX && !batch.is_empty() {
                break;
            }
            batch.extend(waiting.hot.pop_front());
        }
        drop(waiting);
        Some(measured(batch))
    }

    /// Takes nothing more; what waits is still done.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Takes nothing more and answers what waits with this fault, so that nobody waits for a writer
    /// that is gone.
    pub(super) fn abandon(&self, fault: &StoreError) {
        let mut waiting = self.lock();
        waiting.closed = true;
        let left = (
            std::mem::take(&mut waiting.hot),
            std::mem::take(&mut waiting.slow),
        );
        drop(waiting);
        for job in left.0.into_iter().chain(left.1) {
            job.1.answer(Err(fault));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The jobs of a batch that begins, once it is measured.
fn measured(batch: Vec<Queued>) -> Vec<Box<dyn Job>> {
    STORE.batch_calls.observe(batch.len() as f64);
    if let Some(oldest) = batch.iter().map(|queued| queued.0).min() {
        STORE.queue_s.observe(oldest.elapsed().as_secs_f64());
    }
    batch.into_iter().map(|queued| queued.1).collect()
}
