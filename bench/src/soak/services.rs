//! The services of a store under a soak: they come and go while the load goes on.

use std::{convert::Infallible, future::pending, path::Path, sync::Arc, time::Duration};

use serde::Serialize;
use tempfile::TempDir;
use tokio::time::sleep;

use super::{args::Times, stage::Stage};
use crate::{
    failure::{Failure, Outcome},
    output::note,
    process::Process,
    redis_server::directory,
    service::Address,
    subject::{Subject, serve},
};

/// One stop in so many is by SIGKILL, where other services go on.
const KILLED: u32 = 4;
/// The part of the time between restarts that a service is away, if there are others.
const AWAY_PART: u32 = 20;
/// How many times less often an only service is restarted.
const RARELY: u32 = 6;
/// What a service logs when the data of a campaign begin to leave the store.
const REMOVED: &str = "is read from the settled ledger from now on";
/// The shortest span of the options that take spans of the store's clock.
const SPAN_MIN: Duration = Duration::from_secs(60);

/// The services of a store.
pub(super) struct Services<'a> {
    subject: &'a Subject,
    stage: Arc<Stage>,
    times: Times,
    // The processes end before their directories are removed.
    running: Vec<Option<Process>>,
    /// The directories of all but the first, which has that of the store.
    homes: Vec<TempDir>,
    pub(super) record: ServicesRecord,
}

/// What happened to the services.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct ServicesRecord {
    /// Services that were started, at first and again.
    pub(super) starts: u64,
    pub(super) terminated: u64,
    pub(super) killed: u64,
    /// Campaigns whose data left the store.
    pub(super) removed: u64,
    /// What services logged as an error, the first lines.
    pub(super) errors: Vec<String>,
    /// Services that ended by themselves, or did not stop.
    pub(super) faults: Vec<String>,
}

impl<'a> Services<'a> {
    /// Starts as many services as the stage is for.
    pub(super) async fn start(
        subject: &'a Subject,
        parent: &Path,
        stage: &Arc<Stage>,
        (count, times): (usize, Times),
    ) -> Outcome<Self> {
        let mut services = Self {
            subject,
            stage: Arc::clone(stage),
            times,
            running: (0..count).map(|_| None).collect(),
            homes: Vec::new(),
            record: ServicesRecord::default(),
        };
        for _ in 1..count {
            services.homes.push(directory(parent)?);
        }
        services.complete().await?;
        Ok(services)
    }

    /// Starts those that do not run.
    pub(super) async fn complete(&mut self) -> Outcome {
        for index in 0..self.running.len() {
            if self.running[index].as_mut().is_none_or(Process::has_ended) {
                if let Some(process) = self.take(index) {
                    self.read_log(&process);
                }
                self.start_one(index).await?;
            }
        }
        Ok(())
    }

    /// Stops and starts one service after the other, again and again.
    pub(super) async fn come_and_go(&mut self) -> Outcome<Infallible> {
        let count = self.running.len();
        let has_others = count > 1;
        let (every, away) = match has_others {
            true => (
                self.times.restart_every,
                self.times.restart_every / AWAY_PART,
            ),
            false => (self.times.restart_every * RARELY, Duration::ZERO),
        };
        for turn in 0_u32.. {
            sleep(every).await;
            let index = turn as usize % count;
            let is_killed = has_others && turn % KILLED == KILLED - 1;
            self.stop_one(index, is_killed).await;
            sleep(away).await;
            self.start_one(index).await?;
        }
        pending().await
    }

    /// Takes the process of a service. That it has ended by itself is a fault.
    fn take(&mut self, index: usize) -> Option<Process> {
        let mut process = self.running[index].take()?;
        if process.has_ended() {
            let fault = format!("service {index} ended by itself");
            self.record.faults.push(fault);
        }
        Some(process)
    }

    async fn stop_one(&mut self, index: usize, is_killed: bool) {
        let Some(mut process) = self.take(index) else {
            return;
        };
        note(&format!(
            "{}: service {index} is {}",
            self.subject.name,
            if is_killed { "killed" } else { "stopped" }
        ));
        if is_killed {
            self.record.killed += 1;
        } else {
            match process.stop().await {
                Ok(()) => self.record.terminated += 1,
                Err(failure) => self.record.faults.push(failure.message),
            }
        }
        self.read_log(&process);
        drop(process);
        self.stage.exit(index);
    }

    async fn start_one(&mut self, index: usize) -> Outcome {
        let (subject, day) = (self.subject, self.times.day());
        let bug = || Failure::refused("BUG", "a soak starts its own services");
        let mut command = subject.serve_command().ok_or_else(bug)?;
        let first = subject.data().ok_or_else(bug)?;
        let home = match index.checked_sub(1) {
            None => first,
            Some(other) => self.homes[other].path(),
        };
        command.arg("--data").arg(home);
        if index > 0 {
            command.arg("--master-key").arg(first.join("master.key"));
        }
        let span = |span: Duration| format!("{}s", span.max(SPAN_MIN).as_secs());
        command.args(["--request-memory", &span(day)]);
        command.args(["--keep-closed", &span(day * 2)]);
        command.args(["--envelope-retention", &span(day / 4)]);
        command.args(["--clock-speed", &self.times.speed.to_string()]);
        command.args(["--clock-start", &self.stage.clock.now().to_string()]);
        let (process, address) = serve(&mut command, &home.join("serve.log")).await?;
        let address = Address::plain(format!("http://{address}"));
        self.record.starts += 1;
        self.stage
            .enter(index, address, process.pid(), self.record.starts);
        self.running[index] = Some(process);
        Ok(())
    }

    /// Stops all services; what happened to them.
    pub(super) async fn end(mut self) -> ServicesRecord {
        for index in 0..self.running.len() {
            let Some(mut process) = self.take(index) else {
                continue;
            };
            if let Err(failure) = process.stop().await {
                self.record.faults.push(failure.message);
            }
            self.read_log(&process);
        }
        self.record
    }

    fn read_log(&mut self, process: &Process) {
        const SHOWN: usize = 10;
        self.record.removed += process.lines_with(REMOVED).len() as u64;
        let lines = process.lines_with(" ERROR ").into_iter();
        let lines = lines.chain(process.lines_with("panicked"));
        self.record.errors.extend(lines);
        self.record.errors.truncate(SHOWN);
    }
}
