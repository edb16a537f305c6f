//! Reads for live pages, which many viewers make at once. One of a kind in a second reads the
//! store, and all others get what it found. The gates of [`super::access`] come before, and what a
//! list must not show is left out afterwards, for each identity.

use std::{
    collections::HashMap,
    future::Future,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tonic::Request;

use crate::{metrics::LIVE, model::Moment, proto, store::CampaignPage};

/// How old what is shared may be.
pub const AGE_MAX: Duration = Duration::from_secs(1);
/// From this number of kept reads on, those that are older are dropped.
const KEPT_MAX: usize = 2_000;

/// The mark of a call for a live page. Calls over the network never have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live;

impl Live {
    /// Whether a call is for a live page.
    pub(super) fn is_on<T>(request: &Request<T>) -> bool {
        request.extensions().get::<Self>().is_some()
    }
}

/// What viewers of live pages share.
#[derive(Default)]
pub(super) struct LiveReads {
    /// Campaigns as they stand, by id.
    pub(super) campaigns: Shelf<String, proto::CampaignStatus>,
    /// Their sums, by id.
    pub(super) stats: Shelf<String, proto::GetStatsResponse>,
    /// The store's time.
    pub(super) now: Shelf<(), Moment>,
    /// Campaigns after an id, at most so many.
    pub(super) lists: Shelf<(Option<String>, usize), CampaignPage>,
}

/// What was read, and when that began. Whoever reads has the lock.
type Kept<T> = Arc<tokio::sync::Mutex<Option<(Instant, T)>>>;

/// Reads of one kind.
pub(super) struct Shelf<K, T>(Mutex<HashMap<K, Kept<T>>>);

impl<K, T> Default for Shelf<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T: Clone> Shelf<K, T> {
    /// What was read within the last second, or what this read finds. A failure is not kept.
    pub(super) async fn get<E>(
        &self,
        key: K,
        read: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let kept = self.kept(key);
        let mut kept = kept.lock().await;
        if let Some((at, value)) = &*kept
            && at.elapsed() < AGE_MAX
        {
            LIVE.memory.inc();
            return Ok(value.clone());
        }
        let begun = Instant::now();
        LIVE.store.inc();
        let value = read.await?;
        *kept = Some((begun, value.clone()));
        Ok(value)
    }

    fn kept(&self, key: K) -> Kept<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEPT_MAX {
            all.retain(|_, kept| {
                let is_old = kept.try_lock().is_ok_and(|kept| {
                    let at = kept.as_ref().map(|(at, _)| *at);
                    at.is_none_or(|at| at.elapsed() >= AGE_MAX)
                });
                Arc::strong_count(kept) > 1 || !is_old
            });
        }
        Arc::clone(all.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::{task::JoinSet, time::advance};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_read_a_second_is_for_all() {
        let shelf = Arc::new(Shelf::<u32, usize>::default());
        let reads = Arc::new(AtomicUsize::new(0));
        for second in 1..=3 {
            let mut viewers = JoinSet::new();
            for _ in 0..200 {
                let (shelf, reads) = (Arc::clone(&shelf), Arc::clone(&reads));
                viewers.spawn(async move {
                    let read = async {
                        tokio::task::yield_now().await;
                        Ok::<_, ()>(reads.fetch_add(1, Ordering::Relaxed) + 1)
                    };
                    shelf.get(7, read).await
                });
            }
            let seen = viewers.join_all().await;
            assert!(seen.iter().all(|seen| *seen == Ok(second)), "{seen:?}");
            advance(AGE_MAX).await;
        }
        assert_eq!(shelf.get(8, async { Ok::<_, ()>(1) }).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_not_kept_and_what_is_old_is_dropped() {
        let shelf = Shelf::<usize, usize>::default();
        assert_eq!(shelf.get(0, async { Err(()) }).await, Err(()));
        assert_eq!(shelf.get(0, async { Ok::<_, ()>(5) }).await, Ok(5));
        for key in 1..KEPT_MAX {
            assert_eq!(shelf.get(key, async { Ok::<_, ()>(key) }).await, Ok(key));
        }
        assert_eq!(shelf.0.lock().unwrap().len(), KEPT_MAX);
        advance(AGE_MAX).await;
        assert_eq!(shelf.get(KEPT_MAX, async { Ok::<_, ()>(6) }).await, Ok(6));
        assert_eq!(shelf.0.lock().unwrap().len(), 1);
    }
}
