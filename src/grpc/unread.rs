//! Requests that do not reach a method: too large, or not the method's message. tonic refuses them
//! by itself, with codes that many clients retry and without our error details, so this file
//! replaces their statuses.

use tonic::{Code, Status, body::Body, codegen::http::Response};

use super::status::{CallError, status};
use crate::model::Problem;

/// Where gRPC carries the details of a status: one that has them is ours.
const DETAILS_HEADER: &str = "grpc-status-details-bin";

/// The answer as it is, or a refusal with its reason if the request could not be read.
/// `bytes_max` is the size that a request may have.
///
/// Only an answer that is nothing but an error has its status in the headers, so all others pass
/// after one look.
pub(super) fn legible(answer: Response<Body>, bytes_max: usize) -> Response<Body> {
    if answer.headers().contains_key(DETAILS_HEADER) {
        return answer;
    }
    let refusal = Status::from_header_map(answer.headers())
        .as_ref()
        .and_then(|given| refusal(given, bytes_max));
    refusal.map_or(answer, Status::into_http)
}

/// The answer as it is, or with a reason if nobody here implements what was asked for: an unknown
/// method, a compression.
pub(super) fn legible_to_all(answer: Response<Body>) -> Response<Body> {
    if answer.headers().contains_key(DETAILS_HEADER) {
        return answer;
    }
    match Status::from_header_map(answer.headers()) {
        Some(given) if given.code() == Code::Unimplemented => {
            let mut message = given.message().to_owned();
            if message.contains("compressed") {
                message.push_str(": send it uncompressed");
            }
            status(&CallError::Unimplemented(message), "").into_http()
        }
        _ => answer,
    }
}

/// What to say instead of what tonic says, if it is about reading the request.
fn refusal(given: &Status, bytes_max: usize) -> Option<Status> {
    let kib = bytes_max / 1024;
    let message = match given.code() {
        Code::OutOfRange => format!("is too large: it must be no larger than {kib} KiB"),
        Code::Internal => format!(
            "cannot be read ({}): send the protobuf message that this method takes, no larger than \
             {kib} KiB",
            given.message()
        ),
        _ => return None,
    };
    let path = "request".into();
    Some(status(&CallError::from(Problem { path, message }), ""))
}

#[cfg(test)]
mod tests {
    use tonic_types::StatusExt as _;

    use super::*;

    fn status_of(answer: Response<Body>) -> Option<Status> {
        let answer = legible(answer, 64 * 1024);
        Status::from_header_map(answer.headers())
    }

    #[test]
    fn what_tonic_could_not_read_is_refused_with_a_reason() {
        for (given, word) in [
            (Status::out_of_range("found 70000 bytes"), "64 KiB"),
            (Status::internal("invalid wire type"), "invalid wire type"),
        ] {
            let status = status_of(given.into_http()).unwrap();
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.message().contains(word), "{status:?}");
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            assert_eq!(info.reason, "INVALID_REQUEST");
            assert_eq!(info.domain, "tombola.v1");
            assert_eq!(info.metadata["executed"], "no");
        }
    }

    #[test]
    fn what_nobody_implements_is_refused_with_a_reason() {
        for (given, word) in [
            ("", "no such method"),
            ("no gzip here", "no gzip here"),
            ("compressed with `gzip`", "`gzip`: send it uncompressed"),
        ] {
            let answer = legible_to_all(Status::unimplemented(given).into_http());
            let status = Status::from_header_map(answer.headers()).unwrap();
            assert_eq!(status.code(), Code::Unimplemented);
            assert!(status.message().contains(word), "{status:?}");
            let details = status.get_error_details();
            assert_eq!(details.error_info().unwrap().metadata["executed"], "no");
        }
    }

    #[test]
    fn all_other_answers_pass() {
        assert!(status_of(Response::new(Body::empty())).is_none());
        let unimplemented = status_of(Status::unimplemented("gzip").into_http()).unwrap();
        assert_eq!(unimplemented.code(), Code::Unimplemented);
        let ours = status(&CallError::Broken(crate::store::Executed::Unknown), "r");
        let status = status_of(ours.into_http()).unwrap();
        assert_eq!(status.code(), Code::Internal);
    }
}
