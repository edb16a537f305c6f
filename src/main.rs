//! The `tombola` binary: parse and dispatch.

/// The hot path makes and drops many small texts; this allocator serves them faster than the
/// system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[allow(unsafe_code)]
fn main() -> std::process::ExitCode {
    // SAFETY: there is no other thread yet.
    unsafe { tombola::store::sqlite::page_cache::install() };
    tombola::tls::install_provider();
    tombola::cli::run()
}
