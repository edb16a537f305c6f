//! The stream under a connection. It notices when the client begins to speak HTTP/2, and when it
//! takes no more bytes.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::peer::Peer;

/// The bytes with which a client begins (RFC 9113, section 3.4). What they are is checked by the
/// layer above.
const PREFACE_BYTES: usize = 24;

/// A stream and the connection that it belongs to.
pub(super) struct Wire<S> {
    stream: S,
    peer: Arc<Peer>,
    /// Bytes of the preface that are still to come.
    preface_left: usize,
    is_blocked: bool,
}

impl<S> Wire<S> {
    pub(super) fn new(stream: S, peer: Arc<Peer>) -> Self {
        Self {
            stream,
            peer,
            preface_left: PREFACE_BYTES,
            is_blocked: false,
        }
    }

    fn has_read(&mut self, bytes: usize) {
        if self.preface_left > 0 && bytes > 0 {
            self.preface_left = self.preface_left.saturating_sub(bytes);
            if self.preface_left == 0 {
                self.peer.spoke();
            }
        }
    }

    fn written<T>(&mut self, written: Poll<T>) -> Poll<T> {
        if written.is_pending() != self.is_blocked {
            self.is_blocked = written.is_pending();
            self.peer.blocked(self.is_blocked);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.has_read(buffer.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
