//! The options of `tombola-bench cost`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, value_parser};

use super::users::SPARE;
use crate::{campaigns::UNITS_MAX, options::span, subject::Store};

/// Each user takes a unit, and some are left.
const USERS_MAX: u64 = UNITS_MAX - SPARE;

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "It takes minutes and some gigabytes in --directory, which it removes at the end.

Example:
  tombola-bench cost
  tombola-bench cost --users 10000 --units 10000,100000 --injected 100000"
)]
pub(crate) struct CostArgs {
    /// Stores of the services: embedded, redis
    #[arg(
        long,
        env = "TOMBOLA_BENCH_COST_STORE",
        value_enum,
        value_delimiter = ',',
        value_name = "STORES",
        default_value = "redis,embedded"
    )]
    pub(super) store: Vec<Store>,
    /// Numbers of users who draw once, one or more
    #[arg(long, env = "TOMBOLA_BENCH_COST_USERS", value_delimiter = ',', value_name = "NUMBERS",
          default_value = "10000,100000,1000000",
          value_parser = value_parser!(u64).range(100..=USERS_MAX))]
    pub(super) users: Vec<u64>,
    /// Numbers of units that wait while draws are timed, one or more
    #[arg(long, env = "TOMBOLA_BENCH_COST_UNITS", value_delimiter = ',', value_name = "NUMBERS",
          default_value = "10000,100000,1000000,3000000",
          value_parser = value_parser!(u64).range(1000..=UNITS_MAX))]
    pub(super) units: Vec<u64>,
    /// Units of the timed injection
    #[arg(long, env = "TOMBOLA_BENCH_COST_INJECTED", value_name = "N", default_value_t = 1_000_000,
          value_parser = value_parser!(u64).range(1000..=UNITS_MAX))]
    pub(super) injected: u64,
    /// Idle connections
    #[arg(long, env = "TOMBOLA_BENCH_COST_IDLE", value_name = "N", default_value_t = 1000,
          value_parser = value_parser!(u64).range(1..=60_000))]
    pub(super) idle: u64,
    /// The length of each timing
    #[arg(long, env = "TOMBOLA_BENCH_COST_DURATION", value_name = "SPAN", default_value = "5s",
          value_parser = span)]
    pub(super) duration: Duration,
    /// Directory for temporary data: its disk is part of the measurement [default: the system's
    /// temporary directory]
    #[arg(long, env = "TOMBOLA_BENCH_COST_DIRECTORY", value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,
}
