//! `tombola bench`, which became the program `tombola-bench`: for one release it says so.

use std::ffi::OsString;

use clap::Args;

use super::{client::Outcome, failure::Failure};

/// Takes whatever the bench took.
#[derive(Args, Clone, Debug)]
#[command(disable_help_flag = true, after_help = "Example:\n  tombola bench")]
pub(super) struct BenchArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

/// Refuses as wrong usage.
pub(super) fn run(_: BenchArgs) -> Outcome {
    Err(Failure::usage(
        "the bench is a program of its own, tombola-bench, with the same options: build both with \
         \"cargo build --release --workspace\", then run target/release/tombola-bench, or \
         \"cargo run --release -p tombola-bench --\"",
    ))
}
