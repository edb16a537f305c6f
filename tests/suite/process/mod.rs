//! The real program as a process: a server on a free port, and the client commands.

pub mod admin;
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

/// A test fails if something that should take moments takes longer than this. It is a bound for
/// hangs, not a measurement.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A test clock's start within every campaign of the tests and every sample.
pub const NOW: &str = "2026-12-05T12:10:00+08:00";

/// The path of a file or directory of the project.
pub fn project(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
