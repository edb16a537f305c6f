//! `tombola bench` is now the program `tombola-bench`. For one release, this command says so.

use std::ffi::OsString;

use clap::Args;

use super::{client::Outcome, failure::Failure};

/// Accepts any arguments.
#[derive(Args, Clone, Debug)]
#[command(disable_help_flag = true, after_help = "Example:\n  tombola bench")]
pub(super) struct BenchArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

/// Fails as wrong usage.
pub(super) fn run(_: BenchArgs) -> Outcome {
    Err(Failure::usage(
        "the bench is now a separate program, tombola-bench, with the same options: build both \
         with \"cargo build --release --workspace\", then run target/release/tombola-bench, or \
         \"cargo run --release -p tombola-bench --\"",
    ))
}
