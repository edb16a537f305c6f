//! The options of `tombola-bench overload`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, value_parser};

use crate::{options::span, subject::Store};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Each phase takes --duration. A draw that has no answer after a second has failed.

Example:
  tombola-bench overload
  tombola-bench overload --store redis --duration 10s --times 5"
)]
pub(crate) struct OverloadArgs {
    /// The store of the service
    #[arg(
        long,
        env = "TOMBOLA_BENCH_OVERLOAD_STORE",
        value_enum,
        value_name = "STORE",
        default_value = "embedded"
    )]
    pub(super) store: Store,
    /// How many times the peak is the load that is too much
    #[arg(long, env = "TOMBOLA_BENCH_OVERLOAD_TIMES", value_name = "N", default_value_t = 3,
          value_parser = value_parser!(u64).range(2..=20))]
    pub(super) times: u64,
    /// Connections of the load
    #[arg(long, env = "TOMBOLA_BENCH_OVERLOAD_CONNECTIONS", value_name = "N", default_value_t = 8,
          value_parser = value_parser!(u16).range(1..=1000))]
    pub(super) connections: u16,
    /// Calls in progress on each connection while the peak is measured
    #[arg(long, env = "TOMBOLA_BENCH_OVERLOAD_OUTSTANDING", value_name = "N", default_value_t = 16,
          value_parser = value_parser!(u16).range(1..=1000))]
    pub(super) outstanding: u16,
    /// The length of each phase
    #[arg(long, env = "TOMBOLA_BENCH_OVERLOAD_DURATION", value_name = "SPAN", default_value = "5s",
          value_parser = span)]
    pub(super) duration: Duration,
    /// Directory for temporary data: its disk is part of the measurement [default: the system's
    /// temporary directory]
    #[arg(long, env = "TOMBOLA_BENCH_OVERLOAD_DIRECTORY", value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,
}
