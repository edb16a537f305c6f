//! Lanes: while one batch of a lane is at Redis, arriving calls queue; the next batch takes them
//! all, up to a bound. Draws, grabs, new envelopes and `CheckLimit` have lanes of their own.
//!
//! A partition has two lanes, so that two of its batches may be in flight. The second one is used
//! only while a whole batch waits in the first: the more calls a batch has, the less each of them
//! costs. So calls of a user that are in progress at once may be carried out in any order, as if
//! they had come to two services. There is no timer and no added wait.
//!
//! A lane that panics is started again, and every call that it held is answered: whether it may
//! have been carried out depends on whether its batch was sent.

use std::{
    collections::HashMap,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, oneshot};
use tracing::error;

use super::{core::Core, format::reply::Parts};
use crate::{
    metrics::{SHED, STORE},
    model::Moment,
    store::{Executed, LaneKind, LaneUse, Refusal, Result, StoreError, delay::DelayControl},
    trace::{self, Operation, Span, StoreSpan},
};

/// Batches of a partition that are at Redis at once.
const LANES: usize = 2;
/// Calls that may wait in a lane; one more is refused at once.
const WAITING_MAX: usize = 8192;
/// Units of one batch (a draw of `count` is that many, a grab is two): a script of about two
/// milliseconds. A larger batch would save little, and arguments refer to each other by indexes of
/// one byte.
pub(super) const BATCH_UNITS_MAX: usize = 256;
/// How often a batch is sent, if a version or a day changes in between each time.
const ROUNDS_MAX: usize = 8;

/// A batch that takes longer than this is stuck: reading what it needs and sending it once, with
/// every wait at its bound, takes less.
const STUCK_AFTER: Duration = Duration::from_secs(20);

/// A kind of call that goes through lanes, and how a batch of it is carried out.
pub(super) trait Call: Send + Sync + Sized + 'static {
    /// The call's result.
    type Answer: Send + 'static;
    /// The campaign (or envelope) a call belongs to. Calls with the same one share one group of
    /// script arguments.
    type Subject: Clone + Eq + Hash + Send + Sync;
    /// What the service must know of the subject to build those arguments.
    type Known: Send + Sync;
    /// The name of the script.
    const SCRIPT: &'static str;

    /// The campaign or envelope of this call.
    fn subject(&self) -> &Self::Subject;
    /// How much room it takes in a batch.
    fn units(&self) -> usize;
    /// Whether it is too late to send the call.
    fn is_late(&self, now: Moment) -> bool;
    /// What the service knows of a subject already.
    fn known(core: &Core, subject: &Self::Subject) -> Option<Self::Known>;
    /// Reads what the service does not know yet; a result for each subject.
    fn read(
        core: &Core,
        subjects: &[Self::Subject],
    ) -> impl Future<Output = Vec<Result<Self::Known>>> + Send;
    /// Runs the script once, for at least one group; the store's time and a reply for each group.
    fn send(
        core: &Core,
        groups: &mut [Group<Self>],
    ) -> impl Future<Output = Result<(Moment, Parts)>> + Send;
    /// The answers of a group; none if the group must be sent again.
    fn answers(
        core: &Core,
        group: &Group<Self>,
        now: Moment,
        reply: redis::Value,
    ) -> Result<Option<Vec<Result<Self::Answer>>>>;
}

/// A call that waits for its answer.
struct Waiting<C: Call> {
    call: C,
    since: Instant,
    /// The span of the caller's call, if that is recorded.
    span: Option<Arc<Span>>,
    reply: Reply<C::Answer>,
}

/// The way back to the caller. If it is dropped without an answer, the caller gets an error that
/// says whether the call may have been carried out.
struct Reply<A> {
    sender: Option<oneshot::Sender<Result<A>>>,
    executed: Executed,
}

impl<A> Reply<A> {
    fn new(sender: oneshot::Sender<Result<A>>) -> Self {
        Self {
            sender: Some(sender),
            executed: Executed::No,
        }
    }

    fn send(mut self, answer: Result<A>) {
        if let Some(sender) = self.sender.take() {
            // A receiver that is gone is a caller that is gone.
            let _ = sender.send(answer);
        }
    }

    /// The caller has gone away.
    fn is_closed(&self) -> bool {
        self.sender.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl<A> Drop for Reply<A> {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(Err(stopped(self.executed)));
        }
    }
}

/// The calls of one subject in a batch.
pub(super) struct Group<C: Call> {
    pub(super) known: C::Known,
    waiting: Vec<Waiting<C>>,
}

impl<C: Call> Group<C> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The calls in their order.
    pub(super) fn calls(&self) -> impl Iterator<Item = &C> {
        self.waiting.iter().map(|waiting| &waiting.call)
    }

    /// Notes whether the calls may have been carried out.
    fn mark(&mut self, executed: Executed) {
        for waiting in &mut self.waiting {
            waiting.reply.executed = executed;
        }
    }
}

/// Since when a lane has been working on its batch, and which calls it drops.
struct Progress {
    delay: Mutex<DelayControl>,
    begun: Instant,
    /// Milliseconds from `begun` to the start of the batch, plus one; 0 between batches.
    busy_since: AtomicU64,
    /// Calls that were taken from the queue and did not fit into the batch.
    left: AtomicUsize,
}

impl Progress {
    fn new() -> Self {
        Self {
            delay: Mutex::default(),
            begun: Instant::now(),
            busy_since: AtomicU64::new(0),
            left: AtomicUsize::new(0),
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

/// The way into a lane.
struct Lane<C: Call> {
    sender: mpsc::Sender<Waiting<C>>,
    progress: Arc<Progress>,
}

impl<C: Call> Lane<C> {
    /// Calls that wait for a batch.
    fn waiting(&self) -> usize {
        let queued = WAITING_MAX - self.sender.capacity();
        queued + self.progress.left.load(Ordering::Relaxed)
    }
}

/// The lanes of all partitions.
pub(super) struct Lanes<C: Call> {
    lanes: Vec<Lane<C>>,
}

impl<C: Call> Lanes<C> {
    /// Starts the lanes; they end when they are dropped and what waits is done.
    pub(super) fn start(core: &Arc<Core>) -> Self {
        let lanes = (0..core.partitions.len() * LANES).map(|_| {
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            let progress = Arc::new(Progress::new());
            tokio::spawn(keep_running(
                Arc::clone(core),
                receiver,
                Arc::clone(&progress),
            ));
            Lane { sender, progress }
        });
        Self {
            lanes: lanes.collect(),
        }
    }

    /// From now on, calls that wait for longer than this are dropped while their lane's queue
    /// stands.
    pub(super) fn bound_delay(&self, target: Duration) {
        for lane in &self.lanes {
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
        let busy = self.lanes.iter().filter_map(|lane| lane.progress.busy(now));
        busy.max()
    }

    /// How busy these lanes are, which are for calls of this kind.
    pub(super) fn busy(&self, kind: LaneKind) -> LaneUse {
        let lanes = self.lanes.iter();
        LaneUse {
            kind,
            lanes: self.lanes.len(),
            waiting: lanes.map(Lane::waiting).sum(),
            busy: self.slowest(Instant::now()),
        }
    }

    /// The lane that a call of a partition waits in: the first one, until a whole batch waits
    /// there; then the one with the fewest calls.
    fn lane(&self, partition: u32) -> &Lane<C> {
        let lanes = &self.lanes[partition as usize * LANES..][..LANES];
        if lanes[0].waiting() < BATCH_UNITS_MAX {
            return &lanes[0];
        }
        let shortest = lanes.iter().min_by_key(|lane| lane.waiting());
        shortest.unwrap_or(&lanes[0])
    }

    /// Sends a call through a lane. A caller that goes away leaves nothing half done: the call is
    /// done whole, or not begun.
    ///
    /// The call is queued before this returns, so the future need not contain it. A call whose
    /// future is kept but never polled is carried out; one whose future is dropped before its batch
    /// begins is not.
    pub(super) fn call(
        &self,
        partition: u32,
        call: C,
    ) -> impl Future<Output = Result<C::Answer>> + Send + use<C> {
        let lane = self.lane(partition);
        let (reply, answer) = oneshot::channel();
        let reply = Reply::new(reply);
        let sent = lane.sender.try_send(Waiting {
            call,
            since: Instant::now(),
            span: trace::current(),
            reply,
        });
        let sent = sent.map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                SHED.in_queue.inc();
                StoreError::Overloaded
            }
            mpsc::error::TrySendError::Closed(_) => stopped(Executed::No),
        });
        async move {
            sent?;
            let answer = answer.await;
            answer.unwrap_or_else(|_| Err(stopped(Executed::Unknown)))
        }
    }
}

fn stopped(executed: Executed) -> StoreError {
    StoreError::Unavailable {
        executed,
        detail: "its lane has stopped".into(),
    }
}

/// Runs a lane until its senders are gone. Calls that wait survive a panic.
async fn keep_running<C: Call>(
    core: Arc<Core>,
    mut receiver: mpsc::Receiver<Waiting<C>>,
    progress: Arc<Progress>,
) {
    let mut waiting = Vec::new();
    while caught(run(&core, &mut receiver, &mut waiting, &progress))
        .await
        .is_err()
    {
        progress.finish();
        error!(
            "a lane to Redis has panicked and is started again: the calls of its batch get \
             `unknown`, or `no` if it was not sent"
        );
    }
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

async fn run<C: Call>(
    core: &Core,
    receiver: &mut mpsc::Receiver<Waiting<C>>,
    waiting: &mut Vec<Waiting<C>>,
    progress: &Progress,
) {
    let mut taken_at: Option<Instant> = None;
    loop {
        if waiting.is_empty() && receiver.is_empty() {
            taken_at = None;
        }
        if waiting.is_empty() && receiver.recv_many(waiting, BATCH_UNITS_MAX).await == 0 {
            return;
        }
        let now = Instant::now();
        let before = taken_at.replace(now).map_or(Duration::ZERO, |at| now - at);
        let admits = |since| progress.admits(since, before, now);
        let batch = next_batch(waiting, receiver, admits);
        progress.left.store(waiting.len(), Ordering::Relaxed);
        if batch.is_empty() {
            continue;
        }
        measure(&batch);
        progress.start();
        let spans = batch.iter().map(|waiting| waiting.span.as_ref());
        let span = trace::batch(Operation::Script(C::SCRIPT), spans);
        let work = pin!(do_batch(core, batch));
        let fault = trace::within(span.as_ref().and_then(StoreSpan::scope), work).await;
        if let Some(span) = span {
            span.end(fault.as_ref().map(StoreError::kind));
        }
        progress.finish();
    }
}

/// Takes as many jobs as fit into a batch, at least one if any is left: without those whose callers
/// are gone, and those that waited for too long.
fn next_batch<C: Call>(
    waiting: &mut Vec<Waiting<C>>,
    receiver: &mut mpsc::Receiver<Waiting<C>>,
    admits: impl Fn(Instant) -> bool,
) -> Vec<Waiting<C>> {
    let (mut batch, mut units) = (Vec::new(), 0);
    let mut first = std::mem::take(waiting).into_iter();
    while let Some(job) = first.next().or_else(|| receiver.try_recv().ok()) {
        if job.reply.is_closed() {
            continue;
        }
        if !admits(job.since) {
            SHED.in_queue.inc();
            job.reply.send(Err(StoreError::Overloaded));
            continue;
        }
        units += job.call.units();
        if units > BATCH_UNITS_MAX && !batch.is_empty() {
            waiting.push(job);
            break;
        }
        batch.push(job);
    }
    waiting.extend(first);
    batch
}

/// Measures a batch that begins. Its first call is its oldest.
fn measure<C: Call>(batch: &[Waiting<C>]) {
    if let Some(oldest) = batch.first() {
        STORE.batch_calls.observe(batch.len() as f64);
        STORE.queue_s.observe(oldest.since.elapsed().as_secs_f64());
    }
}

/// Does a batch and answers its calls; the fault that failed it as a whole.
async fn do_batch<C: Call>(core: &Core, jobs: Vec<Waiting<C>>) -> Option<StoreError> {
    let mut pending = jobs;
    for _ in 0..ROUNDS_MAX {
        let mut groups = group(core, pending).await;
        if groups.is_empty() {
            return None;
        }
        for group in &mut groups {
            group.mark(Executed::Unknown);
        }
        pending = match C::send(core, &mut groups).await {
            Ok((now, parts)) => answer(core, groups, now, parts),
            Err(fault) => {
                fail(groups.into_iter().flat_map(|group| group.waiting), &fault);
                return Some(fault);
            }
        };
    }
    let fault = super::step::decide::contended();
    fail(pending.into_iter(), &fault);
    Some(fault)
}

fn fail<C: Call>(jobs: impl Iterator<Item = Waiting<C>>, fault: &StoreError) {
    for job in jobs {
        job.reply.send(Err(fault.clone()));
    }
}

/// The calls of a subject, and what is known of it once it is read.
type Sorted<C> = (Option<<C as Call>::Known>, Vec<Waiting<C>>);

/// Sorts jobs by subject, in their order within each. Jobs that are too late, and those of subjects
/// that do not exist, are answered at once.
async fn group<C: Call>(core: &Core, jobs: Vec<Waiting<C>>) -> Vec<Group<C>> {
    let mut groups: Vec<Sorted<C>> = Vec::new();
    let mut group_of: HashMap<C::Subject, usize> = HashMap::new();
    let (mut unknown, mut unknown_groups) = (Vec::new(), Vec::new());
    let now = core.clock.hint();
    for job in jobs {
        if job.call.is_late(now) {
            job.reply.send(Err(Refusal::DeadlineExceeded.into()));
            continue;
        }
        if let Some(&index) = group_of.get(job.call.subject()) {
            groups[index].1.push(job);
            continue;
        }
        let subject = job.call.subject().clone();
        let known = C::known(core, &subject);
        if known.is_none() {
            unknown.push(subject.clone());
            unknown_groups.push(groups.len());
        }
        group_of.insert(subject, groups.len());
        groups.push((known, vec![job]));
    }
    // A subject that cannot be read is not read again for each job: other calls wait for this
    // batch.
    if !unknown.is_empty() {
        let read = C::read(core, &unknown).await;
        for (index, read) in unknown_groups.into_iter().zip(read) {
            match read {
                Ok(known) => groups[index].0 = Some(known),
                Err(error) => fail(groups[index].1.drain(..), &error),
            }
        }
    }
    let known = groups.into_iter().filter_map(|(known, waiting)| {
        let known = known?;
        Some(Group { known, waiting })
    });
    known.collect()
}

/// Answers the jobs; returns those that must be sent again.
fn answer<C: Call>(
    core: &Core,
    groups: Vec<Group<C>>,
    now: Moment,
    mut parts: Parts,
) -> Vec<Waiting<C>> {
    let mut again = Vec::new();
    for mut group in groups {
        let reply = parts.next().map_err(StoreError::after_write);
        match reply.and_then(|reply| C::answers(core, &group, now, reply)) {
            Ok(Some(answers)) => {
                for (job, answer) in group.waiting.into_iter().zip(answers) {
                    job.reply.send(answer);
                }
            }
            Ok(None) => {
                group.mark(Executed::No);
                again.extend(group.waiting);
            }
            Err(fault) => fail(group.waiting.into_iter(), &fault),
        }
    }
    again
}

#[cfg(test)]
#[path = "batch_tests.rs"]
pub(super) mod tests;
