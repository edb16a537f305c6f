//! A tick: everything that is due by now, of all campaigns and envelopes, some at a time.

use std::{
    collections::HashSet,
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::task::JoinSet;
use tracing::warn;

use super::Injector;
use crate::store::{DueCampaign, Result, StoreError};

/// Due campaigns read at once.
const PAGE: usize = 100;
/// Campaigns that are settled at the same time.
const AT_ONCE: usize = 8;
/// How often campaigns that are missing in the index are searched. Only a version of the service
/// that does not know the index can leave one out.
const COMPLETE_EVERY: Duration = Duration::from_secs(60 * 60);

impl Injector {
    /// Settles every campaign and every envelope that something is due of, removes what is left of
    /// campaigns that have a tombstone, and forgets old requests; goes on after a failure and
    /// returns the first one.
    pub async fn tick(self: &Arc<Self>) -> Result<()> {
        let mut crew = Crew::default();
        let mut outcome = self.complete_index().await;
        for partition in 0..self.store.info().partitions {
            let found = self.settle_partition(partition, &mut crew).await;
            outcome = outcome.and(found);
            let settled = self.settle_envelopes(partition).await;
            outcome = outcome.and(settled);
            let removed = self.finish_removals(partition).await;
            outcome = outcome.and(removed);
        }
        outcome = outcome.and(crew.finish().await);
        while self.store.forget().await? {}
        outcome
    }

    /// Begins to settle the due campaigns of a partition.
    async fn settle_partition(self: &Arc<Self>, partition: u32, crew: &mut Crew) -> Result<()> {
        let mut begun = HashSet::new();
        let mut after = None;
        loop {
            let page = self
                .store
                .due_campaigns(partition, self.lead, after.as_ref(), PAGE)
                .await?;
            let is_last = page.len() < PAGE;
            after = page.last().cloned();
            for found in page {
                // A campaign that has still more to do is found again.
                if begun.insert(found.id.clone()) {
                    let injector = Arc::clone(self);
                    crew.begin(async move { injector.settle_due(&found).await })
                        .await;
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Settles a due campaign. If there is nothing to do, corrects its moment in the index.
    async fn settle_due(&self, found: &DueCampaign) -> Result<()> {
        let id = &found.id;
        let settled = async {
            let filling = self.store.filling(id).await?;
            if !self.settle_from(&filling).await? && filling.due != Some(found.due) {
                self.store.index(id).await?;
            }
            Ok(())
        };
        let settled: Result<()> = settled.await;
        if let Err(error) = &settled {
            warn!(campaign = %id, %error, "campaign {id} could not be settled");
        }
        settled
    }

    /// Completes the index of due campaigns, at first and then every hour.
    async fn complete_index(&self) -> Result<()> {
        let now = self.store.clock_hint();
        let completed = *self.completed();
        if completed.is_some_and(|at| now.since(at) < COMPLETE_EVERY) {
            return Ok(());
        }
        let mut outcome = Ok(());
        for partition in 0..self.store.info().partitions {
            outcome = outcome.and(self.store.complete_index(partition).await);
        }
        if outcome.is_ok() {
            *self.completed() = Some(now);
        }
        outcome
    }

    fn completed(&self) -> std::sync::MutexGuard<'_, Option<crate::model::Moment>> {
        self.completed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tasks that run at the same time, up to a bound.
#[derive(Default)]
struct Crew {
    tasks: JoinSet<Result<()>>,
    failure: Option<StoreError>,
}

impl Crew {
    /// Begins some work as soon as there is room for it.
    async fn begin(&mut self, work: impl Future<Output = Result<()>> + Send + 'static) {
        while self.tasks.len() >= AT_ONCE {
            self.await_one().await;
        }
        self.tasks.spawn(work);
    }

    /// Awaits all that has begun; the first failure.
    async fn finish(mut self) -> Result<()> {
        while !self.tasks.is_empty() {
            self.await_one().await;
        }
        self.failure.map_or(Ok(()), Err)
    }

    async fn await_one(&mut self) {
        let broken = |_| StoreError::corrupt("a task that settles a campaign panicked");
        if let Some(done) = self.tasks.join_next().await {
            let failed = done.map_err(broken).and_then(|done| done).err();
            self.failure = self.failure.take().or(failed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn only_some_are_at_work_at_the_same_time_and_the_first_failure_is_returned() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut crew = Crew::default();
        for n in 0..10 * AT_ONCE {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            let work = async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                match n {
                    20 => Err(StoreError::Overloaded),
                    _ => Ok(()),
                }
            };
            crew.begin(work).await;
        }
        assert_eq!(crew.finish().await, Err(StoreError::Overloaded));
        assert_eq!(now.load(Ordering::SeqCst), 0);
        assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);
    }
}
