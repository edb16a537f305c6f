//! Batches: calls that wait are sent to Redis in one script, sorted into a group for each campaign
//! or envelope. Which calls they are is decided by their [lanes](super::lane).

use std::{collections::HashMap, hash::Hash, pin::pin, sync::Arc, time::Instant};

use tokio::sync::oneshot;

use super::{core::Core, format::reply::Parts};
use crate::{
    metrics::STORE,
    model::Moment,
    store::{Executed, LedgerId, Refusal, Result, StoreError},
    trace::{self, Operation, Span, StoreSpan},
};

/// Units of one batch (a draw of `count` is that many, a grab is two): a script of about two
/// milliseconds. A larger batch would save little, and arguments refer to each other by indexes of
/// one byte.
pub(super) const BATCH_UNITS_MAX: usize = 256;
/// How often a batch is sent, if a version or a day changes in between each time, or a new id was
/// not free.
const ROUNDS_MAX: usize = 8;

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
    /// What the service knows of the call's subject already.
    fn known(&self, core: &Core) -> Option<Self::Known>;
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
    /// The entry of an earlier call that an answer repeats.
    fn repeated(_answer: &Self::Answer) -> Option<&LedgerId> {
        None
    }
}

/// A call that waits for its answer.
pub(super) struct Waiting<C: Call> {
    pub(super) call: C,
    pub(super) since: Instant,
    /// The span of the caller's call, if that is recorded.
    span: Option<Arc<Span>>,
    reply: Reply<C::Answer>,
}

impl<C: Call> Waiting<C> {
    /// A call that waits from now on, and its answer. If the future is dropped, the caller has gone
    /// away.
    pub(super) fn new(call: C) -> (Self, impl Future<Output = Result<C::Answer>> + use<C>) {
        let (sender, answer) = oneshot::channel();
        let waiting = Self {
            call,
            since: Instant::now(),
            span: trace::current(),
            reply: Reply {
                sender: Some(sender),
                executed: Executed::No,
            },
        };
        let answer = async move {
            let answer = answer.await;
            answer.unwrap_or_else(|_| Err(stopped(Executed::Unknown)))
        };
        (waiting, answer)
    }

    /// The caller has gone away.
    pub(super) fn is_given_up(&self) -> bool {
        let sender = self.reply.sender.as_ref();
        sender.is_none_or(oneshot::Sender::is_closed)
    }

    pub(super) fn answer(mut self, answer: Result<C::Answer>) {
        self.reply.send(answer);
    }
}

/// The way back to the caller. If it is dropped without an answer, the caller gets an error that
/// says whether the call may have been carried out.
struct Reply<A> {
    sender: Option<oneshot::Sender<Result<A>>>,
    executed: Executed,
}

impl<A> Reply<A> {
    fn send(&mut self, answer: Result<A>) {
        if let Some(sender) = self.sender.take() {
            // A receiver that is gone is a caller that is gone.
            let _ = sender.send(answer);
        }
    }
}

impl<A> Drop for Reply<A> {
    fn drop(&mut self) {
        if self.sender.is_some() {
            self.send(Err(stopped(self.executed)));
        }
    }
}

fn stopped(executed: Executed) -> StoreError {
    StoreError::Unavailable {
        executed,
        detail: "its lane has stopped".into(),
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

/// Carries out a batch, whose first call is its oldest, in a span of its own if a call in it has
/// one.
pub(super) async fn carry_out<C: Call>(core: &Core, batch: Vec<Waiting<C>>) {
    if let Some(oldest) = batch.first() {
        STORE.batch_calls.observe(batch.len() as f64);
        STORE.queue_s.observe(oldest.since.elapsed().as_secs_f64());
    }
    let spans = batch.iter().map(|waiting| waiting.span.as_ref());
    let span = trace::batch(Operation::Script(C::SCRIPT), spans);
    let work = pin!(do_batch(core, batch));
    let fault = trace::within(span.as_ref().and_then(StoreSpan::scope), work).await;
    if let Some(span) = span {
        span.end(fault.as_ref().map(StoreError::kind));
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
        job.answer(Err(fault.clone()));
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
            job.answer(Err(Refusal::DeadlineExceeded.into()));
            continue;
        }
        if let Some(&index) = group_of.get(job.call.subject()) {
            groups[index].1.push(job);
            continue;
        }
        let subject = job.call.subject().clone();
        let known = job.call.known(core);
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
                    let repeated = answer.as_ref().ok().and_then(C::repeated);
                    if let Some(entry) = repeated {
                        core.witnesses.repeat(&parts, entry);
                    }
                    job.answer(answer);
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
