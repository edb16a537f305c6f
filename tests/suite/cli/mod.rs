//! The client commands of the real program, against a running server.

mod codes;
mod decks;
mod envelopes;
mod ids;
mod input;
mod operators;
mod people;
mod samples;
mod simulate;
mod stock;
mod strangers;

use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Ended, Server, Start};

/// A campaign with a schedule and a deck, named `wheel`.
const WHEEL: &str = r#"
id: wheel
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
limits: {drawsPerDay: 3, paidDrawsPerDay: 10}
consolation: {id: points, name: 5 points}
prizes:
  - {id: car, stock: 1, grand: true}
  - {id: coupon, name: Phone coupon, stock: 300000}
pools:
  - {id: hours, schedule: {perHour: {coupon: 100}}}
  - {id: deck, deck: {size: 100, cards: {car: 1, coupon: 9}, onExhausted: RESHUFFLE}}
"#;

/// A server, and a directory for the test's files.
struct Desk {
    server: Server,
    directory: TempDir,
}

impl Desk {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Start::on(&directory.path().join("data")).serve();
        Self { server, directory }
    }

    /// A server with the campaign `wheel`.
    fn with_wheel() -> Self {
        let desk = Self::new();
        let file = desk.file("wheel.yaml", WHEEL);
        desk.run("apply -f", &[&file]).well();
        desk
    }

    /// Writes a file and returns its path.
    fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs a command. `line` is split at blanks; arguments with blanks go into `more`.
    fn run(&self, line: &str, more: &[&str]) -> Ended {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.extend(more);
        self.server.run(&words)
    }

    /// Runs a command with `--json` and returns its output.
    #[track_caller]
    fn json(&self, line: &str) -> Value {
        let said = self.run(line, &["--json"]).well();
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{line}: {error}\n{said}"))
    }
}
