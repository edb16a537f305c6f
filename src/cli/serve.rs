//! `tombola serve`: the server.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::{Args, ValueEnum};

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola serve --data /var/lib/tombola --listen 0.0.0.0:50051 --log-format json")]
pub(super) struct ServeArgs {
    /// Where callers connect
    #[arg(
        long,
        env = "TOMBOLA_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:50051"
    )]
    pub(super) listen: SocketAddr,
    /// The directory of the embedded store and the master key; made where it is absent
    #[arg(
        long,
        env = "TOMBOLA_DATA",
        value_name = "DIR",
        default_value = "./tombola-data"
    )]
    pub(super) data: PathBuf,
    /// For tests: the store's clock starts at this moment instead of now (RFC 3339)
    #[arg(long, env = "TOMBOLA_CLOCK_START", value_name = "TIME")]
    pub(super) clock_start: Option<String>,
    /// When the next hour is injected: second, minute, hour, day, month, day of the week
    #[arg(
        long,
        env = "TOMBOLA_INJECT_CRON",
        value_name = "CRON",
        default_value = "0 55 * * * *"
    )]
    pub(super) inject_cron: String,
    /// How long a draw's request id is remembered
    #[arg(
        long,
        env = "TOMBOLA_REQUEST_MEMORY",
        value_name = "SPAN",
        default_value = "24h"
    )]
    pub(super) request_memory: String,
    /// How log lines are written
    #[arg(long, env = "TOMBOLA_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(super) log_format: LogFormat,
    /// What is logged, e.g. info or tombola=debug
    #[arg(
        long,
        env = "TOMBOLA_LOG",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub(super) log: String,
}

/// Serves until it is told to stop.
pub(super) async fn run(args: ServeArgs) -> ExitCode {
    super::output::note(&format!("error: serving is not built in yet ({args:?})"));
    ExitCode::FAILURE
}
