//! The `tombola` binary: parse and dispatch.

fn main() -> std::process::ExitCode {
    tombola::cli::run()
}
