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

/// What should happen within moments fails the test only after this long: it bounds a hang, it
/// measures nothing.
pub const PATIENCE: Duration = Duration::from_secs(120);

const BENCH: &str = env!("CARGO_BIN_EXE_tombola-bench");

/// The bench, free of the caller's settings.
pub fn bench() -> Command {
    alone(BENCH)
}

/// The server program, free of the caller's settings. Cargo gives its path to the tests of its own
/// package only; it is built beside the bench.
pub fn tombola() -> Command {
    let program = Path::new(BENCH).with_file_name("tombola");
    assert!(
        program.is_file(),
        "there is no {}: run \"cargo test --workspace\", which builds it before any test runs",
        program.display()
    );
    alone(program)
}

/// A command without standard input, and without settings of ours that the caller may have.
fn alone(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOMBOLA_") {
            command.env_remove(name);
        }
    }
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
    /// Starts one on these data, on a free port, and waits until it serves.
    pub fn start(data: &Path) -> Self {
        let mut command = tombola();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(data);
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

    /// A command of the server's own client against this server.
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
