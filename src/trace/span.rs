//! A span while it is recorded: of a call, or of what a store does for calls.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use super::{
    ids::{SpanId, TraceId},
    queue::Queue,
};

/// The most links and events of a span, and the most spans below that of a call: a call of an
/// operator may take thousands of steps.
const LINKS_MAX: usize = 32;
const EVENTS_MAX: usize = 16;
const CHILDREN_MAX: u32 = 64;

/// A span's kind, as far as they are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A call of ours.
    Server,
    /// A call of another server.
    Client,
    /// Work within the process.
    Internal,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Name(&'static str),
    Text(String),
    Number(i64),
}

/// What is known of a span when it begins.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    /// The span above, and whether another process has it.
    pub(super) parent: Option<(SpanId, bool)>,
    /// The flags of the trace.
    pub(super) flags: u8,
    /// The caller's `tracestate`.
    pub(super) state: String,
    pub(super) name: Cow<'static, str>,
    pub(super) kind: Kind,
    pub(super) begun_at: SystemTime,
}

/// What is learned of it later.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub(super) attributes: Vec<(&'static str, Value)>,
    /// Spans of other traces that did a part of the work.
    pub(super) links: Vec<(TraceId, SpanId)>,
    pub(super) links_dropped: u32,
    /// Names, and the times since the span began.
    pub(super) events: Vec<(&'static str, Duration)>,
    pub(super) events_dropped: u32,
    children: u32,
}

/// A span that has ended.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) head: Head,
    pub(super) took: Duration,
    pub(super) noted: Noted,
    /// The text of its error, if it ended with one.
    pub(super) error: Option<&'static str>,
}

/// A span that is recorded.
pub(crate) struct Span {
    head: Head,
    begun: Instant,
    noted: Mutex<Noted>,
    queue: Queue,
}

impl Span {
    /// A span that began at this time.
    pub(super) fn begin(
        head: Head,
        begun: Instant,
        attributes: Vec<(&'static str, Value)>,
        queue: Queue,
    ) -> Arc<Self> {
        Arc::new(Self {
            head,
            begun,
            noted: Mutex::new(Noted {
                attributes,
                ..Noted::default()
            }),
            queue,
        })
    }

    /// The ids of its trace and its own.
    pub(super) fn ids(&self) -> (TraceId, SpanId) {
        (self.head.trace, self.head.id)
    }

    /// The trace that it belongs to, with flags and state.
    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// Where it goes when it ends.
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Whether it is that of a call.
    pub(super) fn is_call(&self) -> bool {
        self.head.kind == Kind::Server
    }

    /// Names a span of another trace that does a part of the work; false if there are too many.
    pub(super) fn link(&self, span: (TraceId, SpanId)) -> bool {
        let mut noted = self.noted();
        let has_room = noted.links.len() < LINKS_MAX;
        match has_room {
            true => noted.links.push(span),
            false => noted.links_dropped += 1,
        }
        has_room
    }

    /// Notes an attribute.
    pub(super) fn note(&self, attribute: (&'static str, Value)) {
        self.noted().attributes.push(attribute);
    }

    /// Notes that something happened.
    pub(super) fn event(&self, name: &'static str) {
        let mut noted = self.noted();
        match noted.events.len() < EVENTS_MAX {
            true => noted.events.push((name, self.begun.elapsed())),
            false => noted.events_dropped += 1,
        }
    }

    /// Whether there may be one more span below it.
    pub(super) fn may_have_child(&self) -> bool {
        let mut noted = self.noted();
        noted.children += 1;
        noted.children <= CHILDREN_MAX
    }

    /// Ends the span and hands it over for export.
    pub(super) fn end(&self, more: Vec<(&'static str, Value)>, error: Option<&'static str>) {
        let mut noted = std::mem::take(&mut *self.noted());
        noted.attributes.extend(more);
        let left_out = noted.children.saturating_sub(CHILDREN_MAX);
        if left_out > 0 {
            let count = Value::Number(left_out.into());
            noted.attributes.push(("tombola.spans_left_out", count));
        }
        self.queue.push(Record {
            head: self.head.clone(),
            took: self.begun.elapsed(),
            noted,
            error,
        });
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
