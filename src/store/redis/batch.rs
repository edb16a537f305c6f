//! Lanes: while one batch of a lane is at Redis, arriving calls queue; the next batch takes them all, up to a bound. Draws and grabs
//! go through them alike, in lanes of their own.
//!
//! A user is always in the same lane of a partition, so the user's calls are never reordered; a few lanes keep a few batches in
//! flight. No timer, no added wait.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use tokio::sync::{mpsc, oneshot};

use super::{core::Core, reply::Parts};
use crate::{
    model::Moment,
    store::{Executed, Refusal, Result, StoreError},
};

/// Batches of a partition that are at Redis at once.
const LANES: usize = 2;
/// Calls that may wait in a lane; one more is refused at once.
const WAITING_MAX: usize = 8192;
/// Units of one batch (a draw of `count` is that many, a grab is two): a script of about two milliseconds. More would save little, and
/// what many of them share is told in a byte.
pub(super) const BATCH_UNITS_MAX: usize = 256;
/// How often a batch is sent again since a version or a day has changed in between.
const ROUNDS_MAX: usize = 8;

/// What goes through a lane, and how a batch of it is done.
pub(super) trait Call: Send + Sync + Sized + 'static {
    /// What it comes to.
    type Answer: Send + 'static;
    /// Of what it is: calls of the same one are told together.
    type Subject: Clone + Eq + Hash + Send + Sync;
    /// What the service must know of that.
    type Known: Send + Sync;

    /// Of what it is.
    fn subject(&self) -> &Self::Subject;
    /// How much room it takes in a batch.
    fn units(&self) -> usize;
    /// It comes too late to be sent.
    fn is_late(&self, now: Moment) -> bool;
    /// What the service knows of a subject already.
    fn known(core: &Core, subject: &Self::Subject) -> Option<Self::Known>;
    /// Reads what it does not know; an outcome for each.
    fn read(
        core: &Core,
        subjects: &[Self::Subject],
    ) -> impl Future<Output = Vec<Result<Self::Known>>> + Send;
    /// One call of the script; the store's time and a reply for each group, of which there is at least one.
    fn send(
        core: &Core,
        groups: &[Group<Self>],
    ) -> impl Future<Output = Result<(Moment, Parts)>> + Send;
    /// The answers of a group; none where it must be sent again.
    fn answers(
        core: &Core,
        group: &Group<Self>,
        now: Moment,
        reply: redis::Value,
    ) -> Result<Option<Vec<Result<Self::Answer>>>>;
}

/// A call on its way.
struct Waiting<C: Call> {
    call: C,
    reply: oneshot::Sender<Result<C::Answer>>,
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
}

/// The lanes of all partitions.
pub(super) struct Lanes<C: Call> {
    senders: Vec<mpsc::Sender<Waiting<C>>>,
}

impl<C: Call> Lanes<C> {
    /// Starts the lanes; they end when they are dropped and what waits is done.
    pub(super) fn start(core: &Arc<Core>) -> Self {
        let lanes = (0..core.partitions.len() * LANES).map(|_| {
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            tokio::spawn(run(Arc::clone(core), receiver));
            sender
        });
        Self {
            senders: lanes.collect(),
        }
    }

    /// Sends a call through the lane of a user, of whom this is a byte of a digest. A caller that goes away leaves nothing half done:
    /// the call is done whole, or not begun.
    pub(super) async fn call(&self, partition: u32, user: u8, call: C) -> Result<C::Answer> {
        let lane = &self.senders[partition as usize * LANES + usize::from(user) % LANES];
        let (reply, answer) = oneshot::channel();
        lane.try_send(Waiting { call, reply })
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => StoreError::Overloaded,
                mpsc::error::TrySendError::Closed(_) => stopped(Executed::No),
            })?;
        answer
            .await
            .unwrap_or_else(|_| Err(stopped(Executed::Unknown)))
    }
}

fn stopped(executed: Executed) -> StoreError {
    StoreError::Unavailable {
        executed,
        detail: "its lane has stopped".into(),
    }
}

async fn run<C: Call>(core: Arc<Core>, mut receiver: mpsc::Receiver<Waiting<C>>) {
    let mut waiting = Vec::new();
    while !waiting.is_empty() || receiver.recv_many(&mut waiting, BATCH_UNITS_MAX).await > 0 {
        while waiting.len() < BATCH_UNITS_MAX
            && let Ok(job) = receiver.try_recv()
        {
            waiting.push(job);
        }
        let batch = next_batch(&mut waiting);
        do_batch(&core, batch).await;
    }
}

/// Takes as many jobs as a batch holds, at least one; those whose callers are gone are dropped.
fn next_batch<C: Call>(waiting: &mut Vec<Waiting<C>>) -> Vec<Waiting<C>> {
    waiting.retain(|job| !job.reply.is_closed());
    let mut units = 0;
    let fits = |job: &Waiting<C>| {
        units += job.call.units();
        units <= BATCH_UNITS_MAX
    };
    let jobs = waiting.iter().map(fits).take_while(|fits| *fits).count();
    let taken = jobs.max(1).min(waiting.len());
    waiting.drain(..taken).collect()
}

async fn do_batch<C: Call>(core: &Core, jobs: Vec<Waiting<C>>) {
    let mut pending = jobs;
    for _ in 0..ROUNDS_MAX {
        let groups = group(core, pending).await;
        if groups.is_empty() {
            return;
        }
        pending = match C::send(core, &groups).await {
            Ok((now, parts)) => answer(core, groups, now, parts),
            Err(fault) => {
                fail(groups.into_iter().flat_map(|group| group.waiting), &fault);
                return;
            }
        };
    }
    let fault = super::steps::contended();
    fail(pending.into_iter(), &fault);
}

fn fail<C: Call>(jobs: impl Iterator<Item = Waiting<C>>, fault: &StoreError) {
    for job in jobs {
        // A receiver that is gone is a caller that is gone.
        let _ = job.reply.send(Err(fault.clone()));
    }
}

/// The calls of a subject, and what is known of it once it is read.
type Sorted<C> = (Option<<C as Call>::Known>, Vec<Waiting<C>>);

/// Sorts jobs by subject, each one's in their order. Those of subjects that are not there, or that come too late, are answered.
async fn group<C: Call>(core: &Core, jobs: Vec<Waiting<C>>) -> Vec<Group<C>> {
    let mut groups: Vec<Sorted<C>> = Vec::new();
    let mut places: HashMap<C::Subject, usize> = HashMap::new();
    let (mut unknown, mut unknown_places) = (Vec::new(), Vec::new());
    let now = core.clock.hint();
    for job in jobs {
        if job.call.is_late(now) {
            let _ = job.reply.send(Err(Refusal::DeadlineExceeded.into()));
            continue;
        }
        if let Some(&place) = places.get(job.call.subject()) {
            groups[place].1.push(job);
            continue;
        }
        let subject = job.call.subject().clone();
        let known = C::known(core, &subject);
        if known.is_none() {
            unknown.push(subject.clone());
            unknown_places.push(groups.len());
        }
        places.insert(subject, groups.len());
        groups.push((known, vec![job]));
    }
    // What cannot be read is not tried again for each job: others wait for this batch.
    if !unknown.is_empty() {
        let read = C::read(core, &unknown).await;
        for (place, read) in unknown_places.into_iter().zip(read) {
            match read {
                Ok(known) => groups[place].0 = Some(known),
                Err(error) => fail(groups[place].1.drain(..), &error),
            }
        }
    }
    let known = groups.into_iter().filter_map(|(known, waiting)| {
        let known = known?;
        Some(Group { known, waiting })
    });
    known.collect()
}

/// Answers the jobs; those that must be sent again are given back.
fn answer<C: Call>(
    core: &Core,
    groups: Vec<Group<C>>,
    now: Moment,
    mut parts: Parts,
) -> Vec<Waiting<C>> {
    let mut again = Vec::new();
    for group in groups {
        let reply = parts.next();
        match reply.and_then(|reply| C::answers(core, &group, now, reply)) {
            Ok(Some(answers)) => {
                for (job, answer) in group.waiting.into_iter().zip(answers) {
                    let _ = job.reply.send(answer);
                }
            }
            Ok(None) => again.extend(group.waiting),
            Err(fault) => fail(group.waiting.into_iter(), &fault),
        }
    }
    again
}
