//! All services under test, and the empty server. The owner of a [`Rig`] calls [`Rig::leave`] at
//! the end.

use std::path::Path;

use tempfile::TempDir;

use crate::{
    calls::Grpc,
    empty,
    failure::{CALLS_FAIL, Failure, Outcome},
    process::{Process, not_started, serving_address},
    redis_server::directory,
    scenario::{Ids, Scenario},
    service::Address,
    subject::{Kind, Subject},
};

/// All services under test.
#[derive(Default)]
pub(crate) struct Rig {
    subjects: Vec<Subject>,
    // The process ends before its directory goes.
    empty: Option<(Process, TempDir)>,
}

impl Rig {
    /// Stops everything, and removes what the bench made. Whether all of that is gone.
    pub(crate) async fn leave(mut self) -> bool {
        self.close().await
    }

    /// The same, but the rig can be used again.
    pub(crate) async fn close(&mut self) -> bool {
        self.empty = None;
        let mut is_all_gone = true;
        for subject in std::mem::take(&mut self.subjects) {
            is_all_gone &= subject.leave().await;
        }
        is_all_gone
    }

    /// Adds the ends of the services' logs to a failure of calls: the logs are removed.
    pub(crate) fn explain(&self, failure: Box<Failure>) -> Box<Failure> {
        if failure.reason != CALLS_FAIL {
            return failure;
        }
        let mut hint = failure.hint.clone();
        for subject in &self.subjects {
            if let Some(server) = &subject.server {
                let last = server.last_lines("\n    ");
                hint += &format!("\n  The log of {} ends:\n    {last}", subject.name);
            }
        }
        failure.advise(hint)
    }

    /// Starts a service with campaigns for the scenarios and `units` units to draw.
    pub(crate) async fn open(
        &mut self,
        kind: Kind,
        directory: &Path,
        scenarios: &[Scenario],
        units: u64,
    ) -> Outcome<&mut Subject> {
        let subject = self.add(kind);
        subject.start(directory, scenarios, units).await?;
        Ok(subject)
    }

    /// Prepares a service without starting it.
    pub(crate) async fn open_empty(
        &mut self,
        kind: Kind,
        directory: &Path,
    ) -> Outcome<&mut Subject> {
        let subject = self.add(kind);
        subject.begin(directory).await?;
        Ok(subject)
    }

    /// Adds the service before anything is made for it, so that it is always removed.
    fn add(&mut self, kind: Kind) -> &mut Subject {
        let index = self.subjects.len();
        self.subjects.push(Subject::new(kind));
        &mut self.subjects[index]
    }

    /// Starts the empty server.
    pub(crate) async fn empty(&mut self, parent: &Path) -> Outcome<Grpc> {
        const NAME: &str = "the empty server";
        let data = directory(parent)?;
        let log = data.path().join("empty.log");
        let spawn = |this| Process::spawn(NAME, Process::command(this).arg(empty::COMMAND), &log);
        let mut process = std::env::current_exe()
            .and_then(spawn)
            .map_err(|error| not_started(NAME, &error))?;
        let address = process.wait_for(serving_address).await?;
        self.empty = Some((process, data));
        Ok(Grpc {
            address: Address::plain(format!("http://{address}")),
            scenario: Scenario::Empty,
            campaigns: vec!["bench-0123abcd-hours".into()],
            ids: Ids::Following,
            draws_only: false,
            timeout: None,
        })
    }

    /// All services.
    pub(crate) fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// All services, for restarts.
    pub(crate) fn subjects_mut(&mut self) -> &mut [Subject] {
        &mut self.subjects
    }

    /// The first service.
    pub(crate) fn first(&self) -> Outcome<&Subject> {
        self.subjects.first().ok_or_else(no_service)
    }

    /// The first service, for creating campaigns.
    pub(crate) fn first_mut(&mut self) -> Outcome<&mut Subject> {
        self.subjects.first_mut().ok_or_else(no_service)
    }
}

fn no_service() -> Box<Failure> {
    Failure::refused("BUG", "the bench started no service")
}
