//! The admin port: probes and metrics over plain HTTP, for the machinery that runs the service. It
//! is not for callers.
//!
//! | path | 200 means | otherwise |
//! |---|---|---|
//! | `/livez` | the process works, whatever its store does | |
//! | `/startupz` | the store is open | 503 |
//! | `/readyz` | draws and grabs work, at least in some partitions | 503, and a line that says why |
//! | `/metrics` | the metrics, in the text format of Prometheus | |

use std::{pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{Request, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tower::ServiceExt as _;
use tracing::{debug, warn};

use crate::{
    grpc::{
        gauges::Gauges,
        readiness::{Phase, Readiness},
    },
    metrics,
};

/// The most connections at once; more wait until one ends.
const CONNECTIONS_MAX: usize = 128;
/// How long a client may take to send the head of a request, also of its next one.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection may last, whatever its client does.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(60);
/// How long to wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers on `listener` until the future is dropped.
pub async fn serve(listener: TcpListener, readiness: Readiness, gauges: Gauges) {
    let metrics = Router::new()
        .route("/metrics", get(measured))
        .with_state(gauges);
    let routes = Router::new()
        .route("/livez", get(live))
        .route("/startupz", get(started))
        .route("/readyz", get(ready))
        .with_state(readiness)
        .merge(metrics);
    serve_routes(listener, routes, CONNECTIONS_MAX).await;
}

/// Answers so many connections at once. Each of them ends within a bounded time, so clients that
/// are slow or silent keep no probe out for long.
async fn serve_routes(listener: TcpListener, routes: Router, connections_max: usize) {
    let slots = Arc::new(Semaphore::new(connections_max));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "a connection of the admin port could not be accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let routes = routes.clone();
        connections.spawn(async move {
            serve_stream(stream, routes).await;
            drop(slot);
        });
    }
}

async fn serve_stream<S>(stream: S, routes: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        routes.clone().oneshot(request.map(Body::new))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let served = match timeout(CONNECTION_TIME_MAX, connection.as_mut()).await {
        Ok(served) => served,
        Err(_) => {
            connection.as_mut().graceful_shutdown();
            timeout(HEAD_TIME_MAX, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection of the admin port failed");
    }
}

async fn live() -> &'static str {
    "live\n"
}

async fn started(State(readiness): State<Readiness>) -> (StatusCode, String) {
    match readiness.phase() {
        phase @ (Phase::Starting | Phase::Waiting(_)) => {
            (StatusCode::SERVICE_UNAVAILABLE, line(&not_open(&phase)))
        }
        Phase::Ready | Phase::Impaired(_) | Phase::NotReady(_) | Phase::Stopping => {
            (StatusCode::OK, line("started"))
        }
    }
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, String) {
    let cause = match readiness.phase() {
        Phase::Ready => return (StatusCode::OK, line("ready")),
        Phase::Impaired(which) => return (StatusCode::OK, line(&format!("ready, but {which}"))),
        phase @ (Phase::Starting | Phase::Waiting(_)) => not_open(&phase),
        Phase::NotReady(cause) => cause,
        Phase::Stopping => "the service is stopping".into(),
    };
    (StatusCode::SERVICE_UNAVAILABLE, line(&cause))
}

/// Why the store is not open yet, as far as that is known.
fn not_open(phase: &Phase) -> String {
    match phase {
        Phase::Waiting(cause) => format!("the store is not open yet: {cause}"),
        _ => "the store is not open yet".into(),
    }
}

/// A text as one line.
fn line(text: &str) -> String {
    format!("{}\n", text.replace('\n', " "))
}

async fn measured(State(gauges): State<Gauges>) -> Response {
    gauges.refresh().await;
    match metrics::text() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    use super::*;

    async fn ask(stream: &mut TcpStream, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
    }

    async fn is_answered(stream: &mut TcpStream) {
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 404");
    }

    #[tokio::test]
    async fn a_connection_beyond_the_bound_waits_until_one_ends() {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let routes = Router::new().fallback(move |request: Request<Body>| {
            seen.lock().unwrap().push(request.uri().path().to_owned());
            async { StatusCode::NOT_FOUND }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve_routes(listener, routes, 2));
        let connect = || async { TcpStream::connect(address).await.unwrap() };
        let (mut one, mut two) = (connect().await, connect().await);
        for (stream, path) in [(&mut one, "/one"), (&mut two, "/two")] {
            ask(stream, path).await;
            is_answered(stream).await;
        }
        let mut third = connect().await;
        ask(&mut third, "/third").await;
        // The answers to these come after what the server would have done for the third.
        for number in 0..20 {
            ask(&mut one, &format!("/{number}")).await;
            assert!(one.read(&mut [0; 4096]).await.unwrap() > 0);
        }
        assert!(!asked.lock().unwrap().contains(&"/third".to_owned()));
        drop(one);
        is_answered(&mut third).await;
        serving.abort();
    }

    /// The head never ends. The time passes by itself while nobody works.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_ends_its_request_is_closed() {
        let (mut client, server) = tokio::io::duplex(1024);
        client
            .write_all(b"GET /livez HTTP/1.1\r\nX: ")
            .await
            .unwrap();
        serve_stream(server, Router::new()).await;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
    }
}
