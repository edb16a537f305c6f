//! `tombola bench cost`: what a draw, a user and a waiting unit take of processors, memory and disk, and how that grows. The figures from
//! which a campaign's machines are chosen (`docs/capacity.md`).
//!
//! Each part starts services of its own and takes them away again. Like the bench it asks only gRPC, the operating system and Redis.

mod connections;
mod latency;
mod units;
mod users;

use std::path::PathBuf;

use clap::{Args, value_parser};
use serde::Serialize;

use super::{
    campaigns::UNITS_MAX,
    host::Host,
    options::{directory, span},
    run::House,
    subject::{Kind, Store},
};
use crate::cli::{
    client::Outcome,
    output::{Side, Table, note},
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Takes some minutes and some gigabytes below --directory, which are gone at its end.

Example:
  tombola bench cost
  tombola bench cost --users 10000 --units 10000,100000 --injected 100000"
)]
pub(in crate::cli) struct CostArgs {
    /// Where services keep their data: embedded, redis
    #[arg(
        long,
        env = "TOMBOLA_BENCH_COST_STORE",
        value_enum,
        value_delimiter = ',',
        value_name = "STORES",
        default_value = "redis,embedded"
    )]
    store: Vec<Store>,
    /// Users who draw once, one or more numbers of them
    #[arg(long, env = "TOMBOLA_BENCH_COST_USERS", value_delimiter = ',', value_name = "NUMBERS",
          default_value = "10000,100000,1000000", value_parser = value_parser!(u64).range(100..=100_000_000))]
    users: Vec<u64>,
    /// Units that wait while draws are timed, one or more numbers of them
    #[arg(long, env = "TOMBOLA_BENCH_COST_UNITS", value_delimiter = ',', value_name = "NUMBERS",
          default_value = "10000,100000,1000000,3000000", value_parser = value_parser!(u64).range(1000..=UNITS_MAX))]
    units: Vec<u64>,
    /// Units of an injection that is timed
    #[arg(long, env = "TOMBOLA_BENCH_COST_INJECTED", value_name = "N", default_value_t = 1_000_000,
          value_parser = value_parser!(u64).range(1000..=UNITS_MAX))]
    injected: u64,
    /// Connections that do nothing
    #[arg(long, env = "TOMBOLA_BENCH_COST_IDLE", value_name = "N", default_value_t = 1000,
          value_parser = value_parser!(u64).range(1..=60_000))]
    idle: u64,
    /// How long each timing is
    #[arg(long, env = "TOMBOLA_BENCH_COST_DURATION", value_name = "SPAN", default_value = "5s", value_parser = span)]
    duration: std::time::Duration,
    /// Where temporary data are made: its disk is what is measured [default: the system's temporary directory]
    #[arg(long, env = "TOMBOLA_BENCH_COST_DIRECTORY", value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Costs {
    tombola: &'static str,
    host: Host,
    costs: Vec<Cost>,
    /// Parts that were not measured, and why.
    pub(super) failed: Vec<String>,
    /// P2 of every campaign of the bench.
    pub(super) balanced: bool,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
struct Cost {
    store: String,
    what: String,
    /// With how many users, units or connections.
    at: String,
    value: f64,
    unit: &'static str,
}

/// What the parts share.
struct Work<'a> {
    args: &'a CostArgs,
    directory: PathBuf,
    house: &'a mut House,
    costs: Found,
    failed: Vec<String>,
    balanced: bool,
}

/// Figures as they come.
#[derive(Default)]
struct Found(Vec<Cost>);

impl Found {
    fn found(
        &mut self,
        store: &str,
        what: &str,
        at: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) {
        self.0.push(Cost {
            store: store.into(),
            what: what.into(),
            at: at.into(),
            value,
            unit,
        });
    }
}

impl Work<'_> {
    /// Checks the sums of all services that run, and takes them away.
    async fn close(&mut self) -> Outcome {
        for subject in self.house.subjects() {
            self.balanced &= subject.sums().await?.iter().all(|sums| sums.balanced);
        }
        self.house.close().await;
        Ok(())
    }
}

fn own(store: Store) -> Kind {
    Kind::Own {
        store,
        redis_url: None,
    }
}

/// What is measured of each store.
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

/// Measures all parts.
pub(super) async fn measure(args: &CostArgs, house: &mut House) -> Outcome<Costs> {
    let directory = directory(args.directory.clone())?;
    let host = Host::look(&directory);
    let mut work = Work {
        args,
        directory,
        house,
        costs: Found::default(),
        failed: Vec::new(),
        balanced: true,
    };
    for store in args.store.clone() {
        for part in PARTS {
            note(&format!("{}: {}", store.name(), part.name()));
            // What one part found is not lost with another that fails.
            if let Err(failure) = part.measure(&mut work, store).await {
                let what = format!("{}, {}", store.name(), part.name());
                note(&format!("{what}: {}", failure.message));
                work.failed.push(format!("{what}: {}", failure.message));
                work.house.close().await;
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

/// As a table.
pub(super) fn render(costs: &Costs) -> String {
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
            crate::model::text::grouped(cost.value.round() as u64)
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
        "tombola {} on {} cores of {}; a write of 4 KiB is on the disk of {} after {} µs (p50)\n\n{}",
        costs.tombola,
        host.cores,
        host.processor,
        host.directory,
        host.fsync_us_p50,
        table.render()
    )
}
