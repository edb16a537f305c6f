//! `tombola-bench soak`: days of a campaign in hours, on a clock that is faster than real time,
//! with all that happens to a service in such a time. What takes memory, disk or time must be the
//! same at the end as in the middle, and the sums must add up throughout.
//!
//! | file | purpose |
//! |---|---|
//! | `args` | the options, and how fast the clock is |
//! | `story` | the campaigns and what happens by the stores' clock |
//! | `stage` | what the others share: which services live, and what callers noted |
//! | `links`, `callers`, `operator` | calls that are repeated until they are answered |
//! | `services` | services that come and go |
//! | `samples`, `flat`, `report` | figures over time, and whether they are flat |
//! | `site` | one store with all of this |

mod args;
mod callers;
mod flat;
mod links;
mod operator;
mod report;
mod samples;
mod services;
mod site;
mod stage;
mod story;

use std::{
    future::{Future, poll_fn},
    path::PathBuf,
    pin::Pin,
    task::Poll,
};

pub(crate) use self::{
    args::SoakArgs,
    report::{Soak, render},
};
use self::{site::Site, story::StoryClock};
use crate::{
    failure::Outcome,
    host::Host,
    options::{check_report, directory},
    program,
    rig::Rig,
    subject::Kind,
};

/// Runs the story on all stores at the same time.
pub(crate) async fn measure(
    args: &SoakArgs,
    program: Option<PathBuf>,
    rig: &mut Rig,
) -> Outcome<Soak> {
    let (times, stores) = (args.times()?, args.stores()?);
    args.report.as_deref().map_or(Ok(()), check_report)?;
    let directory = directory(args.directory.clone())?;
    let program = program::find(program)?;
    let host = Host::look(&directory);
    for store in stores {
        let kind = Kind::Own {
            program: program.clone(),
            store: *store,
            redis_url: None,
            is_shedding: true,
        };
        rig.open_empty(kind, &directory).await?;
    }
    let clock = StoryClock::start(times.speed);
    let mut sites = Vec::new();
    for subject in rig.subjects() {
        sites.push(Site::start(subject, &directory, clock, (times, args.users)).await?);
    }
    // The stores share the machine while the peak is measured, as they do afterwards.
    all(sites.iter_mut().map(|site| site.set_rate(args.rate))).await?;
    Ok(Soak {
        tombola: env!("CARGO_PKG_VERSION"),
        build: tombola::BUILD_ID,
        host,
        load_seconds: times.load.as_secs_f64(),
        days: times.story.as_secs_f64() / 86_400.0,
        speed: times.speed,
        users: args.users,
        stores: all(sites.into_iter().map(Site::run)).await?,
    })
}

/// Awaits all futures at the same time. The first failure ends the others: they are dropped here,
/// and their processes with them, before the stores are removed.
async fn all<T>(
    futures: impl Iterator<Item = impl Future<Output = Outcome<T>>>,
) -> Outcome<Vec<T>> {
    type Run<'a, T> = (Pin<Box<dyn Future<Output = Outcome<T>> + 'a>>, Option<T>);
    let mut runs: Vec<Run<'_, T>> = Vec::new();
    for future in futures {
        runs.push((Box::pin(future), None));
    }
    let ended: Outcome = poll_fn(|cx| {
        for (future, done) in &mut runs {
            if done.is_none()
                && let Poll::Ready(ended) = future.as_mut().poll(cx)
            {
                *done = Some(ended?);
            }
        }
        match runs.iter().all(|(_, done)| done.is_some()) {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    })
    .await;
    ended?;
    Ok(runs.into_iter().filter_map(|(_, done)| done).collect())
}
