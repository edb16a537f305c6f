//! The connections of the server: accepts them, bounds what they hold, and closes those that do not
//! speak, read or work.
//!
//! A connection is served by a task of its own ([`serve_one`]). A [`Peer`] knows what the
//! connection holds in memory and when it last made progress. The [`wire`] reports to it when the
//! client speaks and when the socket is blocked; the [`answers`] report which calls are open and
//! which bytes are unsent.

mod answers;
mod observed;
mod peer;
mod wire;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tonic::service::Routes;
use tracing::{debug, info, warn};

use self::{
    answers::answer,
    peer::{Peer, Peers, State},
    wire::Wire,
};

/// The most connections at once; one more is closed as soon as it is accepted.
const CONNECTIONS_MAX: usize = 10_000;

/// The most calls at once on a connection; the desk bounds them over all connections.
const STREAMS_PER_CONNECTION_MAX: u32 = 1024;

/// The most calls that a client may cancel before the server has looked at them; more are taken for
/// a rapid-reset attack, and the connection is closed. An honest client whose calls all time out at
/// once cancels as many as it may have open.
const UNSEEN_RESETS_MAX: usize = STREAMS_PER_CONNECTION_MAX as usize;

/// The most bytes of a request's headers that are read. [`answers`] allows less and says so; beyond
/// this bound the client gets no more than the HTTP status 431.
const HEADER_BYTES_READ_MAX: u32 = 64 * 1024;

/// How often a silent connection is asked whether it still lives, and how long it may take to say
/// so.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a connection is checked, and how often one that is being closed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const CLOSING_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How long a connection without calls may take to confirm that it is closed.
const FAREWELL_TIME_MAX: Duration = Duration::from_secs(1);

/// How long calls may go on after the signal to stop.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

/// How long to wait after a connection could not be accepted: without file descriptors, the next
/// try fails as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How far the age of a connection may differ from the setting, in both directions: those that
/// were made at the same time, as after a restart, shall not all end at the same time.
const AGE_SPREAD: f64 = 0.1;

/// How long connections may last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// How long one may be without calls.
    pub(super) idle: Duration,
    /// The age at which its client is asked to connect again, if that is bounded.
    pub(super) age: Option<Duration>,
}

impl Times {
    /// When a connection that begins now reaches its age.
    fn end(&self) -> Option<Instant> {
        let age = self.age?;
        let factor = rand::random_range(1.0 - AGE_SPREAD..=1.0 + AGE_SPREAD);
        Some(Instant::now() + age.mul_f64(factor))
    }
}

/// Serves connections until `stop`. Then nobody can connect any more, and calls that have begun may
/// end.
pub(super) async fn serve(
    listener: TcpListener,
    routes: Routes,
    times: Times,
    stop: impl Future<Output = ()>,
) {
    let (stopping, _) = watch::channel(());
    let peers = Arc::new(Peers::default());
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => {} // one that panicked is in the log already
            stream = accept(&listener) => {
                if connections.len() >= CONNECTIONS_MAX {
                    peers.refused_one();
                    continue;
                }
                let served = serve_one(
                    stream,
                    Peer::new(&peers),
                    routes.clone(),
                    times,
                    stopping.subscribe(),
                );
                connections.spawn(served);
            }
        }
    }
    drop(listener);
    stopping.send_replace(());
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(DRAIN_TIME_MAX, ended).await.is_err() {
        warn!("some connections did not end in time and are dropped");
    }
}

/// The next connection, without Nagle's delay.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // A connection that is broken already says so when it is served.
                stream.set_nodelay(true).ok();
                return stream;
            }
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection to its end.
async fn serve_one(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Arc<Peer>,
    routes: Routes,
    times: Times,
    mut stopping: watch::Receiver<()>,
) {
    let io = TokioIo::new(Wire::new(stream, Arc::clone(&peer)));
    let service =
        hyper::service::service_fn(|request| answer(Arc::clone(&peer), routes.clone(), request));
    let mut connection = pin!(builder().serve_connection(io, service));
    let mut closing_since = None;
    let end = times.end();
    loop {
        let interval = closing_since.map_or(CHECK_INTERVAL, |_| CLOSING_CHECK_INTERVAL);
        tokio::select! {
            biased; // a connection that is dropped below has written what it could
            ended = &mut connection => {
                if let Err(error) = ended {
                    debug!(%error, "a connection failed");
                }
                return;
            }
            () = peer.evicted() => {
                info!("a connection is closed: it does not read its answers, and all together hold \
                       too much");
                return;
            }
            _ = stopping.changed(), if closing_since.is_none() => {
                closing_since = Some(Instant::now());
                connection.as_mut().graceful_shutdown();
            }
            () = sleep(interval) => {}
        }
        let now = Instant::now();
        let state = peer.state(now, times.idle);
        let is_old = state != State::Mute && end.is_some_and(|end| now >= end);
        match (state, closing_since) {
            (State::Bad(reason), _) => {
                info!(reason, "a connection is closed: {reason}");
                return;
            }
            (State::Mute, Some(_)) => return,
            (State::Quiet(time), Some(since)) if time.min(since.elapsed()) >= FAREWELL_TIME_MAX => {
                return;
            }
            (State::Idle, Some(since)) if since.elapsed() >= FAREWELL_TIME_MAX => return,
            (state, None) if state == State::Idle || is_old => {
                closing_since = Some(Instant::now());
                connection.as_mut().graceful_shutdown();
            }
            (State::Mute | State::Idle | State::Quiet(_) | State::Working, _) => {}
        }
    }
}

fn builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .max_pending_accept_reset_streams(UNSEEN_RESETS_MAX)
        .max_header_list_size(HEADER_BYTES_READ_MAX)
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    builder
}
