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

use super::{
    alerts::Alerts,
    arrival::Arrival,
    live::LiveReads,
    presence::Presence,
    rates::Rates,
    status::{CallError, status},
};
use crate::{
    injector::Injector,
    ledger::read::LedgerReader,
    metrics::SHED,
    model::RequestId,
    store::{Executed, Store, StoreError},
    trace,
};

/// The longest that a caller's request takes, whatever the caller allows.
pub(super) const CALLER_TIME_MAX: Duration = Duration::from_secs(10);

/// The longest that an operator's request takes: recalls and closings move many units.
pub(super) const OPERATOR_TIME_MAX: Duration = Duration::from_secs(60);

/// The most calls at once, over all connections.
const CALLS_MAX: usize = 16_384;

/// How many of them are reserved for operators, who must be able to act while callers take all the
/// others.
const OPERATORS_CALLS_MAX: usize = 256;

/// The header of answers that come from a test clock, and its value.
const CLOCK_HEADER: &str = "tombola-clock";

/// The answer to a call.
pub(super) type Reply<T> = Result<Response<T>, Status>;

/// Where calls are taken.
pub(super) struct Desk {
    injector: Arc<Injector>,
    ledger: Option<Arc<dyn LedgerReader>>,
    presence: Presence,
    rates: Rates,
    alerts: Alerts,
    live: LiveReads,
    slots: Semaphore,
    operators_slots: Semaphore,
    test_clock: bool,
}

impl Desk {
    pub(super) fn new(
        injector: Arc<Injector>,
        ledger: Option<Arc<dyn LedgerReader>>,
        presence: Presence,
    ) -> Self {
        Self {
            ledger,
            presence,
            rates: Rates::default(),
            alerts: Alerts::default(),
            live: LiveReads::default(),
            test_clock: injector.store().info().test_clock,
            slots: Semaphore::new(CALLS_MAX - OPERATORS_CALLS_MAX),
            operators_slots: Semaphore::new(OPERATORS_CALLS_MAX),
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

    /// This service among the replicas of its store.
    pub(super) fn presence(&self) -> &Presence {
        &self.presence
    }

    /// How fast prizes are won.
    pub(super) fn rates(&self) -> &Rates {
        &self.rates
    }

    /// What operators should look at.
    pub(super) fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    /// What viewers of live pages share.
    pub(super) fn live(&self) -> &LiveReads {
        &self.live
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
        let slots = match deadline.is_operators {
            true => &self.operators_slots,
            false => &self.slots,
        };
        let result = match slots.try_acquire() {
            Err(_) => {
                SHED.open.inc();
                Err(StoreError::Overloaded.into())
            }
            Ok(_slot) => timeout_at(deadline.at, work)
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

/// Until when a call must be answered, and from whose slots it takes one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    at: Instant,
    is_operators: bool,
}

impl Deadline {
    /// The caller's own deadline, at most `longest` after the call came. A little of it is kept for
    /// the way back, so that the caller learns whether the call happened before giving up.
    pub(super) fn of<T>(request: &Request<T>, longest: Duration) -> Self {
        const WAY_BACK_MAX: Duration = Duration::from_millis(50);
        let arrival = request.extensions().get::<Arrival>();
        let given = arrival.and_then(|arrival| arrival.timeout);
        let given = given.map(|timeout| timeout - (timeout / 20).min(WAY_BACK_MAX));
        let begun = arrival.map_or_else(Instant::now, |arrival| arrival.at.into());
        Self {
            at: begun + given.map_or(longest, |timeout| timeout.min(longest)),
            is_operators: arrival.is_some_and(|arrival| arrival.is_operators),
        }
    }

    /// How long it still is.
    pub(super) fn remaining(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }
}

/// Sees a change through on a task of its own, even when its caller hangs up: every step is safe to
/// leave, but a recall that is left in the middle would wait for the injector's next round.
pub(super) async fn see_through<T: Send + 'static>(
    work: impl Future<Output = Result<T, CallError>> + Send + 'static,
) -> Result<T, CallError> {
    tokio::spawn(trace::inherit(work))
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
    use tonic::Code;

    use super::*;
    use crate::{
        chance::MasterKey,
        store::{clock::SystemClock, memory::MemoryStore},
    };

    #[tokio::test]
    async fn a_deadline_is_the_caller_s_but_never_longer_than_the_service_s() {
        let longest = Duration::from_secs(10);
        let left = |timeout_s: Option<u64>, waited_s| {
            let mut request = Request::new(());
            let now = std::time::Instant::now();
            request.extensions_mut().insert(Arrival {
                at: now - Duration::from_secs(waited_s),
                timeout: timeout_s.map(Duration::from_secs),
                is_operators: false,
            });
            Deadline::of(&request, longest).remaining()
        };
        assert!(left(None, 0) > Duration::from_secs(9));
        assert!(left(Some(1), 0) <= Duration::from_millis(950));
        assert!(left(Some(100), 0) <= longest);
        // It counts from the call's arrival.
        assert!(left(None, 5) <= Duration::from_secs(5));
        assert_eq!(left(Some(1), 1), Duration::ZERO);
    }

    #[tokio::test]
    async fn operators_have_slots_when_callers_have_taken_all_others() {
        let store = MemoryStore::new(Arc::new(SystemClock), Duration::from_secs(60));
        let key = MasterKey::from_bytes([7; 32]);
        let injector = Injector::new(Arc::new(store), key, Duration::ZERO);
        let presence = Presence::unseen(injector.store());
        let desk = Desk::new(Arc::new(injector), None, presence);
        let taken = desk
            .slots
            .try_acquire_many((CALLS_MAX - OPERATORS_CALLS_MAX) as u32);
        let deadline = |is_operators| Deadline {
            at: Instant::now() + Duration::from_secs(1),
            is_operators,
        };
        let refused = desk.read(deadline(false), async { Ok(()) }).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
        assert!(desk.read(deadline(true), async { Ok(()) }).await.is_ok());
        drop(taken);
        assert!(desk.read(deadline(false), async { Ok(()) }).await.is_ok());
    }
}
