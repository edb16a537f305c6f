//! A service under test: a running one, or one that the bench starts as a process with the Redis
//! and the data that it needs. [`Subject::leave`] removes all that the bench made outside its
//! temporary directory, however the bench ends.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use tempfile::TempDir;

use crate::{
    calls::Grpc,
    campaigns::{self, Made, Sums},
    failure::{Failure, Outcome},
    output::note,
    postgres::Postgres,
    process::{Process, admin_address, not_started, serving_address},
    protections::Protections,
    redis_server::{RedisServer, directory},
    scenario::{Ids, Scenario},
    service::{Address, Campaigns, Lottery},
};

/// How long the removal may take.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(60);

/// The store of a service that the bench starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// In a directory
    Embedded,
    /// In Redis, every write on disk before the answer
    Redis,
    /// In Redis with a replica, every write on the disks of both before the answer: the level
    /// `strict`
    RedisStrict,
    /// In Redis, every write on disk within about a second: the level `fast`
    RedisFast,
    /// In Redis, and every draw settled into PostgreSQL: a round ends when all its draws are
    RedisSettled,
    /// In a directory, and the service has what one in production has: TLS, an access file and
    /// tokens, metrics that are read each second, traces of a share of its calls
    EmbeddedSecured,
    /// In Redis, and the service has the same
    RedisSecured,
}

impl Store {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Redis => "redis",
            Self::RedisStrict => "redis-strict",
            Self::RedisFast => "redis-fast",
            Self::RedisSettled => "redis-settled",
            Self::EmbeddedSecured => "embedded-secured",
            Self::RedisSecured => "redis-secured",
        }
    }

    pub(crate) fn is_embedded(self) -> bool {
        matches!(self, Self::Embedded | Self::EmbeddedSecured)
    }

    fn is_secured(self) -> bool {
        matches!(self, Self::EmbeddedSecured | Self::RedisSecured)
    }
}

/// How to make a [`Subject`].
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A running service.
    Running { address: Address },
    /// A service that the bench starts.
    Own {
        /// The server program.
        program: PathBuf,
        store: Store,
        /// A running Redis; if absent, the bench starts one.
        redis_url: Option<String>,
        /// The service refuses calls that wait for too long, as it does by default. A closed loop
        /// measures how many calls a service answers while as many wait as the loop has.
        is_shedding: bool,
    },
}

/// A service under measure.
pub(crate) struct Subject {
    kind: Kind,
    pub(crate) name: String,
    address: Address,
    pub(crate) made: Made,
    // The processes end before their directories are removed.
    pub(crate) server: Option<Process>,
    pub(crate) redis: Option<RedisServer>,
    replica: Option<RedisServer>,
    pub(crate) postgres: Option<Postgres>,
    data: Option<TempDir>,
    pub(crate) protections: Option<Protections>,
}

impl Subject {
    /// A service that is not started yet.
    pub(crate) fn new(kind: Kind) -> Self {
        let name = match &kind {
            Kind::Running { .. } => "server",
            Kind::Own { store, .. } => store.name(),
        };
        Self {
            name: name.into(),
            address: Address::default(),
            made: Made::new(),
            server: None,
            redis: None,
            replica: None,
            postgres: None,
            data: None,
            protections: None,
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
            Kind::Running { address } => self.address = address,
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
        if let Some(redis) = &self.redis {
            redis.settle().await?;
        }
        Ok(())
    }

    /// Prepares the Redis and the directory of a service that the bench starts, below `parent`.
    pub(crate) async fn begin(&mut self, parent: &Path) -> Outcome {
        let Kind::Own {
            program,
            store,
            redis_url,
            ..
        } = self.kind.clone()
        else {
            return Ok(());
        };
        self.data = Some(directory(parent)?);
        self.redis = match (store, redis_url) {
            (store, _) if store.is_embedded() => None,
            (_, Some(url)) => Some(RedisServer::running(&url).await?),
            (_, None) => Some(RedisServer::start(parent).await?),
        };
        if let (Store::RedisStrict, Some(redis)) = (store, &self.redis) {
            self.replica = Some(redis.replicate(parent).await?);
        }
        if let (Store::RedisFast, Some(redis)) = (store, &self.redis) {
            redis
                .ask::<String>(&["CONFIG", "SET", "appendfsync", "everysec"])
                .await?;
        }
        if store == Store::RedisSettled {
            self.postgres = Some(Postgres::start(parent, &program).await?);
        }
        if store.is_secured() {
            self.protections = Some(Protections::make(parent).await?);
        }
        Ok(())
    }

    /// Starts the service at a moment before the schedule's hour, and creates the campaign whose
    /// units all lie in that hour.
    pub(crate) async fn make_schedule(&mut self, units: u64) -> Outcome {
        self.serve_at(campaigns::BEFORE).await?;
        let mut server = self.operators().await?;
        self.made.make_schedule(&mut server, units).await
    }

    /// Starts the service at a moment after that hour, and waits until all its units can be drawn.
    pub(crate) async fn release(&mut self, units: u64) -> Outcome {
        self.serve_at(campaigns::AFTER).await?;
        let mut server = self.operators().await?;
        self.made.wait_until_injected(&mut server, units).await
    }

    /// Starts the service at this moment of its test clock; a running one is stopped first.
    pub(crate) async fn serve_at(&mut self, clock_start: &str) -> Outcome {
        self.server = None;
        let (Some(mut command), Some(data)) = (self.serve_command(), self.data()) else {
            return Ok(());
        };
        command.args(["--clock-start", clock_start, "--data"]);
        command.arg(data);
        if let Some(protections) = &self.protections {
            protections.protect(&mut command);
        }
        let (mut process, address) = serve(&mut command, &data.join("serve.log")).await?;
        self.address = match &mut self.protections {
            Some(protections) => {
                let admin = process.wait_for(admin_address).await?;
                protections.read_metrics(admin).await?;
                protections.address(&address)
            }
            None => Address::plain(format!("http://{address}")),
        };
        self.server = Some(process);
        Ok(())
    }

    /// The command that starts a service of the bench's on this store, without its directory and
    /// its clock; none for a running service.
    pub(crate) fn serve_command(&self) -> Option<Command> {
        let Kind::Own {
            program,
            store,
            is_shedding,
            ..
        } = &self.kind
        else {
            return None;
        };
        let mut command = Process::command(program);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        if !is_shedding {
            command.env("TOMBOLA_QUEUE_TARGET", "0s");
        }
        if let Some(redis) = &self.redis {
            // Passed as a variable: the list of processes shows arguments, and the URL may contain
            // a password.
            command.env("TOMBOLA_REDIS_URL", &redis.url);
            command.env("TOMBOLA_REDIS_PREFIX", &redis.prefix);
            command.env("TOMBOLA_INIT_IF_EMPTY", "true");
            if *store == Store::RedisStrict {
                command.env("TOMBOLA_DURABILITY", "strict");
            }
            if *store == Store::RedisFast {
                command.env("TOMBOLA_DURABILITY", "fast");
            }
        }
        if let Some(postgres) = &self.postgres {
            command.env("TOMBOLA_POSTGRES_URL", &postgres.url);
        }
        Some(command)
    }

    /// The server program of a service that the bench starts.
    pub(crate) fn program(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Own { program, .. } => Some(program),
            Kind::Running { .. } => None,
        }
    }

    /// The address at which it serves.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The calls of a scenario.
    pub(crate) fn calls(&self, scenario: Scenario) -> Grpc {
        Grpc {
            address: self.address.clone(),
            scenario,
            campaigns: self.made.of(scenario),
            ids: Ids::Following,
            draws_only: false,
            timeout: None,
        }
    }

    /// A client of its `LotteryService`.
    pub(crate) async fn lottery(&self) -> Outcome<Lottery> {
        self.address.lottery().await
    }

    /// A client of its `CampaignService`.
    pub(crate) async fn operators(&self) -> Outcome<Campaigns> {
        self.address.operators().await
    }

    /// Waits until its ledger is settled, if it is: else settling would go on in the next round,
    /// of another store or of the empty call. Returns how much of that belongs to the round: all of
    /// it with PostgreSQL, nothing with the embedded store, whose draws do not wait for it.
    pub(crate) async fn settle(&self) -> Outcome<Duration> {
        let is_embedded = matches!(&self.kind, Kind::Own { store, .. } if store.is_embedded());
        let begun = Instant::now();
        if is_embedded || self.postgres.is_some() {
            campaigns::wait_until_settled(&mut self.operators().await?).await?;
        }
        Ok(match is_embedded {
            true => Duration::ZERO,
            false => begun.elapsed(),
        })
    }

    /// The directory of an embedded store.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.data.as_ref().map(TempDir::path)
    }

    /// The sums of its units.
    pub(crate) async fn sums(&self) -> Outcome<Vec<Sums>> {
        let mut server = self.operators().await?;
        self.made.sums(&mut server, &self.name).await
    }

    /// Removes what the bench made: closes its campaigns on a running service, deletes its keys on
    /// a running Redis. Whether all of that is gone.
    pub(crate) async fn leave(mut self) -> bool {
        let leave = async {
            if let Kind::Running { .. } = self.kind {
                let mut server = self.address.operators().await?;
                self.made.close(&mut server).await?;
            }
            self.server = None;
            match &self.redis {
                Some(redis) if !redis.is_own() => redis.sweep().await,
                _ => Ok(()),
            }
        };
        let left: Outcome = tokio::time::timeout(LEAVE_TIME_MAX, leave)
            .await
            .unwrap_or_else(|_| {
                let message = format!("it takes longer than {LEAVE_TIME_MAX:?}");
                Err(Failure::refused("NOT_REMOVED", message))
            });
        let Err(failure) = left else {
            return true;
        };
        let prefix = self.redis.as_ref().map_or("bench-", |redis| &redis.prefix);
        note(&format!(
            "what the bench made could not be removed ({}): its names begin with {prefix}",
            failure.message
        ));
        false
    }
}

/// Starts a service, and waits until it serves; its HOST:PORT.
pub(crate) async fn serve(command: &mut Command, log: &Path) -> Outcome<(Process, String)> {
    const NAME: &str = "\"tombola serve\"";
    let process = Process::spawn(NAME, command, log);
    let mut process = process.map_err(|error| not_started(NAME, &error))?;
    let address = process.wait_for(serving_address).await?;
    Ok((process, address))
}
