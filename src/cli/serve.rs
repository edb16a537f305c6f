//! `tombola serve`: the server.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use super::{
    failure::Exit,
    house::{self, BuildError, Plan},
    listen::{BindError, Listen},
    output,
    store_args::StoreArgs,
    time::parse_span,
};
use crate::{
    grpc,
    injector::{
        Injector,
        alarm::{self, Alarm, AlarmError},
    },
    model::{Moment, Problems},
    store::{
        Durability,
        clock::{Clock, ShiftedClock},
    },
};

/// What the keys of a store on Redis begin with unless the options say otherwise.
const PREFIX: &str = "tombola";
/// The shortest and the longest memory of request ids.
const MEMORY_MIN: Duration = Duration::from_secs(60);
const MEMORY_MAX: Duration = Duration::from_secs(365 * 86_400);
/// How long an envelope may be kept after it is settled.
const RETENTION_MIN: Duration = Duration::from_secs(60);
const RETENTION_MAX: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// The earliest moment of a test clock, in seconds: 1971. What stores pack of moments is as long from then on.
const CLOCK_SECOND_MIN: i64 = 365 * 86_400;

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola serve --data /var/lib/tombola --listen 0.0.0.0:50051 --log-format json")]
pub(super) struct ServeArgs {
    /// Where callers connect
    #[arg(
        long,
        env = "TOMBOLA_LISTEN",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:50051"
    )]
    pub(super) listen: Listen,
    /// The directory of the embedded store, and of the master key; made where it is absent
    #[arg(
        long,
        env = "TOMBOLA_DATA",
        value_name = "DIR",
        default_value = "./tombola-data"
    )]
    pub(super) data: PathBuf,
    /// The file of the master key, the same for all services of a store; made where there is no data yet [default:
    /// master.key in --data]
    #[arg(long, env = "TOMBOLA_MASTER_KEY", value_name = "FILE")]
    pub(super) master_key: Option<PathBuf>,
    /// For tests: the store's clock starts at this moment instead of now (RFC 3339)
    #[arg(long, env = "TOMBOLA_CLOCK_START", value_name = "TIME")]
    pub(super) clock_start: Option<String>,
    /// When the next hour is injected: second, minute, hour, day, month, day of the week
    #[arg(
        long,
        env = "TOMBOLA_INJECT_CRON",
        value_name = "CRON",
        default_value = "0 55 * * * *"
    )]
    pub(super) inject_cron: String,
    /// How long a draw's request id is remembered
    #[arg(
        long,
        env = "TOMBOLA_REQUEST_MEMORY",
        value_name = "SPAN",
        default_value = "24h"
    )]
    pub(super) request_memory: String,
    /// How long an envelope is kept after its refund or its last grab
    #[arg(
        long,
        env = "TOMBOLA_ENVELOPE_RETENTION",
        value_name = "SPAN",
        default_value = "7d"
    )]
    pub(super) envelope_retention: String,
    /// How log lines are written
    #[arg(long, env = "TOMBOLA_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(super) log_format: LogFormat,
    /// What is logged, e.g. debug or info,tombola=debug
    #[arg(
        long,
        env = "TOMBOLA_LOG",
        value_name = "FILTER",
        default_value = "info,tokio_cron_scheduler=warn"
    )]
    pub(super) log: String,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// Serves until it is told to stop.
pub(super) async fn run(args: ServeArgs) -> ExitCode {
    if let Err(text) = start_log(&args.log, args.log_format) {
        output::note(&format!("error: {text}"));
        return Exit::Usage.into();
    }
    let configuration = match Configuration::read(&args) {
        Ok(configuration) => configuration,
        Err(problems) => {
            output::note(&format!("error: {problems}"));
            return Exit::Usage.into();
        }
    };
    match serve(&args.listen, configuration).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: {error}"));
            error.exit().into()
        }
    }
}

/// What the arguments say, checked.
struct Configuration {
    alarm: Alarm,
    plan: Plan,
}

impl Configuration {
    /// Checks all arguments and reports all problems at once.
    fn read(args: &ServeArgs) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let alarm = Alarm::parse(&args.inject_cron)
            .map_err(|error| problems.add("--inject-cron", error.to_string()))
            .ok();
        let request_memory = read_memory(&args.request_memory)
            .map_err(|text| problems.add("--request-memory", text))
            .ok();
        let envelope_retention = read_retention(&args.envelope_retention)
            .map_err(|text| problems.add("--envelope-retention", text))
            .ok();
        let clock = read_clock(args.clock_start.as_deref())
            .map_err(|text| problems.add("--clock-start", text))
            .ok();
        let redis = args.store.on_redis(PREFIX, &mut problems);
        let spans = request_memory.zip(envelope_retention);
        match (alarm, spans, clock) {
            (Some(alarm), Some((request_memory, envelope_retention)), Some(clock))
                if problems.is_empty() =>
            {
                Ok(Self {
                    plan: Plan {
                        data: args.data.clone(),
                        master_key: args.master_key.clone(),
                        redis,
                        clock,
                        request_memory,
                        envelope_retention,
                        lead: alarm.lead(),
                    },
                    alarm,
                })
            }
            _ => Err(problems),
        }
    }
}

fn read_memory(text: &str) -> Result<Duration, String> {
    let span: SignedDuration = text
        .parse()
        .map_err(|_| format!("`{text}` is no span of time: write one like 24h or 90m"))?;
    let memory = Duration::try_from(span)
        .map_err(|_| format!("`{text}` is negative: write one like 24h"))?;
    if memory < MEMORY_MIN || memory > MEMORY_MAX {
        return Err(format!("`{text}` is out of range: 1m to 8760h"));
    }
    Ok(memory)
}

fn read_retention(text: &str) -> Result<Duration, String> {
    let span = parse_span(text).map_err(|error| format!("`{text}`: {error}"))?;
    let retention = Duration::try_from(span).unwrap_or_default();
    if retention < RETENTION_MIN || retention > RETENTION_MAX {
        return Err(format!("`{text}` is out of range: 1m to 3650d"));
    }
    Ok(retention)
}

fn read_clock(start: Option<&str>) -> Result<Option<Arc<dyn Clock>>, String> {
    let Some(start) = start else {
        return Ok(None);
    };
    let start: Timestamp = start
        .parse()
        .map_err(|_| format!("`{start}` is no moment: write one like 2026-11-29T19:55:00+08:00"))?;
    if start.as_second() < CLOCK_SECOND_MIN {
        return Err(format!("`{start}` is before 1971: name a later moment"));
    }
    let clock = ShiftedClock::starting_at(Moment::from_timestamp(start));
    Ok(Some(Arc::new(clock)))
}

/// Why the server ended other than by a signal.
#[derive(Debug, Error)]
enum ServeError {
    #[error("cannot take signals to stop: {0}")]
    Signals(io::Error),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Alarm(#[from] AlarmError),
    #[error(transparent)]
    Serve(#[from] grpc::server::ServeError),
}

async fn serve(listen: &Listen, configuration: Configuration) -> Result<(), ServeError> {
    let stop = stop_signal().map_err(ServeError::Signals)?;
    let listener = listen.bind().await?;
    let injector = house::build(configuration.plan).await?;
    let info = injector.store().info();
    if info.test_clock {
        warn!(now = %injector.store().clock_hint(), "TEST clock: nothing here is real");
    }
    let local = listener
        .local_addr()
        .map_or_else(|_| listen.to_string(), |address| address.to_string());
    info!(
        address = %local,
        store_id = info.store_id,
        durability = ?info.durability,
        "serving on {local}: {}",
        promise(info.durability)
    );
    let alarm = alarm::run(Arc::clone(&injector), configuration.alarm);
    tokio::select! {
        served = grpc::server::serve(listener, Arc::clone(&injector), stop) => served?,
        Err(error) = alarm => return Err(error.into()),
    }
    close(injector).await;
    info!("stopped: everything begun was finished");
    Ok(())
}

/// What is promised of an acknowledged draw.
fn promise(durability: Durability) -> &'static str {
    match durability {
        Durability::Embedded => "every acknowledged draw is on disk",
        Durability::Fast => {
            "acknowledged draws are in the memory of Redis, on its disk within about a second: a crash of its machine may \
             undo some two seconds"
        }
        Durability::Local => {
            "every acknowledged draw is on the disk of Redis; a failover may undo what was not replicated"
        }
        Durability::Strict => {
            "every acknowledged draw is on the disk of Redis and held by its replicas: the loss of the primary undoes nothing"
        }
    }
}

impl ServeError {
    fn exit(&self) -> Exit {
        match self {
            Self::Build(error) => error.exit(),
            Self::Signals(_) | Self::Bind(_) | Self::Alarm(_) | Self::Serve(_) => Exit::Failed,
        }
    }
}

/// Closes the store, which finishes what waits in it.
pub(super) async fn close(injector: Arc<Injector>) {
    // A task that did not end only keeps files open that the operating system closes in a moment.
    drop(tokio::task::spawn_blocking(move || drop(injector)).await);
}

/// Ends with the first SIGINT or SIGTERM that comes from now on, awaited or not yet; a second one ends the process at once.
pub(super) fn stop_signal() -> io::Result<impl Future<Output = ()> + Send> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut next = async move || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    Ok(async move {
        next().await;
        tokio::spawn(async move {
            next().await;
            warn!("stopped at once: what was acknowledged is on disk");
            std::process::exit(1);
        });
    })
}

/// Starts the log on standard error.
fn start_log(filter: &str, format: LogFormat) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        format!("--log: `{filter}` is no filter ({error}): write one like info")
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_clock_starts_in_1971_or_later() {
        assert!(read_clock(Some("1970-12-31T23:59:59Z")).is_err());
        assert!(read_clock(Some("1971-01-01T00:00:00Z")).is_ok());
    }

    #[test]
    fn spans_of_memory_are_checked() {
        assert_eq!(read_memory("24h"), Ok(Duration::from_secs(86_400)));
        for bad in ["", "5", "-1h", "0s", "9000h", "soon"] {
            assert!(read_memory(bad).is_err(), "{bad}");
        }
        assert_eq!(read_retention("7d"), Ok(Duration::from_secs(7 * 86_400)));
        for bad in ["", "5", "-1h", "0s", "59s", "4000d", "soon"] {
            assert!(read_retention(bad).is_err(), "{bad}");
        }
    }
}
