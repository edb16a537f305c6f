//! The stream under a connection. It notices when the client begins to speak HTTP/2, and when it
//! takes no more bytes. It writes the answers that are ready at the same time together.

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

/// How far the connection's task is in its turn: it reads what there is, then it writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It has written nothing.
    Fresh,
    /// It would have written, and let others go first.
    Waited,
    /// It has written: more goes out at once.
    Written,
}

/// A stream and the connection that it belongs to.
pub(super) struct Wire<S> {
    stream: S,
    peer: Arc<Peer>,
    /// Bytes of the preface that are still to come.
    preface_left: usize,
    is_blocked: bool,
    turn: Turn,
}

impl<S> Wire<S> {
    pub(super) fn new(stream: S, peer: Arc<Peer>) -> Self {
        Self {
            stream,
            peer,
            preface_left: PREFACE_BYTES,
            is_blocked: false,
            turn: Turn::Fresh,
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

    /// Whether a write waits, once, until all tasks that are ready now have had their turn. A batch
    /// of a store answers many calls of a connection, and HTTP/2 would write each answer by itself:
    /// the task of the connection comes right after the call that woke it.
    fn waits(&mut self, cx: &Context<'_>) -> bool {
        let waits = self.turn == Turn::Fresh && self.peer.has_open_calls();
        if waits {
            self.turn = Turn::Waited;
            // A task that wakes itself goes to the end.
            cx.waker().wake_by_ref();
        }
        waits
    }

    fn has_written<T>(&mut self, written: Poll<T>) -> Poll<T> {
        if written.is_ready() {
            self.turn = Turn::Written;
        }
        self.written(written)
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
        if self.turn == Turn::Written {
            self.turn = Turn::Fresh;
        }
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
        if self.waits(cx) {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.has_written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.waits(cx) {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.has_written(written)
    }

    /// No: answers of up to 1 KiB are then copied behind those before them, instead of up to 256
    /// bytes, and the others end a write.
    fn is_write_vectored(&self) -> bool {
        false
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_write_waits_once_for_the_answers_of_other_open_calls() {
        let (stream, mut client) = duplex(64);
        let peer = Peer::new(&Arc::default());
        let mut wire = Wire::new(stream, Arc::clone(&peer));
        let cx = || Context::from_waker(Waker::noop());
        let write =
            |wire: &mut Wire<_>, bytes: &[u8]| match Pin::new(wire).poll_write(&mut cx(), bytes) {
                Poll::Ready(written) => written.unwrap(),
                Poll::Pending => 0,
            };
        assert_eq!(write(&mut wire, b"alone"), 5);
        let call = peer.begin();
        assert_eq!(write(&mut wire, b"more"), 4, "the turn goes on");
        let read = |wire: &mut Wire<_>| {
            let read = Pin::new(wire).poll_read(&mut cx(), &mut ReadBuf::new(&mut [0; 8]));
            assert!(read.is_pending());
        };
        read(&mut wire);
        assert_eq!(write(&mut wire, b"one"), 0);
        read(&mut wire);
        assert_eq!(
            [b"one", b"two"].map(|bytes| write(&mut wire, bytes)),
            [3, 3]
        );
        drop(call);
        drop(wire);
        let mut arrived = String::new();
        client.read_to_string(&mut arrived).await.unwrap();
        assert_eq!(arrived, "alonemoreonetwo");
    }
}
