//! `tombola demo`: a server, a campaign and its users in one process.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Args;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola demo --exit")]
pub(super) struct DemoArgs {
    /// Where callers connect
    #[arg(
        long,
        env = "TOMBOLA_DEMO_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:50051"
    )]
    pub(super) listen: SocketAddr,
    /// Keep the data in this directory [default: a temporary one]
    #[arg(long, env = "TOMBOLA_DEMO_DATA", value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// End once all have drawn, instead of serving on
    #[arg(long, env = "TOMBOLA_DEMO_EXIT")]
    pub(super) exit: bool,
    /// Users who draw
    #[arg(
        long,
        env = "TOMBOLA_DEMO_USERS",
        value_name = "N",
        default_value_t = 1_000
    )]
    pub(super) users: u32,
}

/// Runs the demo.
pub(super) async fn run(args: DemoArgs) -> ExitCode {
    super::output::note(&format!("error: the demo is not built in yet ({args:?})"));
    ExitCode::FAILURE
}
