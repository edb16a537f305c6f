//! Runs a document as a reader would: in a directory of its own, with its servers in the
//! background, and with free ports instead of those in the text.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;
use tombola::model::file;

use super::{Fence, Verdict};
use crate::{
    process::{Ended, Output, alone, project, tombola},
    support::redis_server::free_port,
};

/// Ports in the documents: two services and a Redis.
const PORTS: [&str; 3] = ["50051", "50052", "6379"];
/// The comment on a command that must fail.
const REFUSED: &str = "# refused";
/// Output of a server that is ready.
const READY: [&str; 2] = ["serving on ", "Ready to accept connections"];
/// A replacement for grpcurl, which few machines have. It makes the same call with buf, also by
/// reflection.
const GRPCURL: &str = r#"#!/bin/bash
set -euo pipefail
body='{}'
while [ $# -gt 2 ]; do
    case $1 in
    -plaintext) shift ;;
    -d) body=$2; shift 2 ;;
    *) echo "grpcurl $1: not known here" >&2; exit 64 ;;
    esac
done
call=(--protocol grpc --http2-prior-knowledge)
if [ "$2" = list ]; then exec "$BUF" curl "${call[@]}" --list-services "http://$1"; fi
exec "$BUF" curl "${call[@]}" --data "$body" "http://$1/$2"
"#;

/// A running document. Its servers are killed when it is dropped.
pub struct Session {
    directory: TempDir,
    ports: [u16; PORTS.len()],
    servers: Vec<(Child, Output)>,
}

impl Session {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["proto", "deploy"] {
            symlink(project(name), directory.path().join(name)).unwrap();
        }
        let bin = directory.path().join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(tombola([""; 0]).get_program(), bin.join("tombola")).unwrap();
        fs::write(bin.join("grpcurl"), GRPCURL).unwrap();
        fs::set_permissions(bin.join("grpcurl"), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["kubectl", "docker"] {
            symlink(project("tests/clients/cluster"), bin.join(name)).unwrap();
        }
        Self {
            directory,
            ports: PORTS.map(|_| free_port()),
            servers: Vec::new(),
        }
    }

    /// Runs a fence.
    pub fn run(&mut self, fence: &Fence) -> Result<Verdict, String> {
        let text = at_own_ports(&fence.text, self.ports);
        if let Some(name) = fence.file() {
            fs::write(self.directory.path().join(name), &text).unwrap();
        }
        if fence.has("norun") {
            return Ok(Verdict::NotRun);
        }
        match fence.language() {
            "sh" if fence.has("background") => self.start(&text).map(|()| Verdict::Ran),
            "sh" => self.bash(&expecting_refusals(&text)).map(|()| Verdict::Ran),
            "python" => {
                let name = fence.file().ok_or("a Python fence needs file=NAME")?;
                self.bash(&format!("python {name}")).map(|()| Verdict::Ran)
            }
            "yaml" => parse_yaml(&text).map(|()| Verdict::Parsed),
            "json" => match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(_) => Ok(Verdict::Parsed),
                Err(error) => Err(error.to_string()),
            },
            "proto" => find_in_protos(&text).map(|()| Verdict::Parsed),
            // Queries run in the tests of the ledger, which have a database.
            "text" | "sql" => Ok(Verdict::Shown),
            other => Err(format!(
                "nothing runs the language `{other}`: name one that is known, or add norun"
            )),
        }
    }

    /// A command with the document's tools; `TOMBOLA_SERVER` names the first port.
    fn command(&self, program: &str) -> Command {
        let address = format!("127.0.0.1:{}", self.ports[0]);
        let paths = [self.directory.path().join("bin"), project(".venv/bin")];
        let given = std::env::var_os("PATH").unwrap_or_default();
        let paths = paths.into_iter().chain(std::env::split_paths(&given));
        let mut command = alone(program);
        command.current_dir(self.directory.path());
        command.env("PATH", std::env::join_paths(paths).unwrap());
        command.env("KUSTOMIZE", tool("tests/servers/kustomize"));
        command.env("BUF", tool("tests/clients/node_modules/.bin/buf"));
        command.env("TOMBOLA_SERVER", format!("http://{address}"));
        command.env("TOMBOLA_LISTEN", address);
        command
    }

    fn bash(&self, script: &str) -> Result<(), String> {
        let mut command = self.command("timeout");
        command.args(["300", "bash", "-euo", "pipefail", "-c", script]);
        let ended = Ended::of(&mut command);
        if ended.code == Some(0) {
            return Ok(());
        }
        Err(format!("{script}\n{}\n{}", ended.stdout, ended.stderr))
    }

    /// Starts each line as a server, and waits until it is ready.
    fn start(&mut self, text: &str) -> Result<(), String> {
        for line in text.lines() {
            let mut command = self.command("bash");
            command.args(["-c", &format!("exec {line}")]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let output = Output::of(&mut child);
            let is_ready = |line: &str| READY.iter().any(|word| line.contains(word));
            let found = output.wait_for(|line| is_ready(line).then_some(()));
            let said = output.text();
            self.servers.push((child, output));
            found.ok_or(format!("{line}: it ended:\n{said}"))?;
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for (server, _) in &mut self.servers {
            server.kill().ok();
            server.wait().ok();
        }
    }
}

/// The script, changed so that commands which must fail succeed if they do fail.
fn expecting_refusals(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(REFUSED) {
        Some((command, _)) => {
            format!("if {command}; then echo 'not refused: {command}' >&2; exit 1; fi")
        }
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Checks a campaign by all rules of campaigns, any other text as YAML.
fn parse_yaml(text: &str) -> Result<(), String> {
    if text.contains("\npools:") {
        return match file::check(text) {
            Ok(_) => Ok(()),
            Err(problems) => Err(problems.to_string()),
        };
    }
    match serde_saphyr::from_str::<serde_json::Value>(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks that every line of an excerpt is in one of the proto files.
fn find_in_protos(text: &str) -> Result<(), String> {
    let files = fs::read_dir(project("proto/tombola/v1")).unwrap();
    let protos: Vec<String> = files
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let is_there = |line: &str| {
        let mut lines = protos.iter().flat_map(|proto| proto.lines());
        lines.any(|found| found.trim() == line.trim())
    };
    match text.lines().find(|line| !is_there(line)) {
        None => Ok(()),
        Some(line) => Err(format!("no proto file has the line `{line}`")),
    }
}

/// A tool that `tests/prepare` installs.
fn tool(path: &str) -> PathBuf {
    let tool = project(path);
    assert!(
        tool.exists(),
        "{path} is missing: tests/prepare installs it"
    );
    tool
}

/// A text with ports of ours instead of those of the documents.
fn at_own_ports(text: &str, ports: [u16; PORTS.len()]) -> String {
    let mut text = text.to_owned();
    // All of theirs are marked first: one of ours, such as 16379, may contain one of theirs.
    let mark = |index: usize| format!("\0{index}\0");
    for (index, theirs) in PORTS.iter().enumerate() {
        text = text.replace(theirs, &mark(index));
    }
    for (index, ours) in ports.iter().enumerate() {
        text = text.replace(&mark(index), &ours.to_string());
    }
    text
}

#[test]
fn a_port_is_replaced_once() {
    let text = "redis://127.0.0.1:6379 and 127.0.0.1:50051, 50052";
    let ours = at_own_ports(text, [16_379, 20_000, 11_943]);
    assert_eq!(ours, "redis://127.0.0.1:11943 and 127.0.0.1:16379, 20000");
}
