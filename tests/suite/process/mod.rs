//! The real binary as a process: a server on a port that nobody else has, and the commands of its
//! client.

mod command;
mod ended;
mod output;
mod raw;
mod server;

pub use command::{alone, tombola};
pub use ended::Ended;
pub use output::Output;
pub use raw::{GOAWAY, Raw};
pub use server::{Server, Start};

use std::{path::Path, time::Duration};

/// What should happen within moments fails the test only after this long: it bounds a hang, it
/// measures nothing.
const PATIENCE: Duration = Duration::from_secs(120);

/// A test clock's start within every campaign of the tests and every sample.
pub const NOW: &str = "2026-12-05T12:10:00+08:00";

/// A file or directory of the project.
pub fn project(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
