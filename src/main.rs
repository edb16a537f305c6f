//! The `tombola` binary: parse and dispatch.

/// The hot path makes and drops many small texts; this allocator serves them faster than the
/// system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tombola::tls::install_provider();
    tombola::cli::run()
}
