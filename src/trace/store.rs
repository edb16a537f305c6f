//! Spans of what stores do.
//!
//! A batch does the work of many calls, so its span is below none of them: it begins a trace, and
//! the span of each recorded call **links** to it. What a store does for one call alone is a span
//! below that of the call. Both are recorded only for calls that are.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Instant, SystemTime},
};

use super::{
    ids::{SpanId, TraceId},
    scope::{self, Scope},
    span::{Head, Kind, Span, Value},
};

/// What a store does, in OpenTelemetry's terms for databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A script at Redis, by its name.
    Script(&'static str),
    /// A transaction of the embedded store that writes.
    Transaction,
    /// One that reads.
    Reading,
}

/// The file of the embedded store.
const DATABASE: &str = "tombola.sqlite3";

impl Operation {
    fn name(self) -> Cow<'static, str> {
        match self {
            Self::Script(name) => format!("EVALSHA {name}").into(),
            Self::Transaction => "BATCH tombola.sqlite3".into(),
            Self::Reading => "SELECT tombola.sqlite3".into(),
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Script(_) => Kind::Client,
            Self::Transaction | Self::Reading => Kind::Internal,
        }
    }

    fn attributes(self) -> Vec<(&'static str, Value)> {
        let (system, operation, target, name) = match self {
            Self::Script(name) => ("redis", "EVALSHA", "db.stored_procedure.name", name),
            Self::Transaction => ("sqlite", "BATCH", "db.namespace", DATABASE),
            Self::Reading => ("sqlite", "SELECT", "db.namespace", DATABASE),
        };
        vec![
            ("db.system.name", Value::Name(system)),
            ("db.operation.name", Value::Name(operation)),
            (target, Value::Name(name)),
        ]
    }

    /// A span in the trace of this head, for a call.
    fn begin(self, head: Head, call: &Span) -> StoreSpan {
        let head = Head {
            name: self.name(),
            kind: self.kind(),
            begun_at: SystemTime::now(),
            ..head
        };
        let queue = call.queue().clone();
        let span = Span::begin(head, Instant::now(), self.attributes(), queue);
        StoreSpan(Some(span))
    }
}

/// The span of a batch that begins now, to which those of its recorded calls are linked; none if no
/// call is recorded, or has room for a link.
pub(crate) fn batch<'c>(
    operation: Operation,
    calls: impl Iterator<Item = Option<&'c Arc<Span>>> + Clone,
) -> Option<StoreSpan> {
    let first = calls.clone().flatten().next()?;
    let head = Head {
        trace: TraceId::random(),
        id: SpanId::random(),
        parent: None,
        flags: super::OWN_FLAGS,
        state: String::new(),
        ..first.head().clone()
    };
    let (mut count, mut is_linked) = (0, false);
    for call in calls {
        count += 1;
        is_linked |= call.is_some_and(|call| call.link((head.trace, head.id)));
    }
    if !is_linked {
        return None;
    }
    let span = operation.begin(head, first);
    // One call is no batch, by the conventions.
    if let Some(span) = span.0.as_ref().filter(|_| count > 1) {
        span.note(("db.operation.batch.size", Value::Number(count)));
    }
    Some(span)
}

/// The span of what a store does now for one call alone, below that of the call; none if the call
/// is not recorded, or has too many. Within a batch nothing has a span of its own.
pub(crate) fn for_call(operation: Operation) -> Option<StoreSpan> {
    let begin = |call: &Arc<Span>| {
        let has_own = call.is_call() && call.may_have_child();
        let head = || Head {
            id: SpanId::random(),
            parent: Some((call.ids().1, false)),
            ..call.head().clone()
        };
        has_own.then(|| operation.begin(head(), call))
    };
    scope::with_current(begin).flatten()
}

/// Notes in the current span of a store that something happened.
pub(crate) fn event(name: &'static str) {
    scope::with_current(|span| {
        if !span.is_call() {
            span.event(name);
        }
    });
}

/// The span of what a store does. One that is dropped was cancelled.
pub(crate) struct StoreSpan(Option<Arc<Span>>);

impl StoreSpan {
    /// The scope of the work.
    pub(crate) fn scope(&self) -> Option<Scope> {
        self.0.clone().map(Scope::Recorded)
    }

    /// Does the work on this thread.
    pub(crate) fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(span) => scope::enter(span, work),
            None => work(),
        }
    }

    /// The work is done, or has failed for this reason.
    pub(crate) fn end(mut self, error: Option<&'static str>) {
        self.finish(error);
    }

    fn finish(&mut self, error: Option<&'static str>) {
        if let Some(span) = self.0.take() {
            let kind = error.map(|error| ("error.type", Value::Name(error)));
            span.end(kind.into_iter().collect(), error);
        }
    }
}

impl Drop for StoreSpan {
    fn drop(&mut self) {
        self.finish(Some("cancelled"));
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
