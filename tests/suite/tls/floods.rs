//! Clients that never finish, send garbage, or are too many.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{task::JoinSet, time::sleep};
use tombola::proto::{DrawRequest, lottery_service_client::LotteryServiceClient};
use tonic::transport::Channel;

use super::{Files, PATIENCE, answer_to, check, metric, until};
use crate::{
    faults::load,
    process::{Raw, Server, Start, alone},
};

/// How often connections answer pings, for which the server waits for ten seconds.
const ANSWERING_EVERY: Duration = Duration::from_secs(2);
/// The most handshakes that may take long.
const HANDSHAKES_MAX: usize = 1000;
const CHECK: &str = "/grpc.health.v1.Health/Check";

/// The first record of a handshake, without its end.
const HALF_A_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_never_end_are_bounded_and_keep_nobody_out() {
    let files = Files::new();
    let server = files.serve("--handshake-timeout 60s");
    let before = files.connect(&server, None).await.unwrap();
    let half = || {
        let mut half = TcpStream::connect(server.address).unwrap();
        half.write_all(HALF_A_HELLO).ok(); // it may be closed already
        half
    };
    let halves: Vec<TcpStream> = (0..3 * HANDSHAKES_MAX).map(|_| half()).collect();
    files.is_served(&server, None).await.unwrap();
    check(before).await.unwrap();
    tokio::task::block_in_place(|| {
        until("the oldest are ended", || {
            drop(half());
            count_closed(&halves) >= 2 * HANDSHAKES_MAX
        });
    });
    let failed = metric(&server, "tombola_tls_handshakes_failed_total ").unwrap();
    assert!(failed >= (2 * HANDSHAKES_MAX) as f64, "{failed}");
    drop(halves);
    files.is_served(&server, None).await.unwrap();
}

/// How many the server has closed.
fn count_closed(streams: &[TcpStream]) -> usize {
    let is_closed = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        match stream.read(&mut [0; 16]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    };
    streams.iter().filter(|stream| is_closed(stream)).count()
}

#[test]
fn a_handshake_that_takes_too_long_is_ended() {
    let files = Files::new();
    let server = files.serve("--handshake-timeout 1s");
    answer_to(server.address, HALF_A_HELLO); // it ends, since the server closes the connection
    let failed = metric(&server, "tombola_tls_handshakes_failed_total ");
    assert_eq!(failed, Some(1.0));
}

/// Garbage of many lengths, some of it with a good beginning. The same in every run.
fn garbage() -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(14);
    let beginnings: [&[u8]; 5] = [
        b"",
        HALF_A_HELLO,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    ];
    let mut all = Vec::new();
    for beginning in beginnings {
        for bytes in [1, 9, 100, 1000, 70_000] {
            let mut garbage = beginning.to_vec();
            garbage.extend((0..bytes).map(|_| random.random::<u8>()));
            all.push(garbage);
        }
    }
    all
}

/// Sends each, says that nothing follows, and waits until the server closes the connection.
fn send_garbage(address: SocketAddr) {
    for garbage in garbage() {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&garbage).ok();
        stream.shutdown(std::net::Shutdown::Write).ok();
        let ended = stream.read_to_end(&mut Vec::new());
        let is_kept = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!is_kept, "{:?}", &garbage[..garbage.len().min(40)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_ends_its_connection_and_nothing_else() {
    let files = Files::new();
    let server = files.serve("");
    let kept = files.connect(&server, None).await.unwrap();
    tokio::task::block_in_place(|| send_garbage(server.address));
    check(kept).await.unwrap();
    files.is_served(&server, None).await.unwrap();
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn garbage_to_a_server_without_tls_ends_its_connection_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let mut kept = Raw::connect(server.address);
    kept.ping();
    send_garbage(server.address);
    kept.ping();
    is_served(server.address);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// Malformed frames within good connections: wrong lengths, wrong streams, headers that are none.
#[test]
fn malformed_frames_end_their_connection_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let mut kept = Raw::connect(server.address);
    kept.ping();
    for frame in [
        &b"\0\0\x05\x04\0\0\0\0\0\0\0\0\0\0"[..], // SETTINGS of 5 bytes
        b"\0\0\x08\x06\0\0\0\0\x01\0\0\0\0\0\0\0\0", // PING on a stream
        b"\0\0\x03\x08\0\0\0\0\0\0\0\0",          // WINDOW_UPDATE of 3 bytes
        b"\0\0\x01\0\x01\0\0\0\x01\0",            // DATA of a stream that was never opened
        b"\0\0\x04\x01\x05\0\0\0\x01\xff\xff\xff\xff", // HEADERS that are no HPACK
        b"\0\0\x01\x01\x05\0\0\0\x02\x82",        // HEADERS of a stream of the server
        b"\0\0\x04\x09\x04\0\0\0\x01\0\0\0\0",    // CONTINUATION of nothing
        b"\xff\xff\xff\0\0\0\0\0\x01",            // a frame of 16 MiB
    ] {
        let mut bad = Raw::connect(server.address);
        bad.ping();
        bad.send(frame);
        bad.frames(); // until the server closes it
    }
    kept.ping();
    is_served(server.address);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// Makes a call on a new connection.
#[track_caller]
fn is_served(address: SocketAddr) {
    let mut client = Raw::connect(address);
    client.ping();
    let call = client.call(CHECK);
    let mut frames = std::iter::from_fn(|| client.frame());
    assert!(
        frames.any(|frame| frame.ends(call)),
        "the call has no answer"
    );
}

/// Connections that answer the server's pings, as it closes those that do not.
struct Alive {
    open: Vec<Raw>,
    answered: Instant,
}

impl Alive {
    fn none() -> Self {
        Self {
            open: Vec::new(),
            answered: Instant::now(),
        }
    }

    /// Opens connections until one is refused or there are as many.
    fn fill(&mut self, server: &Server, wanted: usize) {
        while self.open.len() < wanted {
            let mut client = Raw::connect(server.address);
            if !client.is_alive() {
                break;
            }
            self.open.push(client);
            self.answer_now_and_then();
        }
    }

    fn ping_all(&mut self) {
        for index in 0..self.open.len() {
            self.open[index].ping();
            self.answer_now_and_then();
        }
    }

    fn answer_now_and_then(&mut self) {
        if self.answered.elapsed() > ANSWERING_EVERY {
            self.answer();
        }
    }

    fn answer(&mut self) {
        self.open.iter_mut().for_each(Raw::answer_pings);
        self.answered = Instant::now();
    }
}

/// As many as there may be are let in and served, others are refused, and room that is made is used
/// again.
fn holds(server: &Server, most: usize) {
    let mut alive = Alive::none();
    // A connection that was closed before may still count.
    until("there is room for all", || {
        alive.fill(server, most);
        alive.open.len() == most
    });
    alive.fill(server, most + 1);
    assert_eq!(alive.open.len(), most);
    alive.ping_all();
    for _ in 0..100 {
        assert!(!Raw::connect(server.address).is_alive());
        alive.answer_now_and_then();
    }
    for index in [0, most - 1] {
        let client = &mut alive.open[index];
        let call = client.call(CHECK);
        let mut frames = std::iter::from_fn(|| client.frame());
        assert!(
            frames.any(|frame| frame.ends(call)),
            "the call has no answer"
        );
    }
    drop(alive);
    until("there is room again", || {
        Raw::connect(server.address).is_alive()
    });
}

/// The descriptors that a process with ten thousand connections needs.
const DESCRIPTORS: u64 = 12_000;

/// The most memory that a server may use: what the manifests give it.
const MEMORY_MAX: u64 = 1 << 30;

/// Lets this process, and the servers that it starts, have so many descriptors.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= DESCRIPTORS) {
        return;
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(DESCRIPTORS));
    let wanted = Rlimit {
        current: Some(DESCRIPTORS),
        maximum,
    };
    setrlimit(Resource::Nofile, wanted).unwrap_or_else(|error| {
        panic!("this test needs {DESCRIPTORS} file descriptors (`ulimit -Hn`): {error}")
    });
}

/// The pause after a draw of those who draw while the server has other work.
const PAUSE: Duration = Duration::from_millis(10);

/// Draws until `is_over`; how many were answered is counted.
async fn draw_until(
    lottery: LotteryServiceClient<Channel>,
    name: String,
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
) {
    let mut lottery = lottery;
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let request = DrawRequest {
            campaign_id: "flow".into(),
            user_id: format!("{name}-{number}"),
            request_id: format!("{name}-{number}"),
            ..Default::default()
        };
        // A machine that has much else to do refuses some.
        let is_answered = lottery.draw(request).await.is_ok();
        answered.fetch_add(u64::from(is_answered), Ordering::Relaxed);
        sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_connections_are_served_while_some_draw_and_one_more_is_refused() {
    const ALL: usize = 10_000;
    const DRAWING: usize = 4;
    raise_descriptors();
    let data = tempfile::tempdir().unwrap();
    let start = Start::on(data.path()).with(&format!("--max-connections {ALL}"));
    let server = start.with("--idle-timeout 10m").serve();
    load::apply(&server).await;
    let (is_over, answered) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut drawing = JoinSet::new();
    for caller in 0..DRAWING {
        let (lottery, name) = (server.lottery().await, format!("u-{caller}"));
        let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
        drawing.spawn(draw_until(lottery, name, is_over, answered));
    }
    tokio::task::block_in_place(|| {
        holds(&server, ALL - DRAWING);
    });
    let (_, most) = server.memory_bytes();
    assert!(most < MEMORY_MAX, "{most} bytes");
    let before = answered.load(Ordering::Relaxed);
    tokio::task::block_in_place(|| {
        until("draws go on", || answered.load(Ordering::Relaxed) > before);
    });
    is_over.store(true, Ordering::Relaxed);
    drawing.join_all().await;
}

#[test]
fn one_address_has_as_many_connections_as_it_may_have() {
    let data = tempfile::tempdir().unwrap();
    let start = Start::on(data.path()).with("--max-connections-per-address 10");
    holds(&start.serve(), 10);
}

/// Descriptors that run out would leave none for the store and the ledger.
#[test]
fn connections_leave_descriptors_for_the_store() {
    const DESCRIPTORS: usize = 400;
    const KEPT: usize = 256;
    let data = tempfile::tempdir().unwrap();
    let start = Start::on(data.path());
    let given = start.command();
    let mut command: Command = alone("sh");
    command.args(["-c", r#"ulimit -n "$1"; shift; exec "$@""#, "sh"]);
    command
        .arg(DESCRIPTORS.to_string())
        .arg(given.get_program());
    command.args(given.get_args());
    let server = Server::started_by(command);
    assert!(
        server.log().contains("file descriptors"),
        "{}",
        server.log()
    );
    holds(&server, DESCRIPTORS - KEPT);
}
