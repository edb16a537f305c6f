//! Requests that do not reach a method: too large, compressed in a way that nobody here reads, not
//! the method's message, or for a method that does not exist. tonic refuses them by itself, with
//! codes that many clients retry and without our error details, so this file replaces their
//! statuses.

use tonic::{Code, Status, body::Body, codegen::http::Response};

use super::status::{CallError, status};
use crate::model::Problem;

/// Where gRPC carries the details of a status: one that has them is ours.
const DETAILS_HEADER: &str = "grpc-status-details-bin";

/// The answer as it is, or a status of ours with a reason if the request could not be read, or if
/// nobody here implements what was asked for: an unknown method, a compression. `bytes_max` is the
/// size that a request may have, if the service has a bound of its own.
///
/// Only an answer that is nothing but an error has its status in the headers.
pub(super) fn legible(answer: Response<Body>, bytes_max: Option<usize>) -> Response<Body> {
    if answer.headers().contains_key(DETAILS_HEADER) {
        return answer;
    }
    let Some(given) = Status::from_header_map(answer.headers()) else {
        return answer;
    };
    let instead = match (given.code(), bytes_max) {
        (Code::Unimplemented, _) => {
            let mut message = given.message().to_owned();
            if message.contains("compressed") {
                message.push_str(": send it uncompressed");
            }
            Some(status(&CallError::Unimplemented(message), ""))
        }
        (_, Some(bytes_max)) => refusal(&given, bytes_max),
        (_, None) => None,
    };
    instead.map_or(answer, Status::into_http)
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
        let answer = legible(answer, Some(64 * 1024));
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
            let answer = legible(Status::unimplemented(given).into_http(), None);
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
        let unbounded = legible(Status::internal("its own").into_http(), None);
        let unbounded = Status::from_header_map(unbounded.headers()).unwrap();
        assert_eq!(unbounded.message(), "its own");
        let ours = status(&CallError::Broken(crate::store::Executed::Unknown), "r");
        let status = status_of(ours.into_http()).unwrap();
        assert_eq!(status.code(), Code::Internal);
    }
}
