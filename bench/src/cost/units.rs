//! How a draw's time grows with the units that wait, what a waiting unit takes, and what an
//! injection does to Redis.

use std::{sync::Arc, time::Instant};

use super::{
    users::{Bytes, draws},
    work::Work,
};
use crate::{
    failure::Outcome,
    load::Numbers,
    round::{call, refuse_failures},
    scenario::Scenario,
    subject::Store,
};

/// Draws that are timed, of those that a small pool has, and those before them that are not.
const TIMED_OF: u64 = 2;
const WARM_UP_OF: u64 = 4;
const TIMED_MAX: u64 = 50_000;
/// Scripts of Redis that take longer are looked at one by one.
const SLOW_MICROS: &str = "500";

/// Time a draw, and bytes a unit, by how many wait.
pub(super) async fn measure(work: &mut Work<'_>, store: Store) -> Outcome {
    let name = store.name();
    let mut first: Option<f64> = None;
    // As many draws everywhere, so that what is compared differs in what waits alone.
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
        if subject.beside.is_some() {
            let bytes = Bytes::of(subject.beside.as_ref()).await?.kind("units") as f64;
            work.costs.found(
                name,
                "waiting units",
                &at,
                bytes / units as f64,
                "bytes a unit",
            );
        }
        let warm_up = draws(before);
        let numbers = Numbers::new(&warm_up);
        refuse_failures("draws", &call(&calls, &warm_up, &numbers).await?)?;
        let scripts = match &subject.beside {
            Some(beside) => Some(beside.scripts().await?.1),
            None => None,
        };
        let plan = draws(warm_up.calls_max + timed);
        let begun = Instant::now();
        let record = call(&calls, &plan, &numbers).await?;
        let passed = begun.elapsed();
        refuse_failures("draws", &record)?;
        let (time, what) = match (scripts, &subject.beside) {
            (Some(before), Some(beside)) => (
                beside.scripts().await?.1.saturating_sub(before),
                "Redis's time",
            ),
            _ => (passed, "time of draws, many at once"),
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

/// Units a second, and on Redis the longest script.
pub(super) async fn inject(work: &mut Work<'_>, store: Store) -> Outcome {
    let (name, units) = (store.name(), work.args.injected);
    let at = format!("{units} injected");
    let kind = work.own(store);
    let subject = work.rig.open_empty(kind, &work.directory).await?;
    subject.make_schedule(units).await?;
    if let Some(beside) = &subject.beside {
        for (setting, value) in [
            ("slowlog-max-len", "100000"),
            ("slowlog-log-slower-than", SLOW_MICROS),
        ] {
            beside
                .ask::<String>(&["CONFIG", "SET", setting, value])
                .await?;
        }
        beside.ask::<String>(&["SLOWLOG", "RESET"]).await?;
    }
    let begun = Instant::now();
    subject.release(units).await?;
    let seconds = begun.elapsed().as_secs_f64();
    if let Some(beside) = &subject.beside {
        let slow: Vec<Vec<redis::Value>> = beside.ask(&["SLOWLOG", "GET", "-1"]).await?;
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

/// Of an entry of the slow log the third field.
fn micros(entry: &[redis::Value]) -> Option<i64> {
    match entry.get(2) {
        Some(redis::Value::Int(micros)) => Some(*micros),
        _ => None,
    }
}
