//! The inbox of the writer: commands that wait for its thread. It is bounded, and draws never wait
//! behind more than one chunk of other work.

use std::{
    collections::VecDeque,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::job::Job;
use crate::{
    metrics::{SHED, STORE},
    store::{StoreError, delay::DelayControl},
};

/// Calls that may wait; one more is refused at once, unless it is small and may not be refused.
const WAITING_MAX: usize = 8192;
/// Draws of one batch (a call of `count` draws is that many).
const BATCH_UNITS_MAX: usize = 500;
/// A batch may have as many draws however long each takes: fewer would not be worth a commit.
const BATCH_UNITS_MIN: usize = 16;
/// The share of a new batch in what is averaged.
const NEW_WEIGHT: f64 = 0.25;

/// What waits for the writer.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<Waiting>,
    arrived: Condvar,
    /// Further draws would wait for too long.
    is_congested: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    /// Draws and what is as small. Only what callers sent is dropped.
    hot: VecDeque<Queued>,
    /// Everything else: chunks of injections, operators' acts. None of it is dropped.
    slow: VecDeque<Queued>,
    closed: bool,
    idle: bool,
    delay: DelayControl,
    /// The writer's work on the draws of a batch.
    work: Work,
    /// What a batch takes beside that: its commit, and other work.
    rest: Duration,
    /// Draws that wait, and those of the last batch.
    units: usize,
    batch_units: usize,
    /// When the last batch was taken.
    taken_at: Option<Instant>,
}

impl Waiting {
    /// The jobs of the next batch, and those that waited for too long. The first of [`Self::hot`]
    /// is taken however large it is, beside one of [`Self::slow`] too: others wait behind it.
    fn take(&mut self, now: Instant) -> (Vec<Queued>, Vec<Queued>) {
        // A job that came during the last batch could not be taken before: only what it waited
        // beyond that batch is due to others that wait.
        let last = self.taken_at.replace(now);
        let last = last.map_or(Duration::ZERO, |at| now - at);
        if self.batch_units > 0 && !last.is_zero() {
            let rest = last.saturating_sub(times(self.work.of_draw(), self.batch_units));
            self.rest = averaged(self.rest, rest);
        }
        let units_max = self.units_max();
        let (mut batch, mut dropped, mut units) = (Vec::new(), Vec::new(), 0);
        while batch.is_empty()
            && let Some(job) = self.slow.pop_front()
        {
            batch.extend(Some(job).filter(|job| !job.1.is_abandoned()));
        }
        while let Some(Queued(since, job)) = self.hot.front() {
            let of_job = job.units();
            let waited = now.saturating_duration_since(*since).saturating_sub(last);
            let leaves = if job.is_abandoned() {
                None
            } else if job.may_be_refused() && !self.delay.admits(waited, now) {
                Some(&mut dropped)
            } else if units + of_job > units_max && units > 0 {
                break;
            } else {
                units += of_job;
                Some(&mut batch)
            };
            let job = self.hot.pop_front();
            self.units -= of_job;
            if let Some(leaves) = leaves {
                leaves.extend(job);
            }
        }
        self.batch_units = units;
        (batch, dropped)
    }

    /// The most draws of a batch.
    fn units_max(&self) -> usize {
        let units_max = self.delay.units_max(self.work.of_draw());
        units_max.clamp(BATCH_UNITS_MIN, BATCH_UNITS_MAX)
    }

    /// How long the draws that wait will take.
    fn time(&self) -> Duration {
        let batches = self.units.div_ceil(self.units_max());
        times(self.work.of_draw(), self.units) + times(self.rest, batches)
    }
}

/// How long the writer works on draws. Each batch counts by its number of draws: the fixed work of
/// a small batch does not make draws seem slow.
#[derive(Default)]
struct Work {
    /// Of an average batch.
    time: Duration,
    draws: f64,
}

impl Work {
    fn note(&mut self, draws: usize, time: Duration) {
        self.time = averaged(self.time, time);
        self.draws = self.draws * (1.0 - NEW_WEIGHT) + draws as f64 * NEW_WEIGHT;
    }

    fn of_draw(&self) -> Duration {
        match self.draws > 0.0 {
            true => self.time.div_f64(self.draws),
            false => Duration::ZERO,
        }
    }
}

fn averaged(before: Duration, now: Duration) -> Duration {
    before.mul_f64(1.0 - NEW_WEIGHT) + now.mul_f64(NEW_WEIGHT)
}

fn times(time: Duration, count: usize) -> Duration {
    time.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
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
        let (queue, units) = if job.is_hot() {
            (&mut waiting.hot, job.units())
        } else {
            (&mut waiting.slow, 0)
        };
        if queue.len() >= WAITING_MAX && (job.may_be_refused() || !job.is_hot()) {
            return Err(NotTaken::Full);
        }
        queue.push_back(Queued(Instant::now(), job));
        waiting.units += units;
        self.note_congestion(&waiting);
        if waiting.idle {
            waiting.idle = false;
            drop(waiting);
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// From now on, draws that wait for longer than this are dropped while the queue stands.
    pub(super) fn bound_delay(&self, target: Duration) {
        self.lock().delay = DelayControl::new(target);
    }

    /// The next batch: all draws that wait, up to the bound, and one other job; no job of which
    /// nobody awaits the answer. None once closed and empty.
    pub(super) fn next_batch(&self) -> Option<Vec<Box<dyn Job>>> {
        loop {
            let (batch, dropped) = self.take()?;
            SHED.in_queue.inc_by(dropped.len() as u64);
            for job in dropped {
                job.1.answer(Err(&StoreError::Overloaded));
            }
            if !batch.is_empty() {
                return Some(measured(batch));
            }
        }
    }

    /// Waits for jobs; those of the next batch, and those that waited for too long.
    fn take(&self) -> Option<(Vec<Queued>, Vec<Queued>)> {
        let mut waiting = self.lock();
        while waiting.hot.is_empty() && waiting.slow.is_empty() {
            if waiting.closed {
                return None;
            }
            waiting.idle = true;
            waiting.taken_at = None;
            waiting = self
                .arrived
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
        waiting.idle = false;
        let taken = waiting.take(Instant::now());
        self.note_congestion(&waiting);
        Some(taken)
    }

    fn note_congestion(&self, waiting: &Waiting) {
        let is_congested = waiting.delay.is_too_long(waiting.time());
        self.is_congested.store(is_congested, Ordering::Relaxed);
    }

    /// Notes how long the writer worked on a batch of so many draws and nothing else, without its
    /// commit.
    pub(super) fn worked(&self, units: usize, time: Duration) {
        self.lock().work.note(units, time);
    }

    /// Whether further draws would wait for too long.
    pub(super) fn is_congested(&self) -> bool {
        self.is_congested.load(Ordering::Relaxed)
    }

    /// How many calls wait, and since when the writer is at work on a batch; none if it is not.
    pub(super) fn busy(&self) -> (usize, Option<Instant>) {
        let waiting = self.lock();
        let since = waiting.taken_at.filter(|_| !waiting.idle);
        (waiting.hot.len() + waiting.slow.len(), since)
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

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
