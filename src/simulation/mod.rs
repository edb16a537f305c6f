//! A campaign played through before its first draw: the injector and the rules of the stores, over
//! the store in memory, on a clock that is moved from draw to draw.
//!
//! A simulation decides nothing itself. It makes up users who draw ([`crowd`]), lets one campaign
//! run from its start to its end for each seed ([`run`]), and sums the runs up ([`forecast`]). It
//! is deterministic: the same campaign, crowd and seed give the same run.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use crate::{
    model::Campaign,
    store::{Result, StoreError},
};

pub mod crowd;
pub mod forecast;
mod run;
mod share;
#[cfg(test)]
mod tests;
mod users;

use self::{crowd::Crowd, forecast::Forecast, run::Run};

/// Plays a campaign through once for each seed, from seed 1 on, on all cores.
///
/// # Errors
/// If a run fails, as when memory is full; the first one.
pub fn simulate(campaign: &Arc<Campaign>, crowd: &Crowd, seeds: u32) -> Result<Forecast> {
    let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let forecast = simulate_unless(campaign, crowd, seeds, cores, &|| false)?;
    forecast.ok_or_else(|| StoreError::corrupt("a simulation has ended early"))
}

/// As [`simulate`], on this many threads, and no longer than until `is_late` says that it takes too
/// long, which is asked often: the forecast is that of the runs that are done by then. None if no
/// run is done.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_unless(
    campaign: &Arc<Campaign>,
    crowd: &Crowd,
    seeds: u32,
    threads: NonZeroUsize,
    is_late: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Forecast>> {
    let campaign = &with_enough_codes(campaign);
    let next = AtomicU32::new(1);
    let runs = || -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > seeds {
                return Ok(runs);
            }
            match run::play(campaign, crowd, seed, is_late)? {
                Some(run) => runs.push(run),
                None => return Ok(runs),
            }
        }
    };
    let done: Vec<Result<Vec<Run>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.get()).map(|_| scope.spawn(runs)).collect();
        let joined = threads.into_iter().map(|thread| {
            let failed = |_| Err(StoreError::corrupt("a simulation has panicked"));
            thread.join().unwrap_or_else(failed)
        });
        joined.collect()
    });
    let mut runs: Vec<Run> = Vec::new();
    for done in done {
        runs.extend(done?);
    }
    // Sums of floating-point numbers depend on their order.
    runs.sort_unstable_by_key(|run| run.seed);
    Ok((!runs.is_empty()).then(|| Forecast::of(campaign, crowd, &runs)))
}

/// The campaign, with as many codes as its users win: how many will be imported is not known.
fn with_enough_codes(campaign: &Arc<Campaign>) -> Arc<Campaign> {
    let mut campaign = Campaign::clone(campaign);
    for prize in &mut campaign.prizes {
        prize.unlimited |= std::mem::take(&mut prize.codes);
    }
    Arc::new(campaign)
}
