//! Lanes: while one batch of a lane is at Redis, arriving calls queue; the next batch takes them
//! all, up to a bound. Draws, grabs, new envelopes and `CheckLimit` have lanes of their own.
//!
//! A user is always in the same lane of a partition, and a lane has one batch at Redis at most, so
//! the user's calls are never reordered. Two lanes let two batches of a partition be in flight. But
//! the more calls a batch has, the less each of them costs. So a lane in which few calls wait
//! shares its batch with the other one. There is no timer and no added wait.
//!
//! A lane that panics is started again, and every call that it held is answered: whether it may
//! have been carried out depends on whether its batch was sent.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use tokio::sync::Notify;
use tracing::error;

use super::{
    batch::{BATCH_UNITS_MAX, Call, Waiting, carry_out},
    core::Core,
};
use crate::{
    metrics::SHED,
    store::{LaneKind, LaneUse, Result, StoreError, delay::DelayControl},
};

/// Batches of a partition that are at Redis at once.
const LANES: usize = 2;
/// From so many calls on, a lane has a batch of its own. The fixed cost of a script is then about
/// an eighth of the whole.
const ALONE_FROM: usize = 64;
/// Calls that may wait in a lane; one more is refused at once.
const WAITING_MAX: usize = 8192;
/// A batch that takes longer than this is stuck: reading what it needs and sending it once, with
/// every wait at its bound, takes less.
const STUCK_AFTER: Duration = Duration::from_secs(20);

/// Since when a lane has been working on its batch, and which calls it drops.
struct Progress {
    delay: Mutex<DelayControl>,
    begun: Instant,
    /// Milliseconds from `begun` to the start of the batch, plus one; 0 between batches.
    busy_since: AtomicU64,
}

impl Progress {
    fn new() -> Self {
        Self {
            delay: Mutex::default(),
            begun: Instant::now(),
            busy_since: AtomicU64::new(0),
        }
    }

    fn bound_delay(&self, target: Duration) {
        let mut delay = self.delay.lock().unwrap_or_else(PoisonError::into_inner);
        *delay = DelayControl::new(target);
    }

    /// Whether to begin a call that has waited since `since`. The time of the batch before does not
    /// count: a call that came meanwhile could not be taken earlier.
    fn admits(&self, since: Instant, batch_before: Duration, now: Instant) -> bool {
        let waited = now.saturating_duration_since(since);
        let mut delay = self.delay.lock().unwrap_or_else(PoisonError::into_inner);
        delay.admits(waited.saturating_sub(batch_before), now)
    }

    fn millis(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.begun);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX - 1)
    }

    fn start(&self) {
        let millis = self.millis(Instant::now());
        self.busy_since.store(millis + 1, Ordering::Relaxed);
    }

    fn finish(&self) {
        self.busy_since.store(0, Ordering::Relaxed);
    }

    /// How long the batch has taken so far; nothing between batches.
    fn busy(&self, now: Instant) -> Option<Duration> {
        let since = self.busy_since.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_millis(
            self.millis(now).saturating_sub(since),
        ))
    }
}

/// Calls of a part of a partition's users.
struct Lane<C: Call> {
    queue: Mutex<Queue<C>>,
    /// Wakes the lane's task.
    arrived: Notify,
    /// Held while a batch with calls of this lane is at Redis; when the last one was taken, if
    /// calls have waited ever since.
    turn: tokio::sync::Mutex<Option<Instant>>,
    progress: Progress,
}

/// What waits in a lane.
struct Queue<C: Call> {
    calls: VecDeque<Waiting<C>>,
    /// No more calls come.
    is_closed: bool,
}

impl<C: Call> Lane<C> {
    fn new() -> Self {
        Self {
            queue: Mutex::new(Queue {
                calls: VecDeque::new(),
                is_closed: false,
            }),
            arrived: Notify::new(),
            turn: tokio::sync::Mutex::default(),
            progress: Progress::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<C>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls that wait for a batch.
    fn waiting(&self) -> usize {
        self.lock().calls.len()
    }

    fn push(&self, job: Waiting<C>) -> Result<()> {
        let mut queue = self.lock();
        if queue.calls.len() >= WAITING_MAX {
            SHED.in_queue.inc();
            return Err(StoreError::Overloaded);
        }
        queue.calls.push_back(job);
        drop(queue);
        self.arrived.notify_one();
        Ok(())
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Waits for calls; false if there are none and no more come.
    async fn has_calls(&self) -> bool {
        loop {
            {
                let queue = self.lock();
                if queue.is_closed || !queue.calls.is_empty() {
                    return !queue.calls.is_empty();
                }
            }
            self.arrived.notified().await;
        }
    }

    /// Adds calls to a batch: as many as fit, at least one if it is empty. Those whose callers are
    /// gone, and those that waited for too long, are left out. False if some must wait for the next
    /// batch.
    fn take(&self, batch: &mut Vec<Waiting<C>>, admits: impl Fn(Instant) -> bool) -> bool {
        let mut units: usize = batch.iter().map(|job| job.call.units()).sum();
        let mut queue = self.lock();
        while let Some(job) = queue.calls.pop_front() {
            if job.is_given_up() {
                continue;
            }
            if !admits(job.since) {
                SHED.in_queue.inc();
                job.answer(Err(StoreError::Overloaded));
                continue;
            }
            units += job.call.units();
            if units > BATCH_UNITS_MAX && !batch.is_empty() {
                queue.calls.push_front(job);
                return false;
            }
            batch.push(job);
        }
        true
    }
}

/// The lanes of a partition.
type OfPartition<C> = Arc<[Lane<C>; LANES]>;

/// The lanes of all partitions.
pub(super) struct Lanes<C: Call> {
    partitions: Vec<OfPartition<C>>,
}

impl<C: Call> Lanes<C> {
    /// Starts the lanes; they end when they are dropped and what waits is done.
    pub(super) fn start(core: &Arc<Core>) -> Self {
        let partitions = core.partitions.iter().map(|_| {
            let lanes: OfPartition<C> = Arc::new(std::array::from_fn(|_| Lane::new()));
            for own in 0..LANES {
                tokio::spawn(run(Arc::clone(core), Arc::clone(&lanes), own));
            }
            lanes
        });
        Self {
            partitions: partitions.collect(),
        }
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane<C>> {
        self.partitions.iter().flat_map(|lanes| lanes.iter())
    }

    /// From now on, calls that wait for longer than this are dropped while their lane's queue
    /// stands.
    pub(super) fn bound_delay(&self, target: Duration) {
        for lane in self.lanes() {
            lane.progress.bound_delay(target);
        }
    }

    /// How long the slowest batch has been at Redis, if so long that its lane must hang.
    pub(super) fn stuck(&self) -> Option<Duration> {
        self.stuck_at(Instant::now())
    }

    fn stuck_at(&self, now: Instant) -> Option<Duration> {
        self.slowest(now).filter(|busy| *busy > STUCK_AFTER)
    }

    /// How long the slowest batch has been at Redis; none between batches.
    fn slowest(&self, now: Instant) -> Option<Duration> {
        let busy = self.lanes().filter_map(|lane| lane.progress.busy(now));
        busy.max()
    }

    /// How busy these lanes are, which are for calls of this kind.
    pub(super) fn busy(&self, kind: LaneKind) -> LaneUse {
        LaneUse {
            kind,
            lanes: self.partitions.len() * LANES,
            waiting: self.lanes().map(Lane::waiting).sum(),
            busy: self.slowest(Instant::now()),
        }
    }

    /// Sends a call through the lane of a user, given by a byte of the digest of the user's id. A
    /// caller that goes away leaves nothing half done: the call is done whole, or not begun.
    ///
    /// The call is queued before this returns, so the future need not contain it. A call whose
    /// future is kept but never polled is carried out; one whose future is dropped before its batch
    /// begins is not.
    pub(super) fn call(
        &self,
        partition: u32,
        user: u8,
        call: C,
    ) -> impl Future<Output = Result<C::Answer>> + Send + use<C> {
        let (waiting, answer) = Waiting::new(call);
        let lane = &self.partitions[partition as usize][usize::from(user) % LANES];
        let sent = lane.push(waiting);
        async move {
            sent?;
            answer.await
        }
    }
}

impl<C: Call> Drop for Lanes<C> {
    fn drop(&mut self) {
        self.lanes().for_each(Lane::close);
    }
}

/// Carries out the calls of a lane until it is closed and empty.
async fn run<C: Call>(core: Arc<Core>, lanes: OfPartition<C>, own: usize) {
    while lanes[own].has_calls().await {
        if caught(do_next(&core, &lanes, own)).await.is_err() {
            error!(
                "a batch of calls to Redis has panicked: they get `unknown`, or `no` if it was not \
                 sent"
            );
        }
        lanes[own].progress.finish();
    }
}

/// Carries out the next batch with calls of a lane. Calls that it does not take survive a panic.
async fn do_next<C: Call>(core: &Core, lanes: &[Lane<C>; LANES], own: usize) {
    let (mut turns, batch) = next_batch(lanes, own).await;
    if !batch.is_empty() {
        lanes[own].progress.start();
        carry_out(core, batch).await;
    }
    for (lane, turn) in &mut turns {
        if lane.waiting() == 0 {
            **turn = None;
        }
    }
}

/// A lane whose calls no other batch takes meanwhile.
type Turn<'a, C> = (&'a Lane<C>, tokio::sync::MutexGuard<'a, Option<Instant>>);

/// The next batch with calls of a lane: of this one alone if many wait there, else of all.
async fn next_batch<C: Call>(
    lanes: &[Lane<C>; LANES],
    own: usize,
) -> (Vec<Turn<'_, C>>, Vec<Waiting<C>>) {
    let mut turns = Vec::with_capacity(LANES);
    let is_alone = lanes[own].waiting() >= ALONE_FROM;
    for (number, lane) in lanes.iter().enumerate() {
        // Always in this order: two tasks that have one turn each would wait for ever.
        if number == own || !is_alone {
            turns.push((lane, lane.turn.lock().await));
        }
    }
    if !is_alone {
        turns.swap(0, own);
    }
    let (mut batch, mut has_room) = (Vec::new(), true);
    turns.retain_mut(|(lane, turn)| {
        let is_taken = has_room;
        if is_taken {
            let now = Instant::now();
            let before = turn.replace(now).map_or(Duration::ZERO, |at| now - at);
            has_room = lane.take(&mut batch, |since| lane.progress.admits(since, before, now));
        }
        is_taken
    });
    batch.sort_by_key(|job| job.since);
    (turns, batch)
}

/// A future's value, or an error if it panics.
async fn caught<F: Future>(future: F) -> std::result::Result<F::Output, ()> {
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        match polled {
            Ok(polled) => polled.map(Ok),
            Err(_) => Poll::Ready(Err(())),
        }
    })
    .await
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
