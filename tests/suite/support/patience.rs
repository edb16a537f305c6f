//! Calls that are repeated until they succeed: on a busy machine a store or a service may be
//! unavailable for a while after it was killed.

use std::{fmt::Debug, future::Future, time::Duration};

use tokio::time::{Instant, sleep};
use tombola::store::{StoreError, redis::OpenError};
use tonic::{Code, Status};

/// The time after which a call that keeps failing fails the test.
const PATIENCE: Duration = Duration::from_secs(60);

/// An error of a call.
pub trait CallError: Debug {
    /// Whether the same call may succeed later.
    fn is_transient(&self) -> bool;
}

impl CallError for StoreError {
    fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Overloaded)
    }
}

impl CallError for OpenError {
    fn is_transient(&self) -> bool {
        self.may_pass()
    }
}

impl CallError for Status {
    fn is_transient(&self) -> bool {
        self.code() == Code::Unavailable
    }
}

/// Repeats a call while it fails for a transient reason. The call must be safe to repeat.
pub async fn patiently<T, E: CallError, F>(mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, E>>,
{
    let begun = Instant::now();
    loop {
        match call().await {
            Ok(value) => return value,
            Err(error) if error.is_transient() && begun.elapsed() < PATIENCE => {
                sleep(Duration::from_millis(100)).await;
            }
            Err(error) => panic!("after {:?}: {error:?}", begun.elapsed()),
        }
    }
}
