//! One round of calls, what it costs the service and its databases, and injections at the same
//! time.

use std::{convert::Infallible, sync::Arc, time::Duration};

use crate::{
    campaigns,
    failure::{CALLS_FAIL, Failure, Fault, Outcome},
    figures::Spent,
    load::{self, Numbers, Plan, Target},
    record::Record,
    subject::Subject,
};

/// How many injections per second run during draws.
const INJECTIONS_A_SECOND: u64 = 2;

/// Runs one round of calls.
pub(crate) async fn call<T: Target>(
    target: &Arc<T>,
    plan: &Plan,
    numbers: &Arc<Numbers>,
) -> Outcome<Record> {
    load::round(target, plan, numbers)
        .await
        .map_err(unconnected)
}

/// The failure of a load that cannot connect.
pub(crate) fn unconnected(fault: Fault) -> Box<Failure> {
    Failure::refused("NO_CONNECTION", format!("the load cannot connect: {fault}"))
}

/// Fails if calls failed: their figures would be meaningless.
pub(crate) fn refuse_failures(what: &str, record: &Record) -> Outcome {
    let failed = record.failures();
    if failed * 2 <= record.calls && record.calls > 0 {
        return Ok(());
    }
    let reasons: Vec<String> = record
        .errors
        .iter()
        .map(|(reason, calls)| format!("{reason} ({calls})"))
        .collect();
    let message = match reasons.as_slice() {
        [] => format!("{what}: no call was answered: take a longer --duration and --warm-up"),
        reasons => format!(
            "{what}: {failed} of {} calls failed: {}",
            record.calls,
            reasons.join(", ")
        ),
    };
    let failure = Failure::refused(CALLS_FAIL, message);
    Err(failure.advise(
        "\"tombola-bench --scenario empty\" shows whether the load itself works; the service's log \
         says more",
    ))
}

/// Does `work` while units are injected.
pub(crate) async fn during_injection<T>(
    subject: &mut Subject,
    rate: u64,
    work: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    tokio::select! {
        done = work => done,
        Err(failed) = inject(subject, rate) => Err(failed),
    }
}

/// Injects units at a rate until it is dropped or fails.
async fn inject(subject: &mut Subject, rate: u64) -> Outcome<Infallible> {
    let mut server = subject.operators().await?;
    let mut interval = tokio::time::interval(Duration::from_secs(1) / INJECTIONS_A_SECOND as u32);
    loop {
        interval.tick().await;
        let now = campaigns::now(&mut server).await?;
        let units = (rate / INJECTIONS_A_SECOND).max(1);
        subject.made.make_injected(&mut server, units, now).await?;
    }
}

/// What a service and its databases had spent before a round.
pub(crate) struct Before {
    cpu: Option<Duration>,
    postgres: Option<Duration>,
    scripts: Option<Duration>,
}

impl Before {
    /// Reads the figures of the called service, if there is one.
    pub(crate) async fn of(subject: Option<&Subject>) -> Outcome<Self> {
        let redis = subject.and_then(|subject| subject.redis.as_ref());
        Ok(Self {
            cpu: subject.and_then(|subject| subject.server.as_ref()?.cpu()),
            postgres: subject.and_then(|subject| subject.postgres.as_ref()?.cpu()),
            scripts: match redis {
                Some(redis) => Some(redis.scripts().await?.1),
                None => None,
            },
        })
    }

    /// How much it has spent since.
    pub(crate) async fn spent(self, subject: Option<&Subject>) -> Outcome<Spent> {
        let after = Self::of(subject).await?;
        let since = |before: Option<Duration>, after: Option<Duration>| {
            Some(after?.saturating_sub(before?).as_secs_f64() * 1e6)
        };
        Ok(Spent {
            server_cpu_us: since(self.cpu, after.cpu),
            redis_us: since(self.scripts, after.scripts),
            postgres_cpu_us: since(self.postgres, after.postgres),
        })
    }
}
