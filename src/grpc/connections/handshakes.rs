//! Handshakes that are under way. If there are too many, those that take long are ended: an honest
//! handshake takes milliseconds, so those that are never finished cannot keep it out. When many
//! clients connect at once, all of them get their time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// The most handshakes that may take long.
const HANDSHAKES_MAX: usize = 1000;

/// How long a handshake may take in any case.
const TIME_MIN: Duration = Duration::from_secs(2);

/// All handshakes that are under way.
#[derive(Default)]
pub(super) struct Handshakes(Mutex<Open>);

#[derive(Default)]
struct Open {
    next: u64,
    /// By number, so the first is the oldest.
    ends: BTreeMap<u64, (Instant, Arc<Notify>)>,
}

/// One of them, until it is dropped.
pub(super) struct Handshake {
    all: Arc<Handshakes>,
    number: u64,
    end: Arc<Notify>,
}

impl Handshakes {
    /// Begins one; old ones end if there are too many.
    pub(super) fn begin(self: &Arc<Self>, now: Instant) -> Handshake {
        let end = Arc::new(Notify::new());
        let mut open = self.lock();
        while open.ends.len() >= HANDSHAKES_MAX && open.end_oldest(now) {}
        let number = open.next;
        open.next += 1;
        open.ends.insert(number, (now, Arc::clone(&end)));
        drop(open);
        Handshake {
            all: Arc::clone(self),
            number,
            end,
        }
    }

    /// Ends the oldest, if it takes long: there is no room for further connections.
    pub(super) fn make_room(&self, now: Instant) {
        self.lock().end_oldest(now);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Ends the oldest, if it takes long; whether it did.
    fn end_oldest(&mut self, now: Instant) -> bool {
        match self.ends.first_entry() {
            Some(oldest) if now - oldest.get().0 >= TIME_MIN => {
                oldest.remove().1.notify_one();
                true
            }
            _ => false,
        }
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
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn one_too_many_ends_the_oldest_if_it_takes_long() {
        let all = Arc::new(Handshakes::default());
        let now = Instant::now();
        let mut open: Vec<_> = (0..=HANDSHAKES_MAX).map(|_| all.begin(now)).collect();
        assert_eq!(all.lock().ends.len(), HANDSHAKES_MAX + 1, "all are young");
        open.push(all.begin(now + TIME_MIN));
        assert_eq!(all.lock().ends.len(), HANDSHAKES_MAX);
        for oldest in &open[..2] {
            oldest.is_displaced().await;
        }
        let third = timeout(Duration::ZERO, open[2].is_displaced()).await;
        assert!(third.is_err(), "one was ended too many");
        all.make_room(now + TIME_MIN);
        open[2].is_displaced().await;
        drop(open);
        assert!(all.lock().ends.is_empty());
    }
}
