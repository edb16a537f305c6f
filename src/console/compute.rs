//! Work that may take seconds, such as checking a campaign. It runs away from the threads that
//! answer draws, and little of it at once: other work waits for a turn, up to a bound.

use std::{collections::HashMap, time::Duration};

use thiserror::Error;
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// How much runs at once, for all visitors together.
const TURNS_MAX: usize = 2;
/// How long work waits for its turn.
const WAIT_MAX: Duration = Duration::from_secs(5);

static TURNS: Semaphore = Semaphore::const_new(TURNS_MAX);

/// Why work has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum NotComputed {
    /// It got no turn in time.
    #[error("the console computes too much at once: try again")]
    Busy,
    /// It panicked.
    #[error("the console could not compute it: the log of the server says why")]
    Broken,
}

/// As a service says it, so that pages show it like any other failure.
impl From<NotComputed> for Status {
    fn from(why: NotComputed) -> Self {
        let (code, reason) = match why {
            NotComputed::Busy => (Code::Unavailable, "OVERLOADED"),
            NotComputed::Broken => (Code::Internal, "INTERNAL"),
        };
        let metadata = HashMap::<String, String>::new();
        let details = ErrorDetails::with_error_info(reason, "tombola.v1", metadata);
        Self::with_error_details(code, why.to_string(), details)
    }
}

/// The result of work that needs no service. It ends even if nobody waits for it any more, and
/// keeps its turn until then.
pub(super) async fn compute<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NotComputed> {
    in_turn(&TURNS, WAIT_MAX, work).await
}

async fn in_turn<T: Send + 'static>(
    turns: &'static Semaphore,
    wait_max: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NotComputed> {
    let Ok(Ok(turn)) = timeout(wait_max, turns.acquire()).await else {
        return Err(NotComputed::Busy);
    };
    let work = move || {
        let _turn = turn; // it ends with the work, also by a panic
        work()
    };
    spawn_blocking(work).await.map_err(|_| NotComputed::Broken)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use tokio::{sync::oneshot, task::JoinHandle};

    use super::*;

    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(600);

    /// Work that has begun and ends when it is told to.
    async fn begun(turns: &'static Semaphore) -> (JoinHandle<Result<(), NotComputed>>, Sender<()>) {
        let (end, ended) = channel();
        let (begin, has_begun) = oneshot::channel();
        let work = move || {
            begin.send(()).unwrap();
            ended.recv().unwrap();
        };
        let task = tokio::spawn(in_turn(turns, LONG, work));
        has_begun.await.unwrap();
        (task, end)
    }

    /// Whether work gets a turn without waiting.
    async fn is_free(turns: &'static Semaphore) -> bool {
        match in_turn(turns, Duration::ZERO, || ()).await {
            Ok(()) => true,
            Err(why) => {
                assert_eq!(why, NotComputed::Busy);
                false
            }
        }
    }

    #[tokio::test]
    async fn no_more_runs_at_once_than_there_are_turns() {
        static TURNS: Semaphore = Semaphore::const_new(2);
        let (first, end_first) = begun(&TURNS).await;
        assert!(is_free(&TURNS).await);
        let (second, end_second) = begun(&TURNS).await;
        assert!(!is_free(&TURNS).await);
        end_first.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Ok(()));
        assert!(is_free(&TURNS).await);
        end_second.send(()).unwrap();
        assert_eq!(second.await.unwrap(), Ok(()));
        assert_eq!(compute(|| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_the_service_and_takes_no_turn_for_ever() {
        static TURNS: Semaphore = Semaphore::const_new(1);
        let broken = in_turn(&TURNS, LONG, || -> u32 { panic!("as this test wants") });
        assert_eq!(broken.await, Err(NotComputed::Broken));
        assert!(is_free(&TURNS).await);
        assert_eq!(Status::from(NotComputed::Broken).code(), Code::Internal);
        assert_eq!(Status::from(NotComputed::Busy).code(), Code::Unavailable);
    }

    #[tokio::test]
    async fn work_keeps_its_turn_while_it_runs_and_nobody_waits() {
        static TURNS: Semaphore = Semaphore::const_new(1);
        let (task, end) = begun(&TURNS).await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(!is_free(&TURNS).await);
        end.send(()).unwrap();
        assert_eq!(in_turn(&TURNS, LONG, || 7).await, Ok(7));
    }
}
