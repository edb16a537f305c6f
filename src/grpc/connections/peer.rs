//! What connections hold in memory, each and all together, and which one is closed if they hold
//! too much.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tracing::warn;

use super::{
    door::Door,
    progress::{State, UNREAD_TIME_MAX_WHEN_FULL, Work},
};
use crate::{metrics::STATE, trace::Tracer};

/// The memory of an open call apart from its answer, in bytes: about what was measured. It includes
/// a small request.
pub(super) const CALL_BYTES: usize = 4 * 1024;

/// The most bytes of unsent answers with which a connection may begin a call.
pub(super) const UNSENT_BYTES_MAX: usize = 32 << 20;

/// The most bytes that all connections may hold together in calls and unsent answers.
pub(super) const HELD_BYTES_MAX: usize = 256 << 20;

/// The most bytes of larger requests of a connection, see [`Peer::take`].
pub(super) const TAKEN_BYTES_MAX: usize = 16 << 20;

/// The most calls of health and reflection of a connection at once. They need no credential.
pub(super) const OTHER_CALLS_MAX: usize = 16;

/// The most calls of health and reflection on all connections that may last for ever. The first one
/// of each connection does not count: clients watch the health of the server that they call.
pub(super) const LASTING_CALLS_MAX: usize = 1024;

/// The most calls with large answers of a connection that are worked on or unsent; others wait for
/// their turn.
pub(super) const LARGE_CALLS_MAX: usize = 8;

/// How often connections are looked through for one that does not read.
const EVICTION_PAUSE: Duration = Duration::from_millis(50);

/// Refused connections are logged at most this often.
const LOG_PAUSE: Duration = Duration::from_secs(1);

/// All connections.
#[derive(Default)]
pub(super) struct Peers {
    /// The bytes that they hold.
    held: AtomicUsize,
    /// The bytes of larger requests.
    taken: AtomicUsize,
    /// Calls that are not ours and may last for ever, without the first one of each connection.
    lasting: AtomicUsize,
    numbers: AtomicU64,
    by_number: Mutex<HashMap<u64, Arc<Progress>>>,
    evicted_at: Mutex<Option<Instant>>,
    refused: Mutex<(Option<Instant>, u64)>,
    /// Where their calls arrive.
    door: Arc<Door>,
    /// What records their calls, if anything does.
    tracer: Option<Tracer>,
}

impl Peers {
    /// No connections yet.
    pub(super) fn new(door: Door, tracer: Option<Tracer>) -> Self {
        Self {
            door: Arc::new(door),
            tracer,
            ..Self::default()
        }
    }

    /// Counts a connection that was refused, and logs it now and then.
    pub(super) fn refused_one(&self) {
        STATE.connections_refused.inc();
        let mut refused = lock(&self.refused);
        refused.1 += 1;
        if refused.0.is_none_or(|at| at.elapsed() >= LOG_PAUSE) {
            let connections = std::mem::take(&mut refused.1);
            refused.0 = Some(Instant::now());
            warn!(
                connections,
                "there are too many connections: further ones are refused"
            );
        }
    }

    /// Whether all connections together hold too much. If so, one is closed, see [`Self::evict`].
    fn is_full(&self) -> bool {
        if self.held.load(Ordering::Relaxed) <= HELD_BYTES_MAX {
            return false;
        }
        let now = Instant::now();
        let mut evicted_at = lock(&self.evicted_at);
        if evicted_at.is_none_or(|at| now - at >= EVICTION_PAUSE) {
            *evicted_at = Some(now);
            drop(evicted_at);
            self.evict(now);
        }
        true
    }

    /// Closes the connection that has not read for the longest time. If all have read lately,
    /// closes the one with the most bytes of answers that its client leaves while it reads others.
    fn evict(&self, now: Instant) {
        let peers = lock(&self.by_number);
        let longest = peers
            .values()
            .filter_map(|peer| Some((lock(&peer.work).unread_time(now)?, peer)))
            .max_by_key(|(time, _)| *time);
        if let Some((time, peer)) = longest
            && time >= UNREAD_TIME_MAX_WHEN_FULL
        {
            peer.evicted.notify_one();
            return;
        }
        let most = peers
            .values()
            .map(|peer| (lock(&peer.work).left_bytes(now), peer))
            .max_by_key(|(bytes, _)| *bytes);
        if let Some((1.., peer)) = most {
            peer.evicted.notify_one();
        }
    }
}

/// One connection.
pub(super) struct Peer {
    peers: Arc<Peers>,
    number: u64,
    progress: Arc<Progress>,
    large_calls: Arc<Semaphore>,
}

/// What is known of a connection's progress.
struct Progress {
    work: Mutex<Work>,
    evicted: Notify,
}

impl Peer {
    /// A connection that was just accepted.
    pub(super) fn new(peers: &Arc<Peers>) -> Arc<Self> {
        STATE.connections.inc();
        let progress = Arc::new(Progress {
            work: Mutex::new(Work::new(Instant::now())),
            evicted: Notify::new(),
        });
        let number = peers.numbers.fetch_add(1, Ordering::Relaxed);
        lock(&peers.by_number).insert(number, Arc::clone(&progress));
        Arc::new(Self {
            peers: Arc::clone(peers),
            number,
            progress,
            large_calls: Arc::new(Semaphore::new(LARGE_CALLS_MAX)),
        })
    }

    /// What records its calls, if anything does.
    pub(super) fn tracer(&self) -> Option<&Tracer> {
        self.peers.tracer.as_ref()
    }

    /// What the connection's progress says about it.
    pub(super) fn state(&self, now: Instant, idle_time: Duration) -> State {
        self.work().state(now, idle_time)
    }

    /// Waits until the connection is to be closed in favour of others.
    pub(super) async fn evicted(&self) {
        self.progress.evicted.notified().await;
    }

    /// The client began to speak HTTP/2.
    pub(super) fn spoke(&self) {
        self.work().has_spoken = true;
    }

    /// The socket takes no more bytes, or takes them again.
    pub(super) fn blocked(&self, is_blocked: bool) {
        self.work().blocked_since = is_blocked.then(Instant::now);
    }

    /// Whether there are calls whose answer is not complete.
    pub(super) fn has_open_calls(&self) -> bool {
        self.work().calls > 0
    }

    /// Counts a call until the value is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Call {
        self.work().calls += 1;
        self.peers.held.fetch_add(CALL_BYTES, Ordering::Relaxed);
        Call {
            peer: Arc::clone(self),
            kind: CallKind::Ours,
        }
    }

    /// Counts a call of health or reflection until the value is dropped; none if there are too many
    /// of them. What they hold does not keep others out: anybody may make them.
    pub(super) fn begin_other(self: &Arc<Self>, is_lasting: bool) -> Option<Call> {
        let mut work = self.work();
        if work.others >= OTHER_CALLS_MAX {
            return None;
        }
        let is_counted = is_lasting && work.lasting > 0;
        if is_counted {
            let lasting = &self.peers.lasting;
            if lasting.fetch_add(1, Ordering::Relaxed) >= LASTING_CALLS_MAX {
                lasting.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
        }
        work.calls += 1;
        work.others += 1;
        work.lasting += usize::from(is_lasting);
        Some(Call {
            peer: Arc::clone(self),
            kind: CallKind::Other {
                is_lasting,
                is_counted,
            },
        })
    }

    /// Whether a call may begin: neither this connection nor all together hold too much. What all
    /// hold does not keep an operator's act out, whose answer is small.
    pub(super) fn may_begin(&self, is_act: bool) -> bool {
        (is_act || !self.is_full()) && self.work().unsent < UNSENT_BYTES_MAX
    }

    /// Where the calls of all connections arrive.
    pub(super) fn door(&self) -> &Arc<Door> {
        &self.peers.door
    }

    /// Whether all connections together hold too much. If so, one that does not read is closed.
    pub(super) fn is_full(&self) -> bool {
        self.peers.is_full()
    }

    /// Counts the bytes of a request that is larger than what every call counts, until the value is
    /// dropped; none if the connection has too many, or all together more than `bytes_max`. These
    /// bytes keep out no calls but those with larger requests.
    pub(super) fn take(self: &Arc<Self>, bytes: usize, bytes_max: usize) -> Option<Taken> {
        let mut taken = Taken {
            peer: Arc::clone(self),
            bytes: 0,
        };
        taken.grow(bytes, bytes_max).then_some(taken)
    }

    /// Waits until a call with a large answer may begin. Its turn ends when the value is dropped.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.large_calls).acquire_owned().await.ok()
    }

    /// Counts the bytes of an answer until the value is dropped, and keeps a turn until then.
    pub(super) fn hold(self: &Arc<Self>, bytes: usize, turn: Option<OwnedSemaphorePermit>) -> Held {
        let mut work = self.work();
        if work.unsent == 0 {
            work.sent_at = Instant::now();
        }
        work.unsent += bytes;
        let number = work.next_answer;
        work.next_answer += 1;
        drop(work);
        self.peers.held.fetch_add(bytes, Ordering::Relaxed);
        Held {
            peer: Arc::clone(self),
            number,
            bytes,
            _turn: turn,
        }
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        lock(&self.progress.work)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        STATE.connections.dec();
        lock(&self.peers.by_number).remove(&self.number);
    }
}

/// An open call.
pub(super) struct Call {
    peer: Arc<Peer>,
    kind: CallKind,
}

/// How an open call is counted.
#[derive(Clone, Copy)]
enum CallKind {
    Ours,
    Other { is_lasting: bool, is_counted: bool },
}

impl Call {
    /// Its connection.
    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let peers = &self.peer.peers;
        let mut work = self.peer.work();
        match self.kind {
            CallKind::Ours => {
                peers.held.fetch_sub(CALL_BYTES, Ordering::Relaxed);
            }
            CallKind::Other {
                is_lasting,
                is_counted,
            } => {
                work.others -= 1;
                work.lasting -= usize::from(is_lasting);
                let counted = usize::from(is_counted);
                peers.lasting.fetch_sub(counted, Ordering::Relaxed);
            }
        }
        work.calls -= 1;
        work.ended();
    }
}

/// Bytes of a larger request.
pub(super) struct Taken {
    peer: Arc<Peer>,
    bytes: usize,
}

impl Taken {
    /// Counts more bytes; false, and counts none, if they are too many.
    pub(super) fn grow(&mut self, bytes: usize, bytes_max: usize) -> bool {
        let all = &self.peer.peers.taken;
        let mut work = self.peer.work();
        if work.taken + bytes > TAKEN_BYTES_MAX {
            return false;
        }
        if all.fetch_add(bytes, Ordering::Relaxed) + bytes > bytes_max {
            all.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        work.taken += bytes;
        drop(work);
        self.bytes += bytes;
        true
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.peer.work().taken -= self.bytes;
        let all = &self.peer.peers.taken;
        all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Unsent bytes of an answer.
pub(super) struct Held {
    peer: Arc<Peer>,
    /// The number of the answer on its connection.
    number: u64,
    bytes: usize,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let held = &self.peer.peers.held;
        held.fetch_sub(self.bytes, Ordering::Relaxed);
        let mut work = self.peer.work();
        work.unsent -= self.bytes;
        if self.number < work.left.before {
            work.left.bytes -= self.bytes;
        }
        work.sent_at = Instant::now();
        work.ended();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
