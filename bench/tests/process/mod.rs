//! The bench as a process, and a server of the same build to put under load.

#[path = "../../../tests/suite/process/ended.rs"]
mod ended;
#[path = "../../../tests/suite/process/output.rs"]
mod output;

pub use ended::Ended;
pub use output::Output;

use std::{
    ffi::OsStr,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// A test fails if something that should take moments takes longer than this. It is a bound for
/// hangs, not a measurement.
pub const PATIENCE: Duration = Duration::from_secs(120);

const BENCH: &str = env!("CARGO_BIN_EXE_tombola-bench");

/// The bench, without the caller's settings.
pub fn bench() -> Command {
    alone(BENCH)
}

/// The server program, without the caller's settings. Cargo gives its path only to tests of its own
/// package; it is in the same directory as the bench.
pub fn tombola() -> Command {
    let program = Path::new(BENCH).with_file_name("tombola");
    assert!(
        program.is_file(),
        "there is no {}: run \"cargo test --workspace\", which builds it before any test runs",
        program.display()
    );
    alone(program)
}

/// A command without standard input and without the caller's `TOMBOLA_` variables.
fn alone(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOMBOLA_") {
            command.env_remove(name);
        }
    }
    // Many calls at once wait for long in a program that is not optimised.
    command.env("TOMBOLA_QUEUE_TARGET", "0s");
    command.stdin(Stdio::null());
    command
}

/// A running server; it is killed when this is dropped.
pub struct Server {
    child: Child,
    _output: Output,
    /// Its address for clients.
    pub url: String,
}

impl Server {
    /// Starts a server on these data and a free port, and waits until it is ready.
    pub fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    /// The same with further options.
    pub fn start_with(data: &Path, options: &[&str]) -> Self {
        let mut command = tombola();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(data).args(options);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Output::of(&mut child);
        let address = output.wait_for(|line| {
            let (_, after) = line.split_once("serving on ")?;
            let address = after.split_whitespace().next()?;
            Some(address.trim_end_matches([':', ',']).to_owned())
        });
        let address = address.unwrap_or_else(|| panic!("it did not serve:\n{}", output.text()));
        Self {
            child,
            _output: output,
            url: format!("http://{address}"),
        }
    }

    /// Runs a client command of `tombola` against this server.
    pub fn run(&self, line: &str) -> Ended {
        let mut command = tombola();
        command.args(line.split_whitespace());
        Ended::of(command.args(["--server", &self.url]))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
