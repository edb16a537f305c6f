//! The command line: parse and dispatch, one file a subcommand.

/// Runs the command that the arguments name.
pub fn run() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
