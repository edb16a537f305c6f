//! `tombola-bench cost`: the processor time, memory and disk space that a draw, a user and a
//! waiting unit need, and how they grow. `docs/capacity.md` uses these figures to choose machines.
//!
//! Each part starts its own services and removes them at the end. It asks only gRPC, the operating
//! system and Redis.

mod args;
mod connections;
mod latency;
mod units;
mod users;
mod work;

use std::path::PathBuf;

use tombola::model::text::grouped;

use self::work::{Found, Work};
pub(crate) use self::{args::CostArgs, work::Costs};
use crate::{
    failure::Outcome,
    host::Host,
    options::directory,
    output::{Side, Table, note},
    program,
    rig::Rig,
    subject::Store,
};

/// A measurement that is made on each store.
#[derive(Clone, Copy)]
enum Part {
    Users,
    Units,
    Injection,
    Connections,
    Latency,
}

const PARTS: [Part; 5] = [
    Part::Users,
    Part::Units,
    Part::Injection,
    Part::Connections,
    Part::Latency,
];

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Users => "bytes of users",
            Self::Units => "draws while few and many units wait",
            Self::Injection => "an injection",
            Self::Connections => "connections that do nothing",
            Self::Latency => "latencies",
        }
    }

    async fn measure(self, work: &mut Work<'_>, store: Store) -> Outcome {
        match self {
            Self::Users => users::measure(work, store).await,
            Self::Units => units::measure(work, store).await,
            Self::Injection => units::inject(work, store).await,
            Self::Connections => connections::measure(work, store).await,
            Self::Latency => latency::measure(work, store).await,
        }
    }
}

/// Runs all parts. `program` is the server program if one was named.
pub(crate) async fn measure(
    args: &CostArgs,
    program: Option<PathBuf>,
    rig: &mut Rig,
) -> Outcome<Costs> {
    let directory = directory(args.directory.clone())?;
    let program = program::find(program)?;
    let host = Host::look(&directory);
    let mut work = Work {
        args,
        program,
        directory,
        rig,
        costs: Found::default(),
        failed: Vec::new(),
        balanced: true,
    };
    for store in args.store.clone() {
        for part in PARTS {
            note(&format!("{}: {}", store.name(), part.name()));
            // A part that fails does not discard what the others found.
            if let Err(failure) = part.measure(&mut work, store).await {
                let what = format!("{}, {}", store.name(), part.name());
                note(&format!("{what}: {}", failure.message));
                work.failed.push(format!("{what}: {}", failure.message));
                work.rig.close().await;
            }
        }
    }
    Ok(Costs {
        tombola: env!("CARGO_PKG_VERSION"),
        host,
        costs: work.costs.0,
        failed: work.failed,
        balanced: work.balanced,
    })
}

/// Renders the costs as a table.
pub(crate) fn render(costs: &Costs) -> String {
    let mut table = Table::new([
        ("store", Side::Left),
        ("what", Side::Left),
        ("at", Side::Left),
        ("", Side::Right),
        ("unit", Side::Left),
    ]);
    for cost in &costs.costs {
        let digits = if cost.value < 10.0 { 2 } else { 1 };
        let value = if cost.value >= 1000.0 {
            grouped(cost.value.round() as u64)
        } else {
            format!("{:.digits$}", cost.value)
        };
        table.row([
            cost.store.clone(),
            cost.what.clone(),
            cost.at.clone(),
            value,
            cost.unit.into(),
        ]);
    }
    let host = &costs.host;
    format!(
        "tombola {} on {} cores of {}; a write of 4 KiB is on the disk of {} after {} µs \
         (p50)\n\n{}",
        costs.tombola,
        host.cores,
        host.processor,
        host.directory,
        host.fsync_us_p50,
        table.render()
    )
}
