//! The answer to a call that is refused before anyone looks at it. While a service is overloaded,
//! what a refusal costs is missing for calls that could be answered, so refusals are made once.

use std::sync::{
    LazyLock,
    atomic::{AtomicUsize, Ordering},
};

use hyper::{HeaderMap, Response};
use tonic::body::Body;

use crate::{
    grpc::status::{CallError, status},
    store::StoreError,
};

/// Refusals with different times after which to retry. They fit into the table of headers that
/// client and server share (HPACK, 4 KiB), so most are sent as a few bytes.
const REFUSALS: usize = 8;

/// Refuses a call.
pub(super) fn refusal() -> Response<Body> {
    static HEADERS: LazyLock<[HeaderMap; REFUSALS]> = LazyLock::new(|| {
        std::array::from_fn(|_| {
            let overloaded = CallError::from(StoreError::Overloaded);
            let response: Response<()> = status(&overloaded, "").into_http();
            response.into_parts().0.headers
        })
    });
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let index = NEXT.fetch_add(1, Ordering::Relaxed) % REFUSALS;
    let mut response = Response::new(Body::empty());
    *response.headers_mut() = HEADERS[index].clone();
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tonic::{Code, Status};
    use tonic_types::StatusExt as _;

    use super::*;

    #[test]
    fn a_refusal_says_that_nothing_happened_and_when_to_retry() {
        let mut delays = BTreeSet::new();
        let mut bytes = BTreeSet::new();
        for _ in 0..2 * REFUSALS {
            let response = refusal();
            let status = Status::from_header_map(response.headers()).unwrap();
            assert_eq!(status.code(), Code::Unavailable);
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            assert_eq!(info.reason, "OVERLOADED");
            assert_eq!(info.metadata["executed"], "no");
            delays.insert(details.retry_info().unwrap().retry_delay.unwrap());
            let headers = response.headers().iter();
            bytes.insert(
                headers
                    .map(|(name, value)| name.as_str().len() + value.len())
                    .sum(),
            );
        }
        assert!(delays.len() > 1, "clients would all come back at once");
        let most: usize = bytes.into_iter().max().unwrap();
        assert!(most * REFUSALS < 4096, "{most}");
    }
}
