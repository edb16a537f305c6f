//! The contents of a request while they arrive. Whoever sends them decides how much comes and when
//! it ends, so both are bounded: contents that are more than what every open call counts take part
//! in a budget until the call has its answer, and all contents must be there in time.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::peer::{CALL_BYTES, Peer, Taken};
use crate::{
    grpc::{
        desk::{CALLER_TIME_MAX, OPERATOR_TIME_MAX},
        status::{CallError, status},
    },
    store::{Executed, StoreError},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Whose contents they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// Somebody without a credential.
    Anybody,
    Caller,
    Operator,
}

impl Sender {
    /// The most bytes of contents above [`CALL_BYTES`] on all connections with which more may come.
    /// The last quarter is for operators.
    pub(super) fn bytes_max(self) -> usize {
        match self {
            Self::Anybody => 0,
            Self::Caller => 48 << 20,
            Self::Operator => 64 << 20,
        }
    }

    /// Why no more may come. What is too large for any call is refused by the service's own bound,
    /// which this code stands for (see `unread`).
    fn refusal(self) -> Status {
        match self {
            Self::Anybody => Status::out_of_range(""),
            Self::Caller | Self::Operator => status(&StoreError::Overloaded.into(), ""),
        }
    }

    /// How long contents may take.
    pub(super) fn time_max(self) -> Duration {
        match self {
            Self::Anybody | Self::Caller => CALLER_TIME_MAX,
            Self::Operator => OPERATOR_TIME_MAX,
        }
    }
}

/// What a call's contents hold of the budget until its last clone is dropped.
#[derive(Clone, Default)]
pub(super) struct Share(Arc<Mutex<Option<Taken>>>);

impl Share {
    fn lock(&self) -> MutexGuard<'_, Option<Taken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Contents that arrive.
pub(super) struct Arriving<B> {
    contents: B,
    sender: Sender,
    bytes: usize,
    share: Share,
    peer: Arc<Peer>,
    /// Set when they are waited for: their call may have waited for its turn before.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<B> Arriving<B> {
    /// Contents of a call, and their share.
    pub(super) fn new(peer: &Arc<Peer>, sender: Sender, contents: B) -> (Self, Share) {
        let share = Share::default();
        let arriving = Self {
            contents,
            sender,
            bytes: 0,
            share: share.clone(),
            peer: Arc::clone(peer),
            timer: None,
        };
        (arriving, share)
    }

    /// Counts bytes that came; false if they are too many.
    fn count(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        if self.bytes <= CALL_BYTES {
            return true;
        }
        let bytes_max = self.sender.bytes_max();
        match &mut *self.share.lock() {
            Some(taken) => taken.grow(bytes, bytes_max),
            empty => {
                *empty = self.peer.take(self.bytes, bytes_max);
                empty.is_some()
            }
        }
    }
}

impl<B> Body for Arriving<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.contents).poll_frame(cx) else {
            let time = self.sender.time_max();
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(time)));
            ready!(timer.as_mut().poll(cx));
            let late = CallError::TimedOut(Executed::No);
            return Poll::Ready(Some(Err(status(&late, ""))));
        };
        let Some(frame) = frame else {
            return Poll::Ready(None);
        };
        let frame = frame.map_err(|error| Status::from_error(error.into()))?;
        if let Some(data) = frame.data_ref()
            && !self.count(data.len())
        {
            return Poll::Ready(Some(Err(self.sender.refusal())));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.contents.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.contents.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, convert::Infallible, future::poll_fn};

    use tonic::Code;
    use tonic_types::StatusExt as _;

    use super::*;

    /// Contents that come in these parts and then do not end.
    struct Endless(VecDeque<usize>);

    impl Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.pop_front() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(vec![0; bytes].into())))),
                None => Poll::Pending,
            }
        }
    }

    fn arriving(peer: &Arc<Peer>, sender: Sender, parts: &[usize]) -> (Arriving<Endless>, Share) {
        Arriving::new(peer, sender, Endless(parts.iter().copied().collect()))
    }

    /// How many parts come, and what ends them.
    async fn read(contents: &mut Arriving<Endless>) -> (usize, Code, String) {
        let mut parts = 0;
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut *contents).poll_frame(cx)).await;
            let Err(status) = frame.expect("they do not end") else {
                parts += 1;
                continue;
            };
            let details = status.get_error_details();
            let executed = details.error_info().map(|info| &info.metadata["executed"]);
            return (parts, status.code(), executed.cloned().unwrap_or_default());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn contents_must_arrive_while_their_call_may_last() {
        let peer = Peer::new(&Arc::default());
        for (sender, seconds) in [
            (Sender::Anybody, 10),
            (Sender::Caller, 10),
            (Sender::Operator, 60),
        ] {
            let start = tokio::time::Instant::now();
            let (mut contents, _) = arriving(&peer, sender, &[5, CALL_BYTES - 5]);
            let late = (2, Code::DeadlineExceeded, "no".to_owned());
            assert_eq!(read(&mut contents).await, late);
            assert_eq!(start.elapsed().as_secs(), seconds, "{sender:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_contents_are_bounded_on_a_connection_and_over_all() {
        const MIB: usize = 1 << 20;
        let refused = |parts| (parts, Code::Unavailable, "no".to_owned());
        let late = |parts| (parts, Code::DeadlineExceeded, "no".to_owned());
        let peers = Arc::default();
        let peer = Peer::new(&peers);
        let (mut contents, _) = arriving(&peer, Sender::Anybody, &[CALL_BYTES, 1]);
        let refusal = (1, Code::OutOfRange, String::new());
        assert_eq!(read(&mut contents).await, refusal, "no credential");
        let mut held = Vec::new();
        for (sender, connections) in [(Sender::Caller, 3), (Sender::Operator, 1)] {
            for _ in 0..connections {
                let peer = Peer::new(&peers);
                let (mut contents, share) = arriving(&peer, sender, &[MIB; 17]);
                assert_eq!(read(&mut contents).await, refused(16), "a connection");
                held.push(share);
            }
            let (mut contents, _) = arriving(&peer, sender, &[CALL_BYTES + 1]);
            assert_eq!(read(&mut contents).await, refused(0), "all");
        }
        let (mut contents, _) = arriving(&peer, Sender::Caller, &[CALL_BYTES]);
        assert_eq!(read(&mut contents).await, late(1), "small ones come on");
        drop(held);
        let (mut contents, share) = arriving(&peer, Sender::Caller, &[MIB; 16]);
        assert_eq!(read(&mut contents).await, late(16));
        drop(contents);
        let (mut others, _) = arriving(&peer, Sender::Caller, &[MIB]);
        assert_eq!(read(&mut others).await, refused(0), "until the answer");
        drop(share);
        let (mut others, _) = arriving(&peer, Sender::Caller, &[MIB]);
        assert_eq!(read(&mut others).await, late(1));
    }
}
