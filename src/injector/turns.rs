//! Turns: one fill of a pool, or of an envelope, at a time in this process. The others wait for it
//! instead of doing the same.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::sync::{MutexGuard, watch};

use super::scattering::InUse;

/// Turns in memory from which on those that nobody has are dropped.
const TURNS_MAX: usize = 1024;

/// Whose turn it is to fill a pool.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) lock: tokio::sync::Mutex<()>,
    /// Fills done, so that those who waited for one need not do it again.
    fills: watch::Sender<u64>,
    waiting: AtomicUsize,
    /// What is put into a pool at the moment.
    pub(super) releases: InUse,
    /// The rest of an hour is being filled beside the draws, or a deck dealt ahead of them.
    is_following: AtomicBool,
}

impl Turn {
    /// Waits for the turn; none if someone else has filled meanwhile. Then all who wait go on at
    /// once: if each had to take the lock first, thousands would go on one after the other.
    pub(super) async fn take(&self) -> Option<MutexGuard<'_, ()>> {
        let mut fills = self.fills.subscribe();
        tokio::select! {
            biased;
            Ok(()) = fills.changed() => None,
            turn = self.lock.lock() => Some(turn),
        }
    }

    /// Lets those who wait know that a fill is done.
    pub(super) fn filled(&self) {
        self.fills.send_modify(|fills| *fills += 1);
    }
}

/// One who waits for a fill, until it is dropped.
pub(super) struct Waiter<'a>(&'a Turn);

impl<'a> Waiter<'a> {
    pub(super) fn at(turn: &'a Turn) -> Self {
        turn.waiting.fetch_add(1, Ordering::Relaxed);
        Self(turn)
    }

    /// How many wait, this one too.
    pub(super) fn all(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The one who fills the rest of an hour beside the draws, or deals a deck ahead of them. Dropped
/// in whatever way, it lets the next one begin.
pub(super) struct Following(Arc<Turn>);

impl Following {
    /// The right to be that one; none while someone else is.
    pub(super) fn begin(turn: Arc<Turn>) -> Option<Self> {
        let is_taken = turn.is_following.swap(true, Ordering::AcqRel);
        (!is_taken).then(|| Self(turn))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.is_following.store(false, Ordering::Release);
    }
}

/// The turns that someone has. One that nobody has is forgotten, whatever becomes of its pool.
pub(super) struct Turns<K>(Mutex<Known<K>>);

struct Known<K> {
    turns: HashMap<K, Weak<Turn>>,
    /// At this number of turns, those that nobody has are dropped.
    most: usize,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self(Mutex::new(Known {
            turns: HashMap::new(),
            most: TURNS_MAX,
        }))
    }
}

impl<K: Clone + Eq + Hash> Turns<K> {
    /// The turn of this name.
    pub(super) fn get(&self, key: &K) -> Arc<Turn> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = known.turns.get(key).and_then(Weak::upgrade) {
            return turn;
        }
        if known.turns.len() >= known.most {
            known.turns.retain(|_, turn| turn.strong_count() > 0);
            known.most = TURNS_MAX.max(known.turns.len() * 2);
        }
        let turn = Arc::<Turn>::default();
        known.turns.insert(key.clone(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_the_same_for_all_who_have_it_and_forgotten_after_them() {
        let turns = Turns::default();
        let (one, two) = (turns.get(&1), turns.get(&1));
        assert!(Arc::ptr_eq(&one, &two));
        for n in 0..10 * TURNS_MAX {
            turns.get(&n);
        }
        assert!(Arc::ptr_eq(&one, &turns.get(&1)));
        assert!(turns.0.lock().unwrap().turns.len() <= TURNS_MAX);
    }

    #[tokio::test]
    async fn all_who_wait_for_a_fill_go_on_when_it_is_done_though_the_turn_is_not_over() {
        let turn = Turn::default();
        let mine = turn.take().await;
        assert!(mine.is_some());
        let others = async { tokio::join!(turn.take(), turn.take(), turn.take()) };
        let ((a, b, c), ()) = tokio::join!(others, async { turn.filled() });
        assert!(a.is_none() && b.is_none() && c.is_none());
        drop(mine);
        assert!(turn.take().await.is_some());
    }

    #[test]
    fn one_who_follows_and_panics_lets_the_next_one_begin() {
        let turn = Arc::<Turn>::default();
        let following = Following::begin(Arc::clone(&turn));
        assert!(following.is_some());
        assert!(Following::begin(Arc::clone(&turn)).is_none());
        let panicked = std::thread::spawn(move || {
            let _following = following;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(panicked.join().is_err());
        assert!(Following::begin(turn).is_some());
    }
}
