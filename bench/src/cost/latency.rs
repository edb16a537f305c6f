//! The latency of a single draw relative to its parts, and the latency of draws during an
//! injection.

use std::{sync::Arc, time::Duration};

use super::work::Work;
use crate::{
    baselines::OneKey,
    calls::Grpc,
    campaigns::UNITS_MAX,
    failure::Outcome,
    figures::{Latency, Rounds, Spent},
    load::{Numbers, Plan, Target},
    record::Record,
    round::{call, during_injection, refuse_failures},
    scenario::Scenario,
    subject::Store,
};

/// The measurements take turns, so that all see the same state of the machine.
const TURNS: usize = 3;
const INJECTED_A_SECOND: u64 = 100_000;
/// Enough units for a second of draws at the peak.
const UNITS_A_SECOND: f64 = 100_000.0;
/// All timings take as many units as this many at the peak: one is at the peak, and in each turn
/// two are at half of it.
const TIMINGS_AT_THE_PEAK: f64 = 1.0 + TURNS as f64;

pub(super) async fn measure(work: &mut Work<'_>, store: Store) -> Outcome {
    let seconds = work.args.duration.as_secs_f64() * TIMINGS_AT_THE_PEAK;
    let units = ((seconds * UNITS_A_SECOND) as u64).min(UNITS_MAX);
    let kind = work.own(store);
    work.rig
        .open(
            kind,
            &work.directory,
            &[Scenario::Draw, Scenario::Inject],
            units,
        )
        .await?;
    one_draw(work, store).await?;
    half_the_peak(work, store).await?;
    work.close().await
}

/// The p50 of a single draw, divided by the sum of two p50s: of a bare script that writes one key,
/// and of an empty call.
async fn one_draw(work: &mut Work<'_>, store: Store) -> Outcome {
    let name = store.name();
    let plan = alone(work.args.duration / 2);
    let empty = Arc::new(work.rig.empty(&work.directory).await?);
    let subject = work.rig.first()?;
    let draw = Arc::new(subject.calls(Scenario::Draw));
    let key = match &subject.redis {
        Some(redis) => Some(Arc::new(OneKey::prepare(redis).await?)),
        None => None,
    };
    let numbers = Arc::default();
    let (mut draws, mut empties, mut keys) =
        (Rounds::default(), Rounds::default(), Rounds::default());
    for _ in 0..TURNS {
        add(&mut draws, &draw, &plan, &numbers).await?;
        add(&mut empties, &empty, &plan, &numbers).await?;
        if let Some(key) = &key {
            add(&mut keys, key, &plan, &numbers).await?;
        }
    }
    let p50 = |rounds: &Rounds| Latency::of(&rounds.latencies()).p50 as f64;
    let (draw, empty) = (p50(&draws), p50(&empties));
    work.costs
        .found(name, "p50 of one draw", "1 under way", draw, "µs");
    work.costs
        .found(name, "p50 of one empty call", "1 under way", empty, "µs");
    if key.is_some() {
        let key = p50(&keys);
        work.costs.found(
            name,
            "p50 of a bare script that writes a key",
            "1 under way",
            key,
            "µs",
        );
        work.costs.found(
            name,
            "one draw over that script and an empty call",
            "p50",
            draw / (key + empty),
            "times",
        );
    }
    Ok(())
}

fn alone(time: Duration) -> Plan {
    Plan {
        connections: 1,
        outstanding: 1,
        rate: None,
        time,
        calls_max: u64::MAX,
    }
}

async fn add<T: Target>(
    rounds: &mut Rounds,
    target: &Arc<T>,
    plan: &Plan,
    numbers: &Arc<Numbers>,
) -> Outcome {
    let record = call(target, plan, numbers).await?;
    refuse_failures("draws that are timed", &record)?;
    rounds.add(record, Spent::default());
    Ok(())
}

/// The p99 of draws at half the peak rate during an injection, divided by the p99 without it.
async fn half_the_peak(work: &mut Work<'_>, store: Store) -> Outcome {
    let name = store.name();
    let time = work.args.duration;
    let closed = Plan {
        connections: 8,
        outstanding: 128,
        ..alone(time)
    };
    let subject = work.rig.first_mut()?;
    let draw: Arc<Grpc> = Arc::new(subject.calls(Scenario::Inject));
    let numbers = Arc::default();
    let peak: Record = call(&draw, &closed, &numbers).await?;
    refuse_failures("draws", &peak)?;
    // Even the shortest round has some calls.
    let least = 20.0 / time.as_secs_f64();
    let rate = (peak.rate() / 2.0).max(least).ceil() as u64;
    let plan = Plan {
        rate: Some(rate),
        ..closed
    };
    let (mut quiet, mut injected) = (Rounds::default(), Rounds::default());
    for _ in 0..TURNS {
        add(&mut quiet, &draw, &plan, &numbers).await?;
        let record =
            during_injection(subject, INJECTED_A_SECOND, call(&draw, &plan, &numbers)).await?;
        refuse_failures("draws during an injection", &record)?;
        injected.add(record, Spent::default());
    }
    let p99 = |rounds: &Rounds| Latency::of(&rounds.latencies()).p99 as f64 / 1000.0;
    let at = format!("{rate} draws a second, half the peak");
    let (quiet, injected) = (p99(&quiet), p99(&injected));
    work.costs.found(name, "p99 of draws", &at, quiet, "ms");
    work.costs.found(
        name,
        "p99 while 100,000 units a second are injected",
        &at,
        injected,
        "ms",
    );
    work.costs.found(
        name,
        "p99 while injected over p99 without",
        &at,
        injected / quiet.max(0.001),
        "times",
    );
    Ok(())
}
