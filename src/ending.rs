//! The end of a process that would do harm if it went on.

use std::sync::OnceLock;

use tracing::error;

static SAY: OnceLock<fn(&str)> = OnceLock::new();

/// Sets how this process says its last words: `say` waits until they are out, but not for long.
/// The first call counts. Without one they are an event of the log, which may be lost.
pub(crate) fn say_by(say: fn(&str)) {
    SAY.set(say).ok();
}

/// Ends the process with exit code 1. Nothing is closed.
pub(crate) fn end(words: &str) -> ! {
    match SAY.get() {
        Some(say) => say(words),
        None => error!("{words}"),
    }
    std::process::exit(1)
}
