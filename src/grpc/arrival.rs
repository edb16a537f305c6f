//! What is known of a call when its headers are there: when it came, how much time its caller gives
//! it, and whether it is an operator's. The services find it among the extensions of the request.

use std::time::{Duration, Instant};

use hyper::HeaderMap;

/// The header with the caller's time (gRPC over HTTP/2, "Requests").
const TIMEOUT: &str = "grpc-timeout";

/// The arrival of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// When its headers were read.
    pub(super) at: Instant,
    /// The caller's time, if it is bounded.
    pub(super) timeout: Option<Duration>,
    /// It is an operator's call, for which slots are reserved.
    pub(super) is_operators: bool,
}

impl Arrival {
    /// A call with these headers.
    pub(super) fn of(headers: &HeaderMap, at: Instant, is_operators: bool) -> Self {
        let timeout = headers.get(TIMEOUT).and_then(|value| value.to_str().ok());
        Self {
            at,
            timeout: timeout.and_then(parse_timeout),
            is_operators,
        }
    }

    /// Whether its caller has given up by now.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.timeout
            .is_some_and(|timeout| now.saturating_duration_since(self.at) >= timeout)
    }
}

/// A `grpc-timeout`: one to eight digits and a unit.
fn parse_timeout(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_grpc_writes_them() {
        for (value, timeout) in [
            ("1S", Some(Duration::from_secs(1))),
            ("250m", Some(Duration::from_millis(250))),
            ("99999999u", Some(Duration::from_micros(99_999_999))),
            ("2H", Some(Duration::from_secs(7200))),
            ("3M", Some(Duration::from_secs(180))),
            ("5n", Some(Duration::from_nanos(5))),
            ("", None),
            ("S", None),
            ("999999999S", None),
            ("+1S", None),
            ("1é", None),
            ("1x", None),
        ] {
            assert_eq!(parse_timeout(value), timeout, "{value:?}");
        }
    }

    #[test]
    fn a_call_is_late_when_its_caller_has_given_up() {
        let now = Instant::now();
        let mut headers = HeaderMap::new();
        let late = |headers: &HeaderMap| {
            let arrival = Arrival::of(headers, now, false);
            [0, 249, 250].map(|ms| arrival.is_late(now + Duration::from_millis(ms)))
        };
        assert_eq!(late(&headers), [false; 3]);
        headers.insert(TIMEOUT, "250m".parse().unwrap());
        assert_eq!(late(&headers), [false, false, true]);
    }
}
