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

fn now(turn: impl Future<Output = Option<OwnedSemaphorePermit>>) -> Option<OwnedSemaphorePermit> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(turn).poll(&mut context) {
        std::task::Poll::Ready(turn) => turn,
        std::task::Poll::Pending => None,
    }
}
