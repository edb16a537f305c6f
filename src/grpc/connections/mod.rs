//! The connections of the server: accepts them, bounds what they hold, and closes those that do not
//! speak, read or work.
//!
//! A connection is served by a task of its own ([`begin`]): TLS, if callers must speak it, then
//! HTTP/2 ([`serve_one`]). A [`Peer`] knows what the
//! connection holds in memory and when it last made progress. The [`wire`] reports to it when the
//! client speaks and when the socket is blocked; the [`answers`] report which calls are open and
//! which bytes are unsent, and the [`requests`] how much of their contents has come.

mod admission;
mod answers;
mod door;
mod handshakes;
mod observed;
mod overload;
mod peer;
mod progress;
mod requests;
mod wire;

use std::{future::Future, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, server::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info, warn};

use self::{
    admission::Admission,
    answers::answer,
    door::Door,
    handshakes::Handshakes,
    peer::{Peer, Peers},
    progress::State,
    wire::Wire,
};
use super::{server::Settings, services::Services};
use crate::{
    store::Store,
    tls::{Caller, ServerTls},
    trace::Tracer,
};

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

/// How long calls may go on after the signal to stop, or once the client's certificate is not
/// accepted any more.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

/// How long to wait after a connection could not be accepted: without file descriptors, the next
/// try fails as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How far the age of a connection may differ from the setting, in both directions: those that
/// were made at the same time, as after a restart, shall not all end at the same time.
const AGE_SPREAD: f64 = 0.1;

/// How many connections there may be, how long they may last, and how long calls may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The most connections at once; one more is closed as soon as it is accepted.
    pub(super) connections_max: usize,
    /// The most of one address, if that is bounded.
    pub(super) per_address_max: Option<usize>,
    /// How long one may be without calls.
    pub(super) idle: Duration,
    /// The age at which its client is asked to connect again, if that is bounded.
    pub(super) age: Option<Duration>,
    /// How long calls may wait until they are looked at, if that is bounded.
    pub(super) queue_target: Option<Duration>,
}

impl Bounds {
    /// The bounds in the settings of a server.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            connections_max: settings.connections_max,
            per_address_max: settings.connections_per_address_max,
            idle: settings.idle_time,
            age: settings.connection_age,
            queue_target: settings.queue_target,
        }
    }

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
    (services, store): (Services, Option<Arc<dyn Store>>),
    (tls, tracer): (Option<Arc<ServerTls>>, Option<Tracer>),
    bounds: Bounds,
    stop: impl Future<Output = ()>,
) {
    let (stopping, _) = watch::channel(());
    let shared = Shared {
        services,
        tls,
        bounds,
        peers: Arc::new(Peers::new(Door::new(bounds.queue_target, store), tracer)),
        handshakes: Arc::default(),
    };
    let admission = Admission::new(bounds.per_address_max);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => {} // one that panicked is in the log already
            (stream, address) = accept(&listener) => {
                let is_full = connections.len() >= bounds.connections_max;
                let admitted = (!is_full).then(|| admission.admit(address.ip())).flatten();
                let Some(admitted) = admitted else {
                    shared.handshakes.make_room(Instant::now());
                    shared.peers.refused_one();
                    continue;
                };
                let served = begin(stream, shared.clone(), stopping.subscribe());
                connections.spawn(async move {
                    served.await;
                    drop(admitted);
                });
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
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // A connection that is broken already says so when it is served.
                stream.set_nodelay(true).ok();
                return (stream, address);
            }
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// What all connections share.
#[derive(Clone)]
struct Shared {
    services: Services,
    tls: Option<Arc<ServerTls>>,
    bounds: Bounds,
    peers: Arc<Peers>,
    handshakes: Arc<Handshakes>,
}

/// Shakes hands, if callers must speak TLS, and serves the connection to its end.
async fn begin(stream: TcpStream, shared: Shared, mut stopping: watch::Receiver<()>) {
    let Some(tls) = shared.tls.clone() else {
        return serve_one(stream, None, shared, stopping).await;
    };
    let handshake = shared.handshakes.begin(Instant::now());
    let accepted = tokio::select! {
        accepted = tls.accept(stream) => accepted,
        () = handshake.is_displaced() => None,
        _ = stopping.changed() => None,
    };
    drop(handshake);
    if let Some((stream, caller)) = accepted {
        serve_one(stream, Some(caller), shared, stopping).await;
    }
}

/// Serves one connection to its end.
async fn serve_one(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    caller: Option<Caller>,
    shared: Shared,
    mut stopping: watch::Receiver<()>,
) {
    let peer = Peer::new(&shared.peers);
    let io = TokioIo::new(Wire::new(stream, Arc::clone(&peer)));
    let identity = caller.as_ref().and_then(Caller::peer);
    let service = hyper::service::service_fn(|mut request: Request<Incoming>| {
        if let Some(identity) = &identity {
            request.extensions_mut().insert(identity.clone());
        }
        answer(&peer, &shared.services, request)
    });
    let mut connection = pin!(builder().serve_connection(io, service));
    let mut refused = pin!(refused(caller.as_ref()));
    let (mut closing_since, mut refused_since) = (None, None::<Instant>);
    let end = shared.bounds.end();
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
            () = &mut refused, if refused_since.is_none() => {
                info!("a connection is closed: its client's certificate is not accepted any more");
                refused_since = Some(Instant::now());
                if closing_since.is_none() {
                    closing_since = refused_since;
                    connection.as_mut().graceful_shutdown();
                }
            }
            () = sleep(interval) => {}
        }
        let now = Instant::now();
        if refused_since.is_some_and(|since| now - since >= DRAIN_TIME_MAX) {
            return;
        }
        let state = peer.state(now, shared.bounds.idle);
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

/// Completes when the client's certificate is not accepted any more.
async fn refused(caller: Option<&Caller>) {
    match caller {
        Some(caller) => caller.refused().await,
        None => std::future::pending().await,
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

#[cfg(test)]
mod tests;
