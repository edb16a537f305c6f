//! Connections to a service: HTTP/2 and nothing else. The load shares the machine with what it
//! measures, and the layers of a usual client (reconnecting, queueing, balancing) take as much of a
//! core as the service's answer does.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use h2::{
    RecvStream,
    client::{self, SendRequest},
};
use http::{Request, Response, Uri, uri};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tonic::{
    Status,
    body::Body,
    codegen::{Service, StdError},
};

use crate::{failure::Fault, tls::Tls};

/// How many bytes of answers may be under way, on a stream and on a connection.
const WINDOW: u32 = 4 << 20;

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct Link {
    sender: SendRequest<Bytes>,
    origin: Uri,
    time_max: Option<Duration>,
}

impl Link {
    /// Connects to a server at `http://HOST:PORT`, or `https://HOST:PORT` with TLS, within a time.
    ///
    /// # Errors
    /// What went wrong, without the URL.
    pub(crate) async fn connect(
        url: &str,
        tls: Option<&Tls>,
        within: Duration,
    ) -> Result<Self, Fault> {
        let uri: Uri = url.parse()?;
        let connected = timeout(within, Self::open(&uri, tls)).await;
        let sender = connected.map_err(|_| format!("no connection within {within:?}"))??;
        Ok(Self {
            sender,
            origin: uri,
            time_max: None,
        })
    }

    async fn open(uri: &Uri, tls: Option<&Tls>) -> Result<SendRequest<Bytes>, Fault> {
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri
            .port_u16()
            .unwrap_or(if tls.is_some() { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        match tls {
            None => speak(stream).await,
            Some(tls) => speak(tls.begin(host, stream).await?).await,
        }
    }

    /// The same connection, for calls that may take this long.
    pub(crate) fn with_time_max(mut self, time_max: Duration) -> Self {
        self.time_max = Some(time_max);
        self
    }

    /// The URI of a method at this server.
    fn uri(&self, method: &Uri) -> Result<Uri, http::uri::InvalidUriParts> {
        let mut parts = uri::Parts::default();
        parts.scheme = self.origin.scheme().cloned();
        parts.authority = self.origin.authority().cloned();
        parts.path_and_query = method.path_and_query().cloned();
        Uri::from_parts(parts)
    }
}

/// Begins to speak HTTP/2, and goes on until all clones of the connection are gone.
async fn speak<S>(stream: S) -> Result<SendRequest<Bytes>, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = client::Builder::new();
    builder
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .enable_push(false);
    let (sender, connection) = builder.handshake(stream).await?;
    // Calls on a connection that fails notice it themselves.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

impl Service<Request<Body>> for Link {
    type Response = Response<Received>;
    type Error = StdError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, StdError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        self.sender.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut head, body) = request.into_parts();
        let (uri, time_max) = (self.uri(&head.uri), self.time_max);
        // The one that is ready is used, and its clone waits until it is.
        let next = self.sender.clone();
        let sender = std::mem::replace(&mut self.sender, next);
        Box::pin(async move {
            head.uri = uri?;
            let answer = send(sender, Request::from_parts(head, ()), body);
            match time_max {
                None => answer.await,
                Some(time_max) => timeout(time_max, answer).await.unwrap_or_else(|_| {
                    let text = format!("no answer within {time_max:?}");
                    Err(Status::deadline_exceeded(text).into())
                }),
            }
        })
    }
}

/// Sends a request, and waits for the headers of its answer.
async fn send(
    mut sender: SendRequest<Bytes>,
    head: Request<()>,
    mut body: Body,
) -> Result<Response<Received>, StdError> {
    let (answer, mut stream) = sender.send_request(head, false)?;
    let mut last = Bytes::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            // A message is encoded into a buffer of 8 KiB, which is free again with this copy.
            let before = std::mem::replace(&mut last, Bytes::copy_from_slice(&data));
            if !before.is_empty() {
                stream.send_data(before, false)?;
            }
        }
    }
    stream.send_data(last, true)?;
    Ok(answer.await?.map(Received))
}

/// The body of an answer.
pub(crate) struct Received(RecvStream);

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let stream = &mut self.0;
        if let Some(data) = ready!(stream.poll_data(cx)) {
            let frame = data.and_then(|data| {
                stream.flow_control().release_capacity(data.len())?;
                Ok(Frame::data(data))
            });
            return Poll::Ready(Some(frame));
        }
        let trailers = ready!(stream.poll_trailers(cx));
        Poll::Ready(trailers.map(|some| some.map(Frame::trailers)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}
