//! Reads for `CheckLimit`, many in one transaction: calls that arrive while a batch is read wait,
//! and the next batch takes them all.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::{
    changed::Waiting, faults::unavailable, open::KnownCampaign, read, readers::Readers, rows::Key,
};
use crate::{
    metrics::SHED,
    model::{Moment, UserId},
    store::{Executed, Result, StoreError, UserView},
    trace::{self, Operation, Span},
};

/// Calls of one transaction, at most.
const BATCH_MAX: usize = 256;
/// Calls that may wait; one more is refused at once.
const WAITING_MAX: usize = 16_384;

/// A call that waits for its answer.
struct LimitCheck {
    campaign: KnownCampaign,
    user: UserId,
    now: Moment,
    /// The span of its call, if that is recorded.
    call: Option<Arc<Span>>,
    reply: oneshot::Sender<Result<UserView>>,
}

/// The queue of calls, and the connections that read for them.
#[derive(Clone)]
pub(super) struct LimitChecks {
    readers: Readers,
    waiting: Waiting,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<LimitCheck>,
    /// A task reads, until nothing waits.
    is_running: bool,
}

impl LimitChecks {
    pub(super) fn new(readers: Readers, waiting: Waiting) -> Self {
        Self {
            readers,
            waiting,
            queue: Arc::default(),
        }
    }

    /// Reads a user's record.
    pub(super) async fn user(
        &self,
        campaign: KnownCampaign,
        user: UserId,
        now: Moment,
    ) -> Result<UserView> {
        let (reply, answer) = oneshot::channel();
        let check = LimitCheck {
            campaign,
            user,
            now,
            call: trace::current(),
            reply,
        };
        if self.push(check)? {
            tokio::spawn(self.clone().run());
        }
        answer
            .await
            .unwrap_or_else(|_| Err(unavailable(Executed::No, "a reader has failed")))
    }

    /// Queues a call; true if the caller must start the task that reads.
    fn push(&self, check: LimitCheck) -> Result<bool> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.waiting.len() >= WAITING_MAX {
            SHED.in_queue.inc();
            return Err(StoreError::Overloaded);
        }
        queue.waiting.push(check);
        Ok(!std::mem::replace(&mut queue.is_running, true))
    }

    /// The next batch; none if nothing waits, and then the task is over.
    fn next(&self) -> Option<Vec<LimitCheck>> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let count = queue.waiting.len().min(BATCH_MAX);
        queue.is_running = count > 0;
        queue
            .is_running
            .then(|| queue.waiting.drain(..count).collect())
    }

    async fn run(self) {
        while let Some(batch) = self.next() {
            let (readers, waiting) = (self.readers.clone(), self.waiting.clone());
            // If it fails, the replies are dropped, which those who wait notice.
            let _ = tokio::task::spawn_blocking(move || read_all(&readers, &waiting, batch)).await;
        }
    }
}

fn read_all(readers: &Readers, waiting: &Waiting, batch: Vec<LimitCheck>) {
    let calls = batch.iter().map(|check| check.call.as_ref());
    let span = trace::batch(Operation::Reading, calls);
    let (mut asked, mut replies) = (Vec::new(), Vec::new());
    for check in batch {
        if !check.reply.is_closed() {
            let KnownCampaign { no, view } = check.campaign;
            let waiting = waiting.get(&Key::record(no, &check.user));
            asked.push((waiting, view, check.user, check.now));
            replies.push(check.reply);
        }
    }
    let answers = readers.with(|db| {
        Ok(asked
            .into_iter()
            .map(|(waiting, view, user, now)| read::user(db, waiting, view, &user, now))
            .collect::<Vec<_>>())
    });
    if let Some(span) = span {
        span.end(answers.as_ref().err().map(StoreError::kind));
    }
    match answers {
        Ok(answers) => {
            for (reply, answer) in replies.into_iter().zip(answers) {
                // A receiver that is gone is a caller that is gone.
                let _ = reply.send(answer);
            }
        }
        Err(error) => {
            for reply in replies {
                let _ = reply.send(Err(error.clone()));
            }
        }
    }
}
