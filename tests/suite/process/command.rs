//! Commands that run the real program.

use std::{
    ffi::OsStr,
    process::{Command, Stdio},
};

const BINARY: &str = env!("CARGO_BIN_EXE_tombola");

/// The program with these arguments, without the caller's settings.
pub fn tombola<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = alone(BINARY);
    give(&mut command, arguments);
    command
}

/// Adds arguments. A URL with a password goes into its variable, since the program refuses it on
/// its command line.
pub fn give<S: AsRef<OsStr>>(command: &mut Command, arguments: impl IntoIterator<Item = S>) {
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        let url = arguments.next_if(|next| has_password(&next.as_ref().to_string_lossy()));
        let option = argument.as_ref().to_string_lossy();
        match (option.strip_prefix("--"), url) {
            (Some(option), Some(url)) => {
                let name = option.replace('-', "_").to_uppercase();
                command.env(format!("TOMBOLA_{name}"), url);
            }
            (_, url) => {
                command.arg(&argument).args(url);
            }
        }
    }
}

fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map(|(_, rest)| rest);
    let credentials = rest.and_then(|rest| rest.split_once('@'));
    credentials.is_some_and(|(credentials, _)| credentials.contains(':'))
        || url.contains("?sentinel=")
}

/// The same with a limit on the size of files: a write beyond it fails, as on a full disk.
pub fn on_a_small_disk(file_bytes_max: u64) -> Command {
    const LIMITED: &str = r#"trap '' XFSZ; ulimit -f "$1"; shift; exec "$@""#;
    let blocks = (file_bytes_max / 512).to_string(); // POSIX counts blocks of 512 bytes
    let mut command = alone("sh");
    command.args(["-c", LIMITED, "sh", &blocks, BINARY]);
    command
}

/// The same in the namespaces of another process, so that it sees that process's mounts.
pub fn in_namespaces_of(process: u32) -> Command {
    let mut command = alone("nsenter");
    command.args(["--mount", "--preserve-credentials"]);
    if !rustix::process::geteuid().is_root() {
        command.arg("--user");
    }
    command.arg("--target");
    command.args([&process.to_string(), "--", BINARY]);
    command
}

/// A command without standard input and without the caller's `TOMBOLA_` variables.
pub fn alone(program: &str) -> Command {
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
