//! A call from its request to the last byte of its answer: whether it may begin, its turn, and what
//! it holds meanwhile.

use std::{
    convert::Infallible,
    future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Instant,
};

use hyper::{
    HeaderMap, Request, Response,
    body::{Body as _, Bytes, Frame, Incoming, SizeHint},
};
use tokio::{sync::OwnedSemaphorePermit, time::timeout_at};
use tonic::{Status, body::Body};

use super::{
    door::Waiting,
    observed::Observed,
    overload,
    peer::{Call, Held, Peer},
    requests::{Arriving, Sender},
};
use crate::{
    grpc::{
        access::{Rpc, table},
        arrival::Arrival,
        services::Services,
        status::{CallError, status},
    },
    metrics::SHED,
    model::Problem,
    store::Executed,
    trace,
};

/// The most bytes of a request's headers, counted as HTTP/2 does (RFC 9113, section 6.5.2).
pub(super) const HEADER_BYTES_MAX: usize = 16 * 1024;
const HEADER_OVERHEAD_BYTES: usize = 32;

/// Larger answers are copied: the buffer in which an answer is encoded grows by doubling, so it may
/// be twice as large as what is counted.
const COPIED_BYTES_MIN: usize = 64 * 1024;

/// The path of our methods begins with this; health and reflection are answered in any case, as
/// long as they are few.
const OURS: &str = "/tombola.v1.";
/// What probes call. Other calls that are not ours may last for ever.
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// The methods of reflection take a stream of requests; all others take one.
const REFLECTION: &str = "/grpc.reflection.";

/// What a method's path says about its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    is_ours: bool,
    /// It is not ours, and may last for ever.
    is_lasting: bool,
    /// Its caller may send requests for ever.
    is_conversation: bool,
    /// It is for operators, who must be able to act however much callers do.
    is_operators: bool,
    /// Its answer may have hundreds of kilobytes.
    is_large: bool,
    /// It changes nothing, so its answer can be refused when it is ready.
    is_read: bool,
    /// It is an operator's change, whose answer is small.
    is_act: bool,
}

impl Kind {
    fn of(path: &str) -> Self {
        let ours = path.strip_prefix(OURS).unwrap_or_default();
        let (service, method) = ours.split_once('/').unwrap_or_default();
        let is_large = match service {
            "CampaignService" => true,
            "LotteryService" => method == "GetOdds",
            "EnvelopeService" => matches!(method, "GetEnvelope" | "ListGrabs"),
            "LedgerService" => method.starts_with("List"),
            _ => false,
        };
        let rpc = Rpc::of_path(path);
        let is_operators = rpc.is_some_and(table::is_operators);
        let is_read = rpc.is_some_and(table::is_read);
        Self {
            is_ours: !ours.is_empty(),
            is_lasting: ours.is_empty() && path != HEALTH_CHECK,
            is_conversation: path.starts_with(REFLECTION),
            is_operators,
            is_large,
            is_read: is_read && is_large,
            is_act: is_operators && !is_read,
        }
    }

    /// Whether its call is refused if too many arrive.
    fn is_bounded(self) -> bool {
        self.is_ours && !self.is_operators
    }

    /// Whose call it is.
    fn sender(self) -> Sender {
        match (self.is_ours, self.is_operators) {
            (false, _) => Sender::Anybody,
            (true, false) => Sender::Caller,
            (true, true) => Sender::Operator,
        }
    }
}

/// The answer of a call, in time. It is small: hyper moves it and keeps a task for each.
pub(super) type Answering =
    Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>> + Send>>;

/// A call that has arrived.
struct Arrived {
    request: Request<Incoming>,
    kind: Kind,
    at: Instant,
    observed: Observed,
    waiting: Waiting,
}

/// Answers a call of a connection. Its time begins now, not when the future is polled first.
pub(super) fn answer(
    peer: &Arc<Peer>,
    services: &Services,
    request: Request<Incoming>,
) -> Answering {
    let at = Instant::now();
    let path = request.uri().path();
    let kind = Kind::of(path);
    let observed = Observed::begin(path, at);
    let observed = observed.traced(peer.tracer(), &request, kind.is_ours);
    if kind.is_bounded() && peer.door().is_closed(at) {
        return Box::pin(future::ready(Ok(refused(peer, observed))));
    }
    let arrived = Arrived {
        request,
        kind,
        at,
        observed,
        waiting: peer.door().arrive(),
    };
    Box::pin(begin(Arc::clone(peer), services.clone(), arrived))
}

/// Refuses a call before anyone has looked at it.
fn refused(peer: &Arc<Peer>, mut observed: Observed) -> Response<Answer> {
    SHED.at_arrival.inc();
    observed.overloaded();
    overload::refusal().map(|body| Answer {
        body,
        ready: None,
        second: None,
        call: peer.begin(),
        observed: None,
    })
}

/// Begins a call. What is in this future is kept for every open call, so it is little: what is
/// large is in boxes. An `async fn` would keep its arguments twice.
fn begin(
    peer: Arc<Peer>,
    services: Services,
    arrived: Arrived,
) -> impl Future<Output = Result<Response<Answer>, Infallible>> + Send {
    let Arrived {
        mut request,
        kind,
        at,
        observed,
        waiting,
    } = arrived;
    async move {
        if !waiting.enter(at) && kind.is_bounded() {
            return Ok(refused(&peer, observed));
        }
        let call = match kind.is_ours {
            true => Some(peer.begin()),
            false => peer.begin_other(kind.is_lasting),
        };
        let Some(call) = call else {
            let refusal = status(&CallError::Unread, "");
            let answer = ready_answer(peer.begin(), None, refusal.into_http());
            return Ok(Answer::observe(answer, observed));
        };
        let arrival = Arrival::of(request.headers(), at, kind.is_operators);
        let turn = match refusal(&peer, kind, &arrival, request.headers()) {
            Some(refusal) => Err(refusal),
            None if kind.is_large => Box::pin(turn(&peer, &arrival)).await,
            None => Ok(None),
        };
        let turn = match turn {
            Ok(turn) => turn,
            Err(refusal) => {
                let answer = ready_answer(call, None, refusal.into_http());
                return Ok(Answer::observe(answer, observed));
            }
        };
        request.extensions_mut().insert(arrival);
        let (request, share) = match kind.is_conversation {
            true => (request.map(Body::new), None),
            false => {
                let (head, contents) = request.into_parts();
                let (contents, share) = Arriving::new(&peer, kind.sender(), contents);
                (Request::from_parts(head, Body::new(contents)), Some(share))
            }
        };
        let answered = pin!(services.call(request));
        let answer = trace::within(observed.scope(), answered).await;
        drop(share);
        let mut answer = ready_answer(call, turn, answer);
        if kind.is_read && peer.is_full() {
            drop(answer);
            let refusal = status(&CallError::Unread, "");
            answer = ready_answer(peer.begin(), None, refusal.into_http());
        }
        Ok(Answer::observe(answer, observed))
    }
}

/// Waits for a call's turn, for as long as its caller does.
async fn turn(peer: &Peer, arrival: &Arrival) -> Result<Option<OwnedSemaphorePermit>, Status> {
    let Some(timeout) = arrival.timeout else {
        return Ok(peer.turn().await);
    };
    let turn = timeout_at((arrival.at + timeout).into(), peer.turn());
    turn.await.map_err(|_| late())
}

fn late() -> Status {
    status(&CallError::TimedOut(Executed::No), "")
}

/// Why a call may not begin.
fn refusal(peer: &Peer, kind: Kind, arrival: &Arrival, headers: &HeaderMap) -> Option<Status> {
    let header_bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + HEADER_OVERHEAD_BYTES)
        .sum();
    if header_bytes > HEADER_BYTES_MAX {
        let kib = HEADER_BYTES_MAX / 1024;
        let path = "metadata".into();
        let message = format!("is too large: it must be no larger than {kib} KiB");
        return Some(status(&CallError::from(Problem { path, message }), ""));
    }
    if kind.is_ours && !peer.may_begin(kind.is_act) {
        return Some(status(&CallError::Unread, ""));
    }
    (kind.is_ours && arrival.is_late(Instant::now())).then(late)
}

/// An answer whose first message, if it is there already, is encoded and counted. A unary answer is
/// one message.
fn ready_answer(
    call: Call,
    mut turn: Option<OwnedSemaphorePermit>,
    answer: Response<Body>,
) -> Response<Answer> {
    let (head, mut body) = answer.into_parts();
    let (mut ready, mut second) = (None, None);
    if !body.is_end_stream() {
        let first = next_frame(&mut body);
        if is_copied(&first) {
            second = next_frame(&mut body).flatten();
            if matches!(&second, Some(Ok(frame)) if frame.is_trailers()) {
                body = Body::empty(); // the old one keeps its buffer
            }
        }
        ready = first.map(|frame| frame.map(|frame| counted(&call, turn.take(), frame)));
        second = second.map(|frame| counted(&call, None, frame));
    }
    let answer = Answer {
        body,
        ready,
        second,
        call,
        observed: None,
    };
    Response::from_parts(head, answer)
}

/// The body's next frame, or its end; none if it is not there yet. Nobody is woken by it: hyper
/// asks the body again.
fn next_frame(body: &mut Body) -> Option<Option<FrameResult>> {
    let mut cx = Context::from_waker(Waker::noop());
    match Pin::new(body).poll_frame(&mut cx) {
        Poll::Ready(frame) => Some(frame),
        Poll::Pending => None,
    }
}

/// Whether it is a frame with so much data that they are copied.
fn is_copied(frame: &Option<Option<FrameResult>>) -> bool {
    match frame {
        Some(Some(Ok(frame))) => {
            let data = frame.data_ref();
            data.is_some_and(|data| data.len() >= COPIED_BYTES_MIN)
        }
        _ => false,
    }
}

type FrameResult = Result<Frame<Bytes>, Status>;

/// The body of an answer.
pub(super) struct Answer {
    body: Body,
    /// What the body gave before anyone asked: its first frame, or its end.
    ready: Option<Option<FrameResult>>,
    /// What the body gave after a large first frame.
    second: Option<FrameResult>,
    call: Call,
    /// The call as metrics and traces see it, until its status is sent.
    observed: Option<Observed>,
}

impl Answer {
    /// Counts the call when its status is sent, or at once if there is nothing but a status.
    fn observe(answer: Response<Self>, mut observed: Observed) -> Response<Self> {
        let is_status = observed.note(answer.headers());
        answer.map(|answer| Self {
            observed: (!is_status).then_some(observed),
            ..answer
        })
    }

    /// Counts the call if this frame has its status.
    fn note(&mut self, frame: &FrameResult) {
        let trailers = frame.as_ref().ok().and_then(Frame::trailers_ref);
        if let (Some(observed), Some(trailers)) = (&mut self.observed, trailers) {
            observed.note(trailers);
            self.observed = None;
        }
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<FrameResult>> {
        if let Some(frame) = self.ready.take() {
            return Poll::Ready(frame);
        }
        if let Some(frame) = self.second.take() {
            return Poll::Ready(Some(frame));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| counted(&self.call, None, frame)))
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FrameResult>> {
        let frame = ready!(self.next(cx));
        if let Some(frame) = &frame {
            self.note(frame);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.ready {
            Some(frame) => frame.is_none(),
            None => self.second.is_none() && self.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// A frame whose bytes are counted until the last of them is written to the socket.
fn counted(call: &Call, turn: Option<OwnedSemaphorePermit>, frame: FrameResult) -> FrameResult {
    let peer = call.peer();
    frame.map(|frame| {
        frame.map_data(|bytes| {
            let bytes = match bytes.len() < COPIED_BYTES_MIN {
                true => bytes,
                false => Bytes::copy_from_slice(&bytes),
            };
            let _held = peer.hold(bytes.len(), turn);
            Bytes::from_owner(Unsent { bytes, _held })
        })
    })
}

/// Bytes that are counted while they exist.
struct Unsent {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_with_large_answers_take_turns_and_only_reads_are_refused_late() {
        for (path, is_large, is_read) in [
            ("LotteryService/Draw", false, false),
            ("LotteryService/GetDraw", false, false),
            ("LotteryService/GetOdds", true, true),
            ("CampaignService/ListCampaigns", true, true),
            ("CampaignService/ApplyCampaign", true, false),
            ("EnvelopeService/ListGrabs", true, true),
            ("LedgerService/ListWins", true, true),
            ("LedgerService/RevokeWin", false, false),
        ] {
            let kind = Kind::of(&format!("{OURS}{path}"));
            assert_eq!((kind.is_large, kind.is_read), (is_large, is_read), "{path}");
            assert!(kind.is_ours);
        }
        for path in [HEALTH_CHECK, "/grpc.health.v1.Health/Watch", "/"] {
            let kind = Kind::of(path);
            assert!(!(kind.is_ours || kind.is_operators || kind.is_large || kind.is_read));
            assert_eq!(kind.is_lasting, path != HEALTH_CHECK);
        }
    }

    #[test]
    fn what_operators_must_be_able_to_do_is_theirs_in_every_service() {
        let services = "LotteryService/Draw LotteryService/GrantBonus LotteryService/GetOdds \
                        EnvelopeService/GrabEnvelope EnvelopeService/CreateEnvelope \
                        LedgerService/ListWins LedgerService/MarkDelivered";
        let acts = "CampaignService/PauseCampaign CampaignService/GrantDraws \
                    EnvelopeService/CancelEnvelope LedgerService/RevokeWin \
                    LedgerService/ForgetUser AdminService/Backup";
        let reads = "CampaignService/GetStats LedgerService/ListOperations \
                     LedgerService/WatchEntries CampaignService/ListCodes";
        for (paths, is_operators, is_act) in [
            (services, false, false),
            (acts, true, true),
            (reads, true, false),
        ] {
            for path in paths.split_whitespace() {
                let kind = Kind::of(&format!("{OURS}{path}"));
                let found = (kind.is_operators, kind.is_act);
                assert_eq!(found, (is_operators, is_act), "{path}");
            }
        }
    }
}
