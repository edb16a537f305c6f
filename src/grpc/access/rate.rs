//! The rate of calls of an identity, at this replica.

use std::time::Duration;

use governor::{
    DefaultDirectRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
};

use super::policy::Rate;

/// Lets calls through at a rate.
#[derive(Debug)]
pub(super) struct Limiter {
    rate: Rate,
    limiter: DefaultDirectRateLimiter,
}

impl Limiter {
    /// A limiter that has let nothing through yet.
    pub(super) fn new(rate: Rate) -> Self {
        let quota = Quota::per_second(rate.per_second).allow_burst(rate.burst);
        Self {
            rate,
            limiter: RateLimiter::direct(quota),
        }
    }

    /// Its rate.
    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Lets a call through, or says how long it must wait.
    pub(super) fn pass(&self) -> Result<(), Duration> {
        let passed = self.limiter.check();
        passed.map_err(|until| until.wait_time_from(DefaultClock::default().now()))
    }
}
