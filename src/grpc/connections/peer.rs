//! What a connection holds in memory, when it last made progress, and what that says about it.

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

use super::door::Door;
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

/// How long a client may take to begin to speak HTTP/2.
pub(super) const SPEAK_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may leave its answers unread.
pub(super) const UNREAD_TIME_MAX: Duration = Duration::from_secs(30);

/// How long it may when all connections together hold too much.
const UNREAD_TIME_MAX_WHEN_FULL: Duration = Duration::from_secs(1);

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

/// What a connection does.
struct Work {
    has_spoken: bool,
    /// Calls whose answer is not complete.
    calls: usize,
    /// Those of them that are of health and reflection.
    others: usize,
    /// Those of these that may last for ever.
    lasting: usize,
    /// Bytes of larger requests.
    taken: usize,
    /// Bytes of answers that are not written to the socket.
    unsent: usize,
    /// The number of the next answer.
    next_answer: u64,
    left: Left,
    /// Since when there is neither a call nor an unsent answer.
    quiet_since: Instant,
    /// When an answer was sent in full; or, of the first unsent one, when it was ready.
    sent_at: Instant,
    /// Since when the socket takes no more bytes.
    blocked_since: Option<Instant>,
}

/// The answers that were unsent at a moment. What is left of them later shows which client reads
/// some answers and leaves others.
struct Left {
    at: Instant,
    /// The number of the first answer that came later.
    before: u64,
    /// The bytes of these answers that are still unsent.
    bytes: usize,
}

/// What a connection's progress says about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its client does not do what it must.
    Bad(&'static str),
    /// Its client did not speak HTTP/2 yet.
    Mute,
    /// It has had no call for the idle time.
    Idle,
    /// It has had no call for this long.
    Quiet(Duration),
    /// It has calls.
    Working,
}

impl Work {
    fn new(now: Instant) -> Self {
        Self {
            has_spoken: false,
            calls: 0,
            others: 0,
            lasting: 0,
            taken: 0,
            unsent: 0,
            next_answer: 0,
            left: Left {
                at: now,
                before: 0,
                bytes: 0,
            },
            quiet_since: now,
            sent_at: now,
            blocked_since: None,
        }
    }

    /// How long the client has left its answers unread.
    fn unread_time(&self, now: Instant) -> Option<Duration> {
        let unread_since = (self.unsent > 0).then_some(self.sent_at);
        let since = match (unread_since, self.blocked_since) {
            (Some(unread), Some(blocked)) => unread.min(blocked),
            (unread, blocked) => unread.or(blocked)?,
        };
        Some(now.saturating_duration_since(since))
    }

    /// The bytes of answers that the client has left for [`UNREAD_TIME_MAX_WHEN_FULL`] or longer.
    fn left_bytes(&mut self, now: Instant) -> usize {
        if now.saturating_duration_since(self.left.at) < UNREAD_TIME_MAX_WHEN_FULL {
            return 0;
        }
        let bytes = self.left.bytes;
        if bytes == 0 {
            self.left = Left {
                at: now,
                before: self.next_answer,
                bytes: self.unsent,
            };
        }
        bytes
    }

    fn state(&self, now: Instant, idle_time: Duration) -> State {
        let quiet_time = now.saturating_duration_since(self.quiet_since);
        if self
            .unread_time(now)
            .is_some_and(|time| time >= UNREAD_TIME_MAX)
        {
            return State::Bad("its client does not read");
        }
        if !self.has_spoken {
            return match quiet_time < SPEAK_TIME_MAX {
                true => State::Mute,
                false => State::Bad("its client does not speak HTTP/2"),
            };
        }
        match self.calls == 0 && self.unsent == 0 {
            true if quiet_time >= idle_time => State::Idle,
            true => State::Quiet(quiet_time),
            false => State::Working,
        }
    }

    /// After a call or an answer ended.
    fn ended(&mut self) {
        if self.calls == 0 && self.unsent == 0 {
            self.quiet_since = Instant::now();
        }
    }
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
mod tests {
    use tokio::time;

    use super::*;

    const IDLE: Duration = Duration::from_secs(600);

    fn after(peer: &Peer, seconds: u64) -> State {
        peer.state(Instant::now() + Duration::from_secs(seconds), IDLE)
    }

    #[tokio::test]
    async fn a_client_must_speak_then_read_and_may_then_idle_for_a_while() {
        let peer = Peer::new(&Arc::default());
        assert_eq!(after(&peer, 0), State::Mute);
        assert!(matches!(after(&peer, 10), State::Bad(_)));
        peer.spoke();
        assert!(matches!(after(&peer, 10), State::Quiet(_)));
        assert_eq!(after(&peer, 600), State::Idle);

        let call = peer.begin();
        assert_eq!(after(&peer, 600), State::Working);
        let held = peer.hold(100, None);
        drop(call);
        assert_eq!(after(&peer, 20), State::Working);
        assert!(matches!(after(&peer, 30), State::Bad(_)));
        drop(held);
        assert!(matches!(after(&peer, 30), State::Quiet(_)));

        peer.blocked(true);
        assert!(matches!(after(&peer, 30), State::Bad(_)));
        peer.blocked(false);
        assert!(matches!(after(&peer, 30), State::Quiet(_)));
    }

    #[tokio::test]
    async fn when_all_hold_too_much_the_one_that_has_not_read_for_longest_is_closed() {
        let peers: Arc<Peers> = Arc::default();
        let (slow, quick) = (Peer::new(&peers), Peer::new(&peers));
        let held = slow.hold(UNSENT_BYTES_MAX, None);
        assert!(!slow.may_begin(false), "a connection that holds too much");
        assert!(quick.may_begin(false));
        let rest = quick.hold(HELD_BYTES_MAX - UNSENT_BYTES_MAX + 1, None);
        assert!(quick.is_full() && !quick.may_begin(false));
        assert!(Peer::new(&peers).may_begin(true), "an operator's act");
        peers.evict(Instant::now() + UNREAD_TIME_MAX_WHEN_FULL);
        slow.evicted().await;
        drop(held);
        assert!(!quick.is_full());
        drop(rest);
        drop((slow, quick));
        assert_eq!(peers.held.load(Ordering::Relaxed), 0);
        assert!(lock(&peers.by_number).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_hold_too_much_a_client_that_reads_only_some_answers_is_closed() {
        let peers: Arc<Peers> = Arc::default();
        let (slow, quick) = (Peer::new(&peers), Peer::new(&peers));
        let left = slow.hold(1_000, None);
        let mut read = vec![quick.hold(2_000, None)];
        for _ in 0..6 {
            time::advance(Duration::from_millis(400)).await;
            drop(slow.hold(1, None));
            read.push(quick.hold(2_000, None));
            read.remove(0);
            peers.evict(Instant::now());
        }
        slow.evicted().await;
        let other = time::timeout(Duration::from_secs(1), quick.evicted());
        assert!(other.await.is_err(), "it reads all its answers");
        drop(left);
        assert_eq!(slow.work().left.bytes, 0);
    }

    #[test]
    fn calls_that_need_no_credential_are_few_and_keep_nobody_out() {
        let peers: Arc<Peers> = Arc::default();
        let mut watched = Vec::new();
        while peers.lasting.load(Ordering::Relaxed) < LASTING_CALLS_MAX {
            let peer = Peer::new(&peers);
            watched.extend((0..OTHER_CALLS_MAX).map_while(|_| peer.begin_other(true)));
        }
        assert!(watched.len() > LASTING_CALLS_MAX);
        let other = Peer::new(&peers);
        let first = other.begin_other(true);
        assert!(first.is_some() && other.begin_other(true).is_none());
        let probes: Vec<_> = (1..OTHER_CALLS_MAX)
            .map(|_| other.begin_other(false).unwrap())
            .collect();
        assert!(other.begin_other(false).is_none() && other.may_begin(false));
        assert_eq!(peers.held.load(Ordering::Relaxed), 0);
        drop((watched, first, probes));
        assert!(other.begin_other(true).is_some());
        assert_eq!(peers.lasting.load(Ordering::Relaxed), 0);
        let work = other.work();
        assert_eq!((work.others, work.lasting), (0, 0));
    }

    #[tokio::test]
    async fn large_answers_take_turns() {
        let peer = Peer::new(&Arc::default());
        let mut held = Vec::new();
        for _ in 0..LARGE_CALLS_MAX {
            let turn = peer.turn().await;
            held.push(peer.hold(1, turn));
        }
        let mut next = now(peer.turn());
        assert!(next.is_none(), "one too many has its turn");
        held.pop();
        next = now(peer.turn());
        assert!(next.is_some());
    }

    fn now(
        turn: impl Future<Output = Option<OwnedSemaphorePermit>>,
    ) -> Option<OwnedSemaphorePermit> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(turn).poll(&mut context) {
            std::task::Poll::Ready(turn) => turn,
            std::task::Poll::Pending => None,
        }
    }
}
