//! The listener of the console: connections with bounds, over TLS if the server has it.

use std::{
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{BoxError, Router, body::Body, http::Request};
use hyper::{
    body::{Bytes, Frame, Incoming, SizeHint},
    server::conn::{http1, http2},
    service::{HttpService, service_fn},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
    task::JoinSet,
    time::{Sleep, sleep, timeout},
};
use tower::ServiceExt as _;
use tracing::{debug, warn};

use super::{Console, Settings, Shared, live::Feeds, oidc::Provider, routes, session::Sessions};
use crate::tls::{HTTP2, ServerTls};

/// The most connections at once; more wait until one ends.
const CONNECTIONS_MAX: usize = 512;
/// How long a browser may take to send the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long it may take to send the body.
const BODY_TIME_MAX: Duration = Duration::from_secs(60);
/// How often a silent connection is asked whether it still lives.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// From when on a connection over HTTP/2 takes no more requests. At twice this age any connection
/// ends.
const AGE_MAX: Duration = Duration::from_secs(600);
/// The most requests at once on a connection.
const STREAMS_MAX: u32 = 32;
/// How long to wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the console on `listener` until the future is dropped.
///
/// # Errors
/// The key of sessions cannot be used.
pub async fn serve(listener: TcpListener, settings: Settings) -> io::Result<()> {
    let tls = settings.tls;
    let is_https = tls.is_some() || settings.is_behind_tls;
    let sessions = Sessions::new(&settings.key, is_https);
    let sessions = sessions.ok_or_else(|| io::Error::other("the key of sessions has no use"))?;
    settings.local.opened().await;
    let console = Console {
        local: settings.local,
        is_policed: settings.is_policed,
        readiness: settings.readiness,
        about: settings.about,
        has_tls: tls.is_some(),
        is_https,
        sessions,
        feeds: Feeds::default(),
        link: settings.link,
        provider: settings.oidc.map(Provider::new),
    };
    let console = Arc::new(console);
    let _ending = Ending(Arc::clone(&console));
    let routes = routes(console);
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return Ok(());
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "a connection of the console could not be accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (routes, tls) = (routes.clone(), tls.clone());
        connections.spawn(async move {
            stream.set_nodelay(true).ok(); // one that is broken says so when it is served
            serve_one(stream, routes, tls).await;
            drop(slot);
        });
    }
}

/// Ends what outlives connections.
struct Ending(Shared);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.feeds.end();
    }
}

async fn http1<S>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: S,
) -> Result<(), hyper::Error>
where
    S: HttpService<Incoming, ResBody = Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(stream), service);
    timeout(2 * AGE_MAX, connection).await.unwrap_or(Ok(()))
}

/// Serves a connection over HTTP/2, unless its first request takes too long: `has_asked` says
/// whether there was one.
async fn http2<S>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: S,
    has_asked: &AtomicBool,
) -> Result<(), hyper::Error>
where
    S: HttpService<Incoming, ResBody = Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::Future: Send + 'static,
{
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .max_concurrent_streams(STREAMS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    if let Ok(served) = timeout(HEAD_TIME_MAX, connection.as_mut()).await {
        return served;
    }
    if !has_asked.load(Ordering::Relaxed) {
        return Ok(());
    }
    if let Ok(served) = timeout(AGE_MAX, connection.as_mut()).await {
        return served;
    }
    // Live pages are asked for again over another connection.
    connection.as_mut().graceful_shutdown();
    timeout(AGE_MAX, connection).await.unwrap_or(Ok(()))
}

async fn serve_one(stream: tokio::net::TcpStream, routes: Router, tls: Option<Arc<ServerTls>>) {
    let has_asked = AtomicBool::new(false);
    let service = service_fn(|request: Request<Incoming>| {
        has_asked.store(true, Ordering::Relaxed);
        routes.clone().oneshot(request.map(in_time))
    });
    let served = match tls {
        None => http1(stream, service).await,
        Some(tls) => {
            let Some((stream, caller)) = tls.accept_browser(stream).await else {
                return;
            };
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
            let serving = async {
                if is_http2 {
                    http2(stream, service, &has_asked).await
                } else {
                    http1(stream, service).await
                }
            };
            tokio::select! {
                served = serving => served,
                () = caller.refused() => Ok(()), // dropped, the connection is closed
            }
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection of the console failed");
    }
}

/// A body that must have arrived in time. Otherwise a browser that sends none would keep its
/// connection, and what has arrived, for ever.
fn in_time(body: Incoming) -> Body {
    Body::new(InTime { body, end: None })
}

struct InTime {
    body: Incoming,
    /// Set when it is read first: it may wait for its turn before.
    end: Option<Pin<Box<Sleep>>>,
}

impl hyper::body::Body for InTime {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        let end = self
            .end
            .get_or_insert_with(|| Box::pin(sleep(BODY_TIME_MAX)));
        ready!(end.as_mut().poll(cx));
        Poll::Ready(Some(Err("the body did not arrive in time".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
