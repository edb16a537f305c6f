//! What every call goes through: a bound on calls at once, a deadline, and an error that names its
//! request.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use tonic::{
    Request, Response, Status,
    metadata::{MetadataMap, MetadataValue},
};

use super::status::{CallError, status};
use crate::{
    injector::Injector,
    ledger::read::LedgerReader,
    model::RequestId,
    store::{Executed, Store, StoreError},
};

/// The longest that a caller's request takes, whatever the caller allows.
pub(super) const CALLER_TIME_MAX: Duration = Duration::from_secs(10);

/// The longest that an operator's request takes: recalls and closings move many units.
pub(super) const OPERATOR_TIME_MAX: Duration = Duration::from_secs(60);

/// The most calls at once, over all connections.
const CALLS_MAX: usize = 16_384;

/// The header of answers that come from a test clock, and its value.
const CLOCK_HEADER: &str = "tombola-clock";

/// The answer to a call.
pub(super) type Reply<T> = Result<Response<T>, Status>;

/// Where calls are taken.
pub(super) struct Desk {
    injector: Arc<Injector>,
    ledger: Option<Arc<dyn LedgerReader>>,
    slots: Semaphore,
    test_clock: bool,
}

impl Desk {
    pub(super) fn new(injector: Arc<Injector>, ledger: Option<Arc<dyn LedgerReader>>) -> Self {
        Self {
            ledger,
            test_clock: injector.store().info().test_clock,
            slots: Semaphore::new(CALLS_MAX),
            injector,
        }
    }

    pub(super) fn injector(&self) -> &Arc<Injector> {
        &self.injector
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.injector.store().as_ref()
    }

    /// What reads the settled ledger, if it is settled anywhere.
    pub(super) fn ledger(&self) -> Option<&dyn LedgerReader> {
        self.ledger.as_deref()
    }

    /// Answers a call that changes nothing and has no request id.
    pub(super) async fn read<T>(
        &self,
        deadline: Deadline,
        work: impl Future<Output = Result<T, CallError>>,
    ) -> Reply<T> {
        self.answer(None, deadline, Executed::No, work).await
    }

    /// Answers a call. `late` is what an answer that came too late says of its effect.
    pub(super) async fn answer<T>(
        &self,
        request_id: Option<&RequestId>,
        deadline: Deadline,
        late: Executed,
        work: impl Future<Output = Result<T, CallError>>,
    ) -> Reply<T> {
        let result = match self.slots.try_acquire() {
            Err(_) => Err(StoreError::Overloaded.into()),
            Ok(_slot) => timeout_at(deadline.0, work)
                .await
                .unwrap_or(Err(CallError::TimedOut(late))),
        };
        match result {
            Ok(answer) => {
                let mut response = Response::new(answer);
                self.mark(response.metadata_mut());
                Ok(response)
            }
            Err(error) => {
                let mut status = status(&error, request_id.map_or("", RequestId::as_str));
                self.mark(status.metadata_mut());
                Err(status)
            }
        }
    }

    /// Marks an answer that comes from a test clock, so that nobody takes it for a real one.
    fn mark(&self, metadata: &mut MetadataMap) {
        if self.test_clock {
            metadata.insert(CLOCK_HEADER, MetadataValue::from_static("TEST"));
        }
    }
}

/// Until when a call must be answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    /// The caller's own deadline, at most `longest` from now. A little of it is kept for the way
    /// back, so that the caller learns whether the call happened before giving up.
    pub(super) fn of<T>(request: &Request<T>, longest: Duration) -> Self {
        const WAY_BACK_MAX: Duration = Duration::from_millis(50);
        let given = request.metadata().get("grpc-timeout");
        let given = given
            .and_then(|value| value.to_str().ok())
            .and_then(parse_timeout)
            .map(|timeout| timeout - (timeout / 20).min(WAY_BACK_MAX));
        Self(Instant::now() + given.map_or(longest, |timeout| timeout.min(longest)))
    }

    /// How long it still is.
    pub(super) fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// A `grpc-timeout`: one to eight digits and a unit (gRPC over HTTP/2, "Requests").
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

/// Sees a change through on a task of its own, even when its caller hangs up: every step is safe to
/// leave, but a recall that is left in the middle would wait for the injector's next round.
pub(super) async fn see_through<T: Send + 'static>(
    work: impl Future<Output = Result<T, CallError>> + Send + 'static,
) -> Result<T, CallError> {
    tokio::spawn(work)
        .await
        .unwrap_or(Err(CallError::Broken(Executed::Unknown)))
}

/// Computes something long away from the threads that answer draws.
pub(super) async fn compute<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CallError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| CallError::Broken(Executed::No))
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

    #[tokio::test]
    async fn a_deadline_is_the_caller_s_but_never_longer_than_the_service_s() {
        let mut request = Request::new(());
        let longest = Duration::from_secs(10);
        assert!(Deadline::of(&request, longest).remaining() > Duration::from_secs(9));
        request.set_timeout(Duration::from_secs(1));
        assert!(Deadline::of(&request, longest).remaining() <= Duration::from_millis(950));
        request.set_timeout(Duration::from_secs(100));
        assert!(Deadline::of(&request, longest).remaining() <= longest);
    }
}
