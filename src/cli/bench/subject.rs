//! A service under measure: one that is running somewhere, or one that the bench starts as a process of its own, with the Redis and the data
//! it needs. What it leaves anywhere but in its own temporary directory is taken back by [`Subject::leave`], however the bench ends.

use std::{path::Path, time::Duration};

use clap::ValueEnum;
use tempfile::TempDir;

use super::{
    beside::{Beside, directory},
    campaigns::{self, Made, Sums},
    process::{Process, serving_url},
    scenario::{Grpc, Ids, Scenario},
};
use crate::cli::{
    client::{Campaigns, Lottery, Outcome},
    output::note,
};

/// How long the traces of a bench may take to go.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(60);

/// Where a service that the bench starts keeps its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Store {
    /// In a directory
    Embedded,
    /// In Redis, every write on disk before the answer
    Redis,
    /// In a Redis whose append-only file is switched off once the service runs: what that file costs
    RedisMemory,
}

impl Store {
    /// As on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Redis => "redis",
            Self::RedisMemory => "redis-memory",
        }
    }
}

/// What becomes a [`Subject`].
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A service that is running.
    Running { url: String },
    /// One of the bench's own.
    Own {
        store: Store,
        /// The Redis that is running; otherwise the bench starts one.
        redis_url: Option<String>,
    },
}

/// A service under measure.
pub(super) struct Subject {
    kind: Kind,
    pub(super) name: String,
    url: String,
    pub(super) made: Made,
    // The processes end before their directories go.
    pub(super) server: Option<Process>,
    pub(super) beside: Option<Beside>,
    data: Option<TempDir>,
}

impl Subject {
    /// Not started yet.
    pub(super) fn new(kind: Kind) -> Self {
        let name = match &kind {
            Kind::Running { .. } => "server",
            Kind::Own { store, .. } => store.name(),
        };
        Self {
            name: name.into(),
            url: String::new(),
            made: Made::new(),
            server: None,
            beside: None,
            data: None,
            kind,
        }
    }

    /// Starts all that it needs below `parent`, with campaigns for the scenarios and so many units to draw.
    pub(super) async fn start(
        &mut self,
        parent: &Path,
        scenarios: &[Scenario],
        units: u64,
    ) -> Outcome {
        let wants_schedule = scenarios.iter().any(|one| one.draws_from_the_schedule());
        match self.kind.clone() {
            Kind::Running { url } => self.url = url,
            Kind::Own { .. } => {
                self.begin(parent).await?;
                if wants_schedule {
                    self.make_schedule(units).await?;
                }
                self.serve_at(campaigns::AFTER).await?;
            }
        }
        let mut server = self.operators().await?;
        let now = campaigns::now(&mut server).await?;
        self.made.make_decks(&mut server, scenarios, now).await?;
        self.made.make_tried(&mut server, now).await?;
        self.made.wait_until_injected(&mut server, units).await?;
        if let Some(beside) = &self.beside {
            beside.settle().await?;
        }
        if let (
            Kind::Own {
                store: Store::RedisMemory,
                ..
            },
            Some(beside),
        ) = (&self.kind, &self.beside)
        {
            // The service refuses a Redis that keeps nothing, so Redis is told only now.
            beside
                .ask::<String>(&["CONFIG", "SET", "appendonly", "no"])
                .await?;
        }
        Ok(())
    }

    /// Makes what a service of the bench's own stands on, below `parent`.
    pub(super) async fn begin(&mut self, parent: &Path) -> Outcome {
        let Kind::Own { store, redis_url } = self.kind.clone() else {
            return Ok(());
        };
        self.data = Some(directory(parent)?);
        self.beside = match (store, redis_url) {
            (Store::Embedded, _) => None,
            (_, Some(url)) => Some(Beside::running(&url).await?),
            (_, None) => Some(Beside::start(parent).await?),
        };
        Ok(())
    }

    /// Makes the campaign whose units all lie in one hour, and starts the service before it for that.
    pub(super) async fn make_schedule(&mut self, units: u64) -> Outcome {
        self.serve_at(campaigns::BEFORE).await?;
        let mut server = self.operators().await?;
        self.made.make_schedule(&mut server, units).await
    }

    /// Starts the service after that hour, and waits until all its units can be drawn.
    pub(super) async fn release(&mut self, units: u64) -> Outcome {
        self.serve_at(campaigns::AFTER).await?;
        let mut server = self.operators().await?;
        self.made.wait_until_injected(&mut server, units).await
    }

    /// Starts the service at this moment of its test clock, instead of the one that runs.
    pub(super) async fn serve_at(&mut self, clock_start: &str) -> Outcome {
        self.server = None;
        let Some(data) = &self.data else {
            return Ok(());
        };
        let mut arguments: Vec<String> = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--clock-start",
            clock_start,
            "--data",
        ]
        .map(str::to_owned)
        .into();
        arguments.push(data.path().display().to_string());
        let mut variables = Vec::new();
        if let Some(beside) = &self.beside {
            // A password is not for the list of processes.
            variables.push(("TOMBOLA_REDIS_URL", beside.url.clone()));
            variables.push(("TOMBOLA_REDIS_PREFIX", beside.prefix.clone()));
            variables.push(("TOMBOLA_INIT_IF_EMPTY", "true".into()));
        }
        let log = data.path().join("serve.log");
        let mut process = Process::spawn_self("\"tombola serve\"", &arguments, &variables, &log)?;
        self.url = process.wait_for(serving_url).await?;
        self.server = Some(process);
        Ok(())
    }

    /// Where it serves.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The calls of a scenario.
    pub(super) fn calls(&self, scenario: Scenario) -> Grpc {
        Grpc {
            url: self.url.clone(),
            scenario,
            campaigns: self.made.of(scenario),
            ids: Ids::Following,
            draws_only: false,
        }
    }

    /// Its callers' service.
    pub(super) async fn lottery(&self) -> Outcome<Lottery> {
        campaigns::lottery(&self.url).await
    }

    /// Its operators' service.
    pub(super) async fn operators(&self) -> Outcome<Campaigns> {
        campaigns::operators(&self.url).await
    }

    /// The directory of an embedded store.
    pub(super) fn data(&self) -> Option<&Path> {
        self.data.as_ref().map(TempDir::path)
    }

    /// Where its units are.
    pub(super) async fn sums(&self) -> Outcome<Vec<Sums>> {
        let mut server = self.operators().await?;
        self.made.sums(&mut server, &self.name).await
    }

    /// Takes back what it left: its campaigns on a service that goes on, its keys on a Redis that goes on.
    pub(super) async fn leave(mut self) {
        let leave = async {
            if let Kind::Running { .. } = self.kind {
                let mut server = campaigns::operators(&self.url).await?;
                self.made.close(&mut server).await?;
            }
            self.server = None;
            match &self.beside {
                Some(beside) if !beside.is_own() => beside.sweep().await,
                _ => Ok(()),
            }
        };
        let left: Outcome = tokio::time::timeout(LEAVE_TIME_MAX, leave)
            .await
            .unwrap_or(Ok(()));
        if let Err(failure) = left {
            let prefix = self
                .beside
                .as_ref()
                .map_or("bench-", |beside| &beside.prefix);
            note(&format!(
                "what the bench made could not be taken back ({}): its names begin with {prefix}",
                failure.message
            ));
        }
    }
}
