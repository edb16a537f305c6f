//! The span of a call, by OpenTelemetry's conventions for RPCs (version 1.45). It names neither
//! users nor requests nor callers: what it has besides method, times and status is the name under
//! which the caller reached the service.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Instant, SystemTime},
};

use hyper::{HeaderMap, http::uri::Authority};

use super::{
    ids::{SpanId, TraceId},
    parent::{self, Parent},
    queue::Queue,
    sampler::Sampler,
    scope::Scope,
    span::{Head, Kind, Span, Value},
};

/// The name of spans of unknown methods, and what their `rpc.method` is.
const UNKNOWN_NAME: &str = "grpc";
const UNKNOWN_METHOD: &str = "_OTHER";

/// The longest name of a server that is kept.
const HOST_BYTES_MAX: usize = 255;

/// Records calls. Without one, no call is recorded, and none costs anything.
#[derive(Clone)]
pub struct Tracer(Arc<Parts>);

struct Parts {
    sampler: Sampler,
    queue: Queue,
}

/// A call that has arrived.
pub(crate) struct Arrived<'a> {
    /// The full name of its method; none if there is no such method.
    pub(crate) method: Option<&'static str>,
    /// Its caller may not have decided whether it is recorded: then the share of calls decides. If
    /// false, only callers decide, as for health.
    pub(crate) is_of_share: bool,
    pub(crate) headers: &'a HeaderMap,
    /// The server's name as the caller knows it.
    pub(crate) authority: Option<&'a Authority>,
    pub(crate) at: Instant,
}

impl Tracer {
    pub(super) fn new(sampler: Sampler, queue: Queue) -> Self {
        Self(Arc::new(Parts { sampler, queue }))
    }

    /// The trace of a call; none if it belongs to none. Allocates nothing unless it is recorded.
    pub(crate) fn call(&self, arrived: &Arrived<'_>) -> Option<CallTrace> {
        let Some(parent) = Parent::of(arrived.headers) else {
            let is_taken = arrived.is_of_share && self.0.sampler.takes();
            return is_taken.then(|| self.record(arrived, None));
        };
        if parent.is_sampled() && self.0.sampler.follows_caller() {
            return Some(self.record(arrived, Some(parent)));
        }
        Some(CallTrace(Scope::Unrecorded(parent.trace)))
    }

    fn record(&self, arrived: &Arrived<'_>, parent: Option<Parent>) -> CallTrace {
        let mut attributes = vec![
            ("rpc.system.name", Value::Name("grpc")),
            (
                "rpc.method",
                Value::Name(arrived.method.unwrap_or(UNKNOWN_METHOD)),
            ),
        ];
        let named = arrived
            .authority
            .filter(|it| it.host().len() <= HOST_BYTES_MAX);
        if let Some(server) = named {
            let port = server.port_u16();
            attributes.push(("server.address", Value::Text(server.host().into())));
            attributes.extend(port.map(|port| ("server.port", Value::Number(port.into()))));
        }
        let head = Head {
            trace: parent.map_or_else(TraceId::random, |parent| parent.trace),
            id: SpanId::random(),
            parent: parent.map(|parent| (parent.span, true)),
            flags: parent.map_or(super::OWN_FLAGS, |parent| parent.flags),
            state: parent.map_or_else(String::new, |_| parent::state(arrived.headers)),
            name: Cow::Borrowed(arrived.method.unwrap_or(UNKNOWN_NAME)),
            kind: Kind::Server,
            begun_at: SystemTime::now() - arrived.at.elapsed(),
        };
        let span = Span::begin(head, arrived.at, attributes, self.0.queue.clone());
        CallTrace(Scope::Recorded(span))
    }
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer").finish_non_exhaustive()
    }
}

/// The trace that a call belongs to.
#[derive(Debug)]
pub(crate) struct CallTrace(Scope);

impl CallTrace {
    /// The scope of the call's work.
    pub(crate) fn scope(&self) -> Scope {
        self.0.clone()
    }

    /// The call has this status and, if it failed, this reason.
    pub(crate) fn end(self, code: &'static str, reason: &'static str) {
        let Scope::Recorded(span) = self.0 else {
            return;
        };
        // The second name is that of versions 1.39 to 1.44, and of our metrics.
        let mut attributes = vec![
            ("rpc.status_code", Value::Name(code)),
            ("rpc.response.status_code", Value::Name(code)),
        ];
        if !reason.is_empty() {
            attributes.push(("tombola.reason", Value::Name(reason)));
        }
        let error = is_error(code).then_some(reason);
        if error.is_some() {
            attributes.push(("error.type", Value::Name(code)));
        }
        span.end(attributes, error);
    }
}

/// Whether a server that answers with this status has failed. After other codes, such as
/// `NOT_FOUND`, it has done its work.
fn is_error(code: &str) -> bool {
    matches!(
        code,
        "UNKNOWN"
            | "DEADLINE_EXCEEDED"
            | "UNIMPLEMENTED"
            | "INTERNAL"
            | "UNAVAILABLE"
            | "DATA_LOSS"
    )
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
