//! What metrics and traces learn of a call: its method, its status, its time.

use std::{collections::HashSet, sync::LazyLock, time::Instant};

use hyper::{HeaderMap, Request};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    grpc::status::{code_name, reason_name},
    metrics::{CALLS, CallKey, OTHER},
    proto::{ErrorReason, FILE_DESCRIPTOR_SET},
    trace::{Arrived, CallTrace, Scope, Tracer},
};

/// The header or trailer with the status code.
const STATUS: &str = "grpc-status";

/// The names of our methods and of those of health.
static METHODS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let sets = [FILE_DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET];
    sets.into_iter().flat_map(methods).collect()
});

/// The full names of the methods in encoded descriptors.
fn methods(descriptors: &[u8]) -> Vec<String> {
    let set = FileDescriptorSet::decode(descriptors).unwrap_or_default();
    let mut names = Vec::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                names.push(format!(
                    "{}.{}/{}",
                    file.package(),
                    service.name(),
                    method.name()
                ));
            }
        }
    }
    names
}

/// A call that is counted once: with its status, or as cancelled when it is dropped without one.
pub(super) struct Observed {
    key: CallKey,
    begun: Instant,
    trace: Option<CallTrace>,
}

impl Observed {
    /// A call of this path that came at this time.
    pub(super) fn begin(path: &str, begun: Instant) -> Self {
        CALLS.open.inc();
        let name = path.strip_prefix('/').unwrap_or_default();
        Self {
            key: CallKey {
                method: METHODS.get(name).map_or(OTHER, String::as_str),
                code: code_name(Code::Cancelled),
                reason: "",
            },
            begun,
            trace: None,
        }
    }

    /// The same call, as part of the trace that its headers name. If they name none, a share of the
    /// calls of ours is recorded.
    pub(super) fn traced<B>(
        mut self,
        tracer: Option<&Tracer>,
        request: &Request<B>,
        is_ours: bool,
    ) -> Self {
        let Some(tracer) = tracer else { return self };
        let method = (self.key.method != OTHER).then_some(self.key.method);
        self.trace = tracer.call(&Arrived {
            method,
            is_of_share: is_ours && method.is_some(),
            headers: request.headers(),
            authority: request.uri().authority(),
            at: self.begun,
        });
        self
    }

    /// The scope of its work, if it belongs to a trace.
    pub(super) fn scope(&self) -> Option<Scope> {
        self.trace.as_ref().map(CallTrace::scope)
    }

    /// Notes that the call is refused since there is too much to do.
    pub(super) fn overloaded(&mut self) {
        self.key.code = code_name(Code::Unavailable);
        self.key.reason = reason_name(ErrorReason::Overloaded);
    }

    /// Notes the status that these headers or trailers have; false if they have none.
    pub(super) fn note(&mut self, headers: &HeaderMap) -> bool {
        let Some(code) = headers.get(STATUS) else {
            return false;
        };
        let code = Code::from_bytes(code.as_bytes());
        self.key.code = code_name(code);
        self.key.reason = match code {
            Code::Ok => "",
            _ => Status::from_header_map(headers).map_or("", |status| reason(&status)),
        };
        true
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        CALLS.open.dec();
        CALLS.ended(self.key, self.begun.elapsed());
        if let Some(trace) = self.trace.take() {
            trace.end(self.key.code, self.key.reason);
        }
    }
}

/// The reason of an error of ours; empty for others.
fn reason(status: &Status) -> &'static str {
    let info = status.get_details_error_info();
    let reason = info.and_then(|info| {
        let name = format!("ERROR_REASON_{}", info.reason);
        ErrorReason::from_str_name(&name)
    });
    reason.map_or("", reason_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        grpc::status::{CallError, status},
        store::StoreError,
    };

    #[test]
    fn methods_are_known_by_their_paths_and_others_are_not_named() {
        let method = |path| Observed::begin(path, Instant::now()).key.method;
        let draw = "tombola.v1.LotteryService/Draw";
        assert_eq!(method("/tombola.v1.LotteryService/Draw"), draw);
        let check = "grpc.health.v1.Health/Check";
        assert_eq!(method("/grpc.health.v1.Health/Check"), check);
        for path in ["/", "", "/tombola.v1.LotteryService/Steal", draw] {
            assert_eq!(method(path), OTHER, "{path}");
        }
    }

    #[test]
    fn a_call_is_cancelled_until_it_has_a_status() {
        let mut call = Observed::begin("/tombola.v1.LotteryService/Draw", Instant::now());
        assert_eq!(call.key.code, "CANCELLED");
        assert!(!call.note(&HeaderMap::new()));
        let error = CallError::Store(StoreError::Overloaded);
        assert!(call.note(status(&error, "r").into_http::<()>().headers()));
        assert_eq!(
            (call.key.code, call.key.reason),
            ("UNAVAILABLE", "OVERLOADED")
        );
        let noted = call.key;
        assert!(call.note(Status::ok("").into_http::<()>().headers()));
        assert_eq!((call.key.code, call.key.reason), ("OK", ""));
        call.overloaded();
        assert_eq!(call.key, noted);
    }
}
