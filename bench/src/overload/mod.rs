//! `tombola-bench overload`: what a service answers at more load than it can answer, and whether it
//! recovers from callers that retry at once.
//!
//! The peak is what a closed loop gets. Then calls are sent at fixed rates, whatever becomes of the
//! calls before: at 0.8 of the peak, at the peak, at several times the peak. At last callers at 0.8
//! of the peak retry each failed call at once, while a burst of others, who retry as well, comes
//! and goes.

mod args;
mod callers;
mod cores;
mod report;

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::time::sleep;

pub(crate) use self::{
    args::OverloadArgs,
    report::{Overload, render},
};
use self::{
    callers::Callers,
    cores::{Cores, stay_on},
    report::{Phase, Recovery},
};
use crate::{
    calls::Grpc,
    failure::Outcome,
    host::Host,
    load::{Numbers, Plan},
    options::directory,
    output::note,
    program,
    record::Record,
    rig::Rig,
    round::{call, refuse_failures},
    scenario::{Ids, Scenario},
    subject::Kind,
};

/// How long a caller waits for a draw.
const CALL_TIME_MAX: Duration = Duration::from_secs(1);
/// The load that a service answers well.
const NORMAL: f64 = 0.8;
/// How often a caller of the storm tries a call.
const STORM_ATTEMPTS: u32 = 4;

/// Runs all phases.
pub(crate) async fn measure(
    args: &OverloadArgs,
    program: Option<PathBuf>,
    rig: &mut Rig,
) -> Outcome<Overload> {
    let directory = directory(args.directory.clone())?;
    let kind = Kind::Own {
        program: program::find(program)?,
        store: args.store,
        redis_url: None,
        is_shedding: true,
    };
    let host = Host::look(&directory);
    let cores = Cores::find();
    match cores {
        Some(cores) => stay_on(cores.service),
        None => note("there is one core: the load and the service share it"),
    }
    let subject = rig.open(kind, &directory, &[Scenario::Deck], 0).await?;
    if let Some(cores) = cores {
        stay_on(cores.load);
    }
    let calls = Grpc {
        timeout: Some(CALL_TIME_MAX),
        ..subject.calls(Scenario::Deck)
    };
    let mut load = Load::new(args, calls);
    let peak = load.peak().await?;
    let mut phases = Vec::new();
    for times in [NORMAL, 1.0, args.times as f64] {
        note(&format!("{times} times the peak"));
        phases.push(load.phase(times, peak).await?);
    }
    note("a storm of retries");
    let recovery = load.storm(args.times as f64, peak).await?;
    let sums = rig.first()?.sums().await?;
    Ok(Overload {
        tombola: env!("CARGO_PKG_VERSION"),
        host,
        store: args.store.name(),
        cores,
        peak_per_second: peak,
        goodput_over_peak: phases.last().map_or(0.0, |most| most.per_second / peak),
        p99_over_normal: report::p99_ratio(&phases),
        phases,
        recovery,
        balanced: sums.iter().all(|sums| sums.balanced),
    })
}

/// The load, and the numbers of its calls.
struct Load {
    calls: Grpc,
    plan: Plan,
    numbers: Arc<Numbers>,
}

impl Load {
    fn new(args: &OverloadArgs, calls: Grpc) -> Self {
        let plan = Plan {
            connections: args.connections.into(),
            outstanding: args.outstanding.into(),
            rate: None,
            time: args.duration,
            calls_max: u64::MAX,
        };
        Self {
            calls,
            numbers: Arc::default(),
            plan,
        }
    }

    /// Answers a second in a closed loop, once the service is warm.
    async fn peak(&mut self) -> Outcome<f64> {
        let mut peak = 0.0;
        for what in ["warming up", "the peak"] {
            note(what);
            let record = self.round(&self.plan, self.callers(1)).await?;
            refuse_failures(what, &record)?;
            peak = record.rate();
        }
        Ok(peak)
    }

    /// Calls at a rate.
    async fn phase(&self, times: f64, peak: f64) -> Outcome<Phase> {
        let rate = at(times, peak);
        let plan = Plan {
            rate: Some(rate),
            ..self.plan.clone()
        };
        let record = self.round(&plan, self.callers(1)).await?;
        Ok(Phase::of(times, rate, &record))
    }

    /// Calls at the normal rate for three durations, with a burst of others in the second one. All
    /// retry at once.
    async fn storm(&self, times: f64, peak: f64) -> Outcome<Recovery> {
        let time = self.plan.time;
        let rate = at(NORMAL, peak);
        let normal = Plan {
            rate: Some(rate),
            time: time * 3,
            ..self.plan.clone()
        };
        let burst = Plan {
            rate: Some(at(times - NORMAL, peak)),
            ..self.plan.clone()
        };
        let others = Callers {
            calls: Grpc {
                ids: Ids::Uuid,
                ..self.calls.clone()
            },
            attempts: STORM_ATTEMPTS,
        };
        let numbers = Arc::default();
        let burst = async {
            sleep(time).await;
            call(&Arc::new(others), &burst, &numbers).await
        };
        let normal = self.round(&normal, self.callers(STORM_ATTEMPTS));
        let (normal, burst) = tokio::join!(normal, burst);
        burst?;
        Ok(Recovery::of(&normal?, rate, time))
    }

    fn callers(&self, attempts: u32) -> Callers {
        Callers {
            calls: self.calls.clone(),
            attempts,
        }
    }

    async fn round(&self, plan: &Plan, callers: Callers) -> Outcome<Record> {
        call(&Arc::new(callers), plan, &self.numbers).await
    }
}

/// Calls a second; even the slowest service gets some.
fn at(times: f64, peak: f64) -> u64 {
    (peak * times).max(20.0).ceil() as u64
}
