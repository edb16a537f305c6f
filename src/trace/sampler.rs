//! Which calls are traced. The caller decides, if it has a trace; else a share of the calls is
//! taken by chance. Both are bounded, each on its own: a caller that traces everything shall
//! neither slow the service down nor leave no room for the share.

use std::num::NonZeroU32;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use crate::metrics::TRACES;

/// The sampler of a process.
pub(super) struct Sampler {
    /// The share of calls of which no caller has decided, 0 to 1.
    share: f64,
    by_callers: DefaultDirectRateLimiter,
    by_share: DefaultDirectRateLimiter,
}

impl Sampler {
    /// Traces this share, and at most so many calls a second for either reason.
    pub(super) fn new(share: f64, calls_per_second_max: NonZeroU32) -> Self {
        let limiter = || RateLimiter::direct(Quota::per_second(calls_per_second_max));
        Self {
            share,
            by_callers: limiter(),
            by_share: limiter(),
        }
    }

    /// Whether to trace a call whose caller traces it.
    pub(super) fn follows_caller(&self) -> bool {
        let passes = self.by_callers.check().is_ok();
        if !passes {
            TRACES.over_limit_by_callers.inc();
        }
        passes
    }

    /// Whether to trace a call whose caller has no trace.
    pub(super) fn takes(&self) -> bool {
        if self.share <= 0.0 || rand::random::<f64>() >= self.share {
            return false;
        }
        let passes = self.by_share.check().is_ok();
        if !passes {
            TRACES.over_limit_by_share.inc();
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(share: f64, calls_max: u32) -> Sampler {
        Sampler::new(share, NonZeroU32::new(calls_max).unwrap())
    }

    #[test]
    fn a_share_of_the_calls_is_taken() {
        for (share, taken_min, taken_max) in
            [(0.0, 0, 0), (0.5, 4_500, 5_500), (1.0, 10_000, 10_000)]
        {
            let sampler = sampler(share, 1_000_000);
            let taken = (0..10_000).filter(|_| sampler.takes()).count();
            assert!((taken_min..=taken_max).contains(&taken), "{share}: {taken}");
        }
    }

    #[test]
    fn callers_that_trace_everything_are_bounded_and_leave_room_for_the_share() {
        let sampler = sampler(1.0, 10);
        let followed = (0..1_000_000)
            .take_while(|_| sampler.follows_caller())
            .count();
        assert!(followed < 1_000_000);
        assert!(sampler.takes());
    }
}
