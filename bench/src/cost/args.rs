//! The options of `tombola-bench cost`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, value_parser};

use crate::{campaigns::UNITS_MAX, options::span, subject::Store};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Takes some minutes and some gigabytes below --directory, which are gone at its end.

Example:
  tombola-bench cost
  tombola-bench cost --users 10000 --units 10000,100000 --injected 100000"
)]
pub(crate) struct CostArgs {
    /// Where services keep their data: embedded, redis
    #[arg(
        long,
        env = "TOMBOLA_BENCH_COST_STORE",
        value_enum,
        value_delimiter = ',',
        value_name = "STORES",
        default_value = "redis,embedded"
    )]
    pub(super) store: Vec<Store>,
    /// Users who draw once, one or more numbers of them
    #[arg(long, env = "TOMBOLA_BENCH_COST_USERS", value_delimiter = ',', value_name = "NUMBERS",
          default_value = "10000,100000,1000000", value_parser = value_parser!(u64).range(100..=100_000_000))]
    pub(super) users: Vec<u64>,
    /// Units that wait while draws are timed, one or more numbers of them
    #[arg(long, env = "TOMBOLA_BENCH_COST_UNITS", value_delimiter = ',', value_name = "NUMBERS",
          default_value = "10000,100000,1000000,3000000", value_parser = value_parser!(u64).range(1000..=UNITS_MAX))]
    pub(super) units: Vec<u64>,
    /// Units of an injection that is timed
    #[arg(long, env = "TOMBOLA_BENCH_COST_INJECTED", value_name = "N", default_value_t = 1_000_000,
          value_parser = value_parser!(u64).range(1000..=UNITS_MAX))]
    pub(super) injected: u64,
    /// Connections that do nothing
    #[arg(long, env = "TOMBOLA_BENCH_COST_IDLE", value_name = "N", default_value_t = 1000,
          value_parser = value_parser!(u64).range(1..=60_000))]
    pub(super) idle: u64,
    /// How long each timing is
    #[arg(long, env = "TOMBOLA_BENCH_COST_DURATION", value_name = "SPAN", default_value = "5s", value_parser = span)]
    pub(super) duration: Duration,
    /// Where temporary data are made: its disk is what is measured [default: the system's temporary
    /// directory]
    #[arg(long, env = "TOMBOLA_BENCH_COST_DIRECTORY", value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,
}
