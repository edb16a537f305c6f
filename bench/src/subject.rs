//! A service under measure: one that is running somewhere, or one that the bench starts as a
//! process of its own, with the Redis and the data it needs. What it leaves anywhere but in its own
//! temporary directory is taken back by [`Subject::leave`], however the bench ends.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ValueEnum;
use tempfile::TempDir;

use crate::{
    beside::{Beside, directory},
    calls::Grpc,
    campaigns::{self, Made, Sums},
    failure::Outcome,
    output::note,
    process::{Process, not_started, serving_url},
    scenario::{Ids, Scenario},
    service::{self, Campaigns, Lottery},
};

/// How long the traces of a bench may take to go.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(60);

/// Where a service that the bench starts keeps its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// In a directory
    Embedded,
    /// In Redis, every write on disk before the answer
    Redis,
    /// In a Redis whose append-only file is switched off once the service runs: what that file
    /// costs
    RedisMemory,
}

impl Store {
    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Redis => "redis",
            Self::RedisMemory => "redis-memory",
        }
    }
}

/// What becomes a [`Subject`].
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A service that is running.
    Running { url: String },
    /// One of the bench's own.
    Own {
        /// The server program.
        program: PathBuf,
        store: Store,
        /// The Redis that is running; otherwise the bench starts one.
        redis_url: Option<String>,
    },
}

/// A service under measure.
pub(crate) struct Subject {
    kind: Kind,
    pub(crate) name: String,
    url: String,
    pub(crate) made: Made,
    // The processes end before their directories go.
    pub(crate) server: Option<Process>,
    pub(crate) beside: Option<Beside>,
    data: Option<TempDir>,
}

impl Subject {
    /// Not started yet.
    pub(crate) fn new(kind: Kind) -> Self {
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

    /// Starts all that it needs below `parent`, with campaigns for the scenarios and `units` to
    /// draw.
    pub(crate) async fn start(
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
            // The service refuses a Redis that keeps nothing, so this is set only now.
            beside
                .ask::<String>(&["CONFIG", "SET", "appendonly", "no"])
                .await?;
        }
        Ok(())
    }

    /// Makes what a service of the bench's own stands on, below `parent`.
    pub(crate) async fn begin(&mut self, parent: &Path) -> Outcome {
        let Kind::Own {
            store, redis_url, ..
        } = self.kind.clone()
        else {
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

    /// Makes the campaign whose units all lie in one hour, and starts the service before it for
    /// that.
    pub(crate) async fn make_schedule(&mut self, units: u64) -> Outcome {
        self.serve_at(campaigns::BEFORE).await?;
        let mut server = self.operators().await?;
        self.made.make_schedule(&mut server, units).await
    }

    /// Starts the service after that hour, and waits until all its units can be drawn.
    pub(crate) async fn release(&mut self, units: u64) -> Outcome {
        self.serve_at(campaigns::AFTER).await?;
        let mut server = self.operators().await?;
        self.made.wait_until_injected(&mut server, units).await
    }

    /// Starts the service at this moment of its test clock, instead of the one that runs.
    pub(crate) async fn serve_at(&mut self, clock_start: &str) -> Outcome {
        const NAME: &str = "\"tombola serve\"";
        self.server = None;
        let (Kind::Own { program, store, .. }, Some(data)) = (&self.kind, &self.data) else {
            return Ok(());
        };
        let mut command = Process::command(program);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command.args(["--clock-start", clock_start, "--data"]);
        command.arg(data.path());
        if let Some(beside) = &self.beside {
            // The list of processes shows arguments, and the URL may have a password.
            command.env("TOMBOLA_REDIS_URL", &beside.url);
            command.env("TOMBOLA_REDIS_PREFIX", &beside.prefix);
            command.env("TOMBOLA_INIT_IF_EMPTY", "true");
            if *store == Store::RedisMemory {
                // It draws on though Redis keeps nothing any more.
                command.env("TOMBOLA_ON_WEAKER_LEVEL", "state");
            }
        }
        let log = data.path().join("serve.log");
        let mut process =
            Process::spawn(NAME, &mut command, &log).map_err(|error| not_started(NAME, &error))?;
        self.url = process.wait_for(serving_url).await?;
        self.server = Some(process);
        Ok(())
    }

    /// The address at which it serves.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The calls of a scenario.
    pub(crate) fn calls(&self, scenario: Scenario) -> Grpc {
        Grpc {
            url: self.url.clone(),
            scenario,
            campaigns: self.made.of(scenario),
            ids: Ids::Following,
            draws_only: false,
        }
    }

    /// Its callers' service.
    pub(crate) async fn lottery(&self) -> Outcome<Lottery> {
        service::lottery(&self.url).await
    }

    /// Its operators' service.
    pub(crate) async fn operators(&self) -> Outcome<Campaigns> {
        service::operators(&self.url).await
    }

    /// The directory of an embedded store.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.data.as_ref().map(TempDir::path)
    }

    /// Where its units are.
    pub(crate) async fn sums(&self) -> Outcome<Vec<Sums>> {
        let mut server = self.operators().await?;
        self.made.sums(&mut server, &self.name).await
    }

    /// Takes back what it left: its campaigns on a service that goes on, its keys on a Redis that
    /// goes on.
    pub(crate) async fn leave(mut self) {
        let leave = async {
            if let Kind::Running { .. } = self.kind {
                let mut server = service::operators(&self.url).await?;
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
