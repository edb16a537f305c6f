//! How the time of a draw grows with the number of waiting units, how much memory a waiting unit
//! needs, and what an injection does to Redis.

use std::{sync::Arc, time::Instant};

use super::{
    users::{Bytes, draws},
    work::Work,
};
use crate::{
    failure::Outcome,
    round::{call, refuse_failures},
    scenario::Scenario,
    subject::Store,
};

/// The share of a small pool's units that timed draws take (one in this many), and the share that
/// the warm-up takes.
const TIMED_OF: u64 = 2;
const WARM_UP_OF: u64 = 4;
const TIMED_MAX: u64 = 50_000;
/// Redis scripts that take longer than this are listed in the slow log.
const SLOW_MICROS: &str = "500";

/// Measures the time of a draw and the bytes of a unit, for each number of waiting units.
pub(super) async fn measure(work: &mut Work<'_>, store: Store) -> Outcome {
    let name = store.name();
    let mut first: Option<f64> = None;
    // Every measurement makes the same number of draws, so that only the number of waiting units
    // differs.
    let least = work.args.units.iter().copied().min().unwrap_or(0);
    let (timed, before) = (
        (least / TIMED_OF).min(TIMED_MAX),
        (least / WARM_UP_OF).min(TIMED_MAX),
    );
    let first_units = work.args.units.first().copied().unwrap_or(0);
    for units in work.args.units.clone() {
        let at = format!("{units} waiting");
        let kind = work.own(store);
        let subject = work
            .rig
            .open(kind, &work.directory, &[Scenario::Draw], units)
            .await?;
        let calls = Arc::new(subject.calls(Scenario::Draw));
        if subject.redis.is_some() {
            let bytes = Bytes::of(subject.redis.as_ref()).await?.kind("units") as f64;
            work.costs.found(
                name,
                "waiting units",
                &at,
                bytes / units as f64,
                "bytes a unit",
            );
        }
        let warm_up = draws(before);
        let numbers = Arc::default();
        refuse_failures("draws", &call(&calls, &warm_up, &numbers).await?)?;
        let scripts = match &subject.redis {
            Some(redis) => Some(redis.scripts().await?.1),
            None => None,
        };
        let plan = draws(warm_up.calls_max + timed);
        let record = call(&calls, &plan, &numbers).await?;
        refuse_failures("draws", &record)?;
        let (time, what) = match (scripts, &subject.redis) {
            (Some(before), Some(redis)) => (
                redis.scripts().await?.1.saturating_sub(before),
                "Redis's time",
            ),
            // Without the time in which the load connects.
            _ => (record.time, "time of draws, many at once"),
        };
        let micros = time.as_secs_f64() * 1e6 / record.calls.max(1) as f64;
        work.costs.found(name, what, &at, micros, "µs a draw");
        match first {
            None => first = Some(micros),
            Some(first) => {
                let at = format!("{units} waiting over {first_units}");
                work.costs.found(name, what, at, micros / first, "times");
            }
        }
        work.close().await?;
    }
    Ok(())
}

/// Measures injected units per second, and on Redis the longest script.
pub(super) async fn inject(work: &mut Work<'_>, store: Store) -> Outcome {
    let (name, units) = (store.name(), work.args.injected);
    let at = format!("{units} injected");
    let kind = work.own(store);
    let subject = work.rig.open_empty(kind, &work.directory).await?;
    subject.make_schedule(units).await?;
    if let Some(redis) = &subject.redis {
        for (setting, value) in [
            ("slowlog-max-len", "100000"),
            ("slowlog-log-slower-than", SLOW_MICROS),
        ] {
            redis
                .ask::<String>(&["CONFIG", "SET", setting, value])
                .await?;
        }
        redis.ask::<String>(&["SLOWLOG", "RESET"]).await?;
    }
    let begun = Instant::now();
    subject.release(units).await?;
    let seconds = begun.elapsed().as_secs_f64();
    if let Some(redis) = &subject.redis {
        let slow: Vec<Vec<redis::Value>> = redis.ask(&["SLOWLOG", "GET", "-1"]).await?;
        let mut micros: Vec<i64> = slow.iter().filter_map(|entry| micros(entry)).collect();
        micros.sort_unstable();
        let longest = micros.last().copied().unwrap_or(0) as f64 / 1000.0;
        work.costs
            .found(name, "longest script of an injection", &at, longest, "ms");
        let over = micros.iter().filter(|micros| **micros > 5000).count() as f64;
        work.costs
            .found(name, "scripts above 5 ms", &at, over, "scripts");
    }
    work.costs.found(
        name,
        "injection, the service's start with it",
        &at,
        units as f64 / seconds,
        "units a second",
    );
    work.close().await
}

/// The third field of a slow log entry: its duration in microseconds.
fn micros(entry: &[redis::Value]) -> Option<i64> {
    match entry.get(2) {
        Some(redis::Value::Int(micros)) => Some(*micros),
        _ => None,
    }
}
