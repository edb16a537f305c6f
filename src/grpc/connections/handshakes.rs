//! Handshakes that are under way. They are bounded, and one too many ends the oldest: an honest
//! handshake takes milliseconds, so those that are never finished cannot keep it out.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// The most handshakes at once.
const HANDSHAKES_MAX: usize = 1000;

/// All handshakes that are under way.
#[derive(Default)]
pub(super) struct Handshakes(Mutex<Open>);

#[derive(Default)]
struct Open {
    next: u64,
    /// By number, so the first is the oldest.
    ends: BTreeMap<u64, Arc<Notify>>,
}

/// One of them, until it is dropped.
pub(super) struct Handshake {
    all: Arc<Handshakes>,
    number: u64,
    end: Arc<Notify>,
}

impl Handshakes {
    /// Begins one; the oldest ends if there are too many.
    pub(super) fn begin(self: &Arc<Self>) -> Handshake {
        let end = Arc::new(Notify::new());
        let mut open = self.lock();
        if open.ends.len() >= HANDSHAKES_MAX
            && let Some((_, oldest)) = open.ends.pop_first()
        {
            oldest.notify_one();
        }
        let number = open.next;
        open.next += 1;
        open.ends.insert(number, Arc::clone(&end));
        drop(open);
        Handshake {
            all: Arc::clone(self),
            number,
            end,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handshake {
    /// Completes when a newer one takes its turn.
    pub(super) async fn is_displaced(&self) {
        self.end.notified().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.lock().ends.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn one_too_many_ends_the_oldest() {
        let all = Arc::new(Handshakes::default());
        let open: Vec<Handshake> = (0..=HANDSHAKES_MAX).map(|_| all.begin()).collect();
        open[0].is_displaced().await;
        let second = timeout(Duration::ZERO, open[1].is_displaced()).await;
        assert!(second.is_err(), "one was ended too many");
        assert_eq!(all.lock().ends.len(), HANDSHAKES_MAX);
        drop(open);
        assert!(all.lock().ends.is_empty());
    }
}
