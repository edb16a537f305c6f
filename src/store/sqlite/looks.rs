//! Looks at users' records, many in one transaction: while one batch is read, arriving looks queue,
//! and the next batch takes them all.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::{faults::unavailable, read, readers::Readers};
use crate::{
    model::{Moment, UserId},
    store::{CampaignView, Executed, Result, StoreError, UserView},
};

/// Looks of one transaction, at most.
const BATCH_MAX: usize = 256;
/// Looks that may wait; one more is refused at once.
const WAITING_MAX: usize = 16_384;

/// A look that waits.
struct Look {
    view: CampaignView,
    user: UserId,
    now: Moment,
    reply: oneshot::Sender<Result<UserView>>,
}

/// Looks on their way.
#[derive(Clone)]
pub(super) struct Looks {
    readers: Readers,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Look>,
    /// A task reads, until nothing waits.
    is_running: bool,
}

impl Looks {
    pub(super) fn new(readers: Readers) -> Self {
        Self {
            readers,
            queue: Arc::default(),
        }
    }

    /// A user's record as it stands now.
    pub(super) async fn user(
        &self,
        view: CampaignView,
        user: UserId,
        now: Moment,
    ) -> Result<UserView> {
        let (reply, answer) = oneshot::channel();
        let look = Look {
            view,
            user,
            now,
            reply,
        };
        if self.push(look)? {
            tokio::spawn(self.clone().run());
        }
        answer
            .await
            .unwrap_or_else(|_| Err(unavailable(Executed::No, "a reader has failed")))
    }

    /// Lets a look wait; true if a task must be started that reads.
    fn push(&self, look: Look) -> Result<bool> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.waiting.len() >= WAITING_MAX {
            return Err(StoreError::Overloaded);
        }
        queue.waiting.push(look);
        Ok(!std::mem::replace(&mut queue.is_running, true))
    }

    /// The next batch; none if nothing waits, and then the task is over.
    fn next(&self) -> Option<Vec<Look>> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let count = queue.waiting.len().min(BATCH_MAX);
        queue.is_running = count > 0;
        queue
            .is_running
            .then(|| queue.waiting.drain(..count).collect())
    }

    async fn run(self) {
        while let Some(batch) = self.next() {
            let readers = self.readers.clone();
            // If it fails, the replies are dropped, which those who wait notice.
            let _ = tokio::task::spawn_blocking(move || read_all(&readers, batch)).await;
        }
    }
}

fn read_all(readers: &Readers, batch: Vec<Look>) {
    let (mut asked, mut replies) = (Vec::new(), Vec::new());
    for look in batch {
        if !look.reply.is_closed() {
            asked.push((look.view, look.user, look.now));
            replies.push(look.reply);
        }
    }
    let answers = readers.with(|db| {
        let looks = asked.into_iter();
        Ok(looks
            .map(|(view, user, now)| read::user(db, view, &user, now))
            .collect::<Vec<_>>())
    });
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
