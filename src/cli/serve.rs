//! `tombola serve`: the server.

use std::{io, process::ExitCode, sync::Arc, time::Duration};

use clap::{ArgAction, Args, builder::BoolishValueParser};
use jiff::SignedDuration;
use thiserror::Error;
use tracing::{info, warn};

use super::{
    access_args::AccessArgs,
    admin_args::AdminArgs,
    client::{Client, Outcome},
    connection_args::ConnectionArgs,
    console_args::{self, ConsoleArgs},
    exposure::{self, Exposed, Guards},
    failure::{Exit, Failure},
    house::{self, BuildError, Plan},
    listen::{BindError, Listen},
    log::{self, LogArgs},
    overload_args::OverloadArgs,
    private::make_files_private,
    settling::{Settling, reader},
    sink_args::{BacklogArgs, EraserArgs, RemovalArgs, SinkArgs},
    stop::stop_signal,
    store_args::{HomeArgs, StoreArgs},
    time::read_span,
    tls_args::{ServerTlsArgs, TlsArgs},
    trace_args::{self, TraceArgs},
    wait,
};
use crate::{
    console::{self, oidc},
    grpc::{self, gauges::Gauges, server::Settings},
    injector::{
        Injector,
        alarm::{self, Alarm, AlarmError},
    },
    ledger::{self, PostgresUrl, forget::Erasable},
    model::Problems,
    store::BacklogBound,
    trace,
};

/// The key prefix of a store on Redis unless the options name one.
pub(super) const PREFIX: &str = "tombola";
/// The shortest and the longest request memory.
const MEMORY_MIN: Duration = Duration::from_secs(60);
const MEMORY_MAX: Duration = Duration::from_secs(365 * 86_400);
/// The shortest and the longest time to keep a settled envelope.
const RETENTION_MIN: Duration = Duration::from_secs(60);
const RETENTION_MAX: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola serve --data /var/lib/tombola --listen 0.0.0.0:50051 --log-format json")]
pub(super) struct ServeArgs {
    /// The address that callers connect to
    #[arg(
        long,
        env = "TOMBOLA_LISTEN",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:50051"
    )]
    pub(super) listen: Listen,
    #[command(flatten)]
    pub(super) home: HomeArgs,
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
    #[command(flatten)]
    connections: ConnectionArgs,
    #[command(flatten)]
    tls: ServerTlsArgs,
    #[command(flatten)]
    overload: OverloadArgs,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    console: ConsoleArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    sink: SinkArgs,
    #[command(flatten)]
    eraser: EraserArgs,
    #[command(flatten)]
    backlog: BacklogArgs,
    #[command(flatten)]
    removal: RemovalArgs,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// If Redis is away or still loads its data, wait and report "not ready" instead of ending with
    /// code 69
    #[arg(
        long,
        env = "TOMBOLA_WAIT",
        value_name = "true|false",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = BoolishValueParser::new(),
        help_heading = "Redis"
    )]
    pub(super) wait: bool,
    /// For first tries, not for production: create the store if Redis has none, and the master key.
    /// A Redis that has lost its data has none either; for production use `tombola init`
    #[arg(
        long,
        env = "TOMBOLA_INIT_IF_EMPTY",
        requires = "redis_url",
        help_heading = "Redis"
    )]
    pub(super) init_if_empty: bool,
}

/// Serves until a signal stops it. The error of a failed start or run is printed after the log
/// lines, as one line of JSON if `--json` is given.
pub(super) async fn run(client: &Client, args: &ServeArgs) -> ExitCode {
    let Err(failure) = serve_logged(args, &client.tls).await else {
        log::flush();
        return ExitCode::SUCCESS;
    };
    log::note(&if client.json {
        failure.to_json().to_string()
    } else {
        failure.to_string()
    });
    log::flush();
    failure.exit.into()
}

async fn serve_logged(args: &ServeArgs, tls: &TlsArgs) -> Outcome {
    args.log.start()?;
    make_files_private();
    let mut configuration = Configuration::read(args, tls).map_err(Failure::options)?;
    let exporter = configuration.trace.take().map(|settings| {
        trace_args::log(&settings);
        let (tracer, exporter) = trace::start(settings);
        configuration.settings.tracer = Some(tracer);
        exporter
    });
    let served = serve(args, configuration).await;
    if let Some(exporter) = exporter {
        exporter.end().await;
    }
    served.map_err(|error| Failure::start(error.exit(), error.reason(), error.to_string()))
}

/// The arguments after their checks.
struct Configuration {
    alarm: Alarm,
    settings: Settings,
    plan: Plan,
    /// Whether it may listen beyond this machine without TLS or identities.
    is_insecure: bool,
    /// How calls are traced, if they are.
    trace: Option<trace::Settings>,
    /// Whether to wait for a Redis that is away.
    wait: bool,
    /// The database that the ledger is settled into.
    sink: Option<PostgresUrl>,
    /// Where users can be erased, if this service may do that.
    erasable: Option<Erasable>,
    /// How long closed campaigns stay.
    keep_closed: Duration,
    /// How much may wait to be settled; none where the sink is the store's own file.
    backlog: Option<BacklogBound>,
    /// Where people sign in at the console.
    oidc: Option<oidc::Settings>,
    /// Browsers reach the console over TLS.
    is_behind_tls: bool,
}

impl Configuration {
    /// Checks all arguments, and reports all problems at once.
    fn read(args: &ServeArgs, tls: &TlsArgs) -> Result<Self, Problems> {
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
        let times = args.connections.times(&mut problems);
        let is_insecure = tls.insecure;
        let tls = args.tls.open(tls, &mut problems);
        let queue_target = args.overload.queue_target(&mut problems);
        let access = args.access.open(&mut problems);
        let is_behind_tls = args.console.oidc.is_https(&mut problems);
        let oidc = args
            .console
            .oidc
            .settings(access.is_policed(), &mut problems);
        let trace = args.trace.settings(&mut problems);
        let drain_delay = args.admin.drain_delay(&mut problems);
        let clock = args.home.clock();
        let clock = clock
            .map_err(|text| problems.add("--clock-start", text))
            .ok();
        let redis = args.store.on_redis(PREFIX, &mut problems);
        let sink = args.sink.url(&mut problems);
        let backlog = args.backlog.bound();
        let backlog = backlog.map_err(|text| problems.add("--backlog-age", text));
        let has_own_file = redis.is_none() && sink.is_none();
        let eraser = args.eraser.url(&mut problems).map(Box::new);
        let erasable = match has_own_file {
            true => Some(Erasable::File(args.home.data.clone())),
            false => eraser.map(Erasable::Database),
        };
        let backlog = backlog.ok().filter(|_| !has_own_file);
        let keep_closed = args.removal.keep(request_memory.unwrap_or_default());
        let keep_closed = keep_closed
            .map_err(|text| problems.add("--keep-closed", text))
            .ok();
        let spans = request_memory.zip(envelope_retention).zip(keep_closed);
        match (alarm, spans, clock) {
            (
                Some(alarm),
                Some(((request_memory, envelope_retention), keep_closed)),
                Some(clock),
            ) if problems.is_empty() => Ok(Self {
                settings: Settings {
                    idle_time: times.idle,
                    connection_age: times.age,
                    connections_max: args.connections.bounded_by_descriptors(),
                    connections_per_address_max: args.connections.per_address_max(),
                    tls,
                    queue_target,
                    access,
                    reflection: args.access.reflection(),
                    drain_delay,
                    ..Settings::default()
                },
                plan: Plan {
                    data: args.home.data.clone(),
                    master_key: args.home.master_key.clone(),
                    redis,
                    init_if_empty: args.init_if_empty,
                    clock,
                    request_memory,
                    envelope_retention,
                    lead: alarm.lead(),
                },
                alarm,
                is_insecure,
                trace,
                wait: args.wait,
                sink,
                erasable,
                keep_closed,
                backlog,
                oidc,
                is_behind_tls,
            }),
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
    read_span(text, RETENTION_MIN..=RETENTION_MAX, "1m to 3650d")
}

/// Why the server ended, if not by a signal.
#[derive(Debug, Error)]
enum ServeError {
    #[error("cannot take signals to stop: {0}")]
    Signals(io::Error),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Exposed(#[from] Exposed),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Alarm(#[from] AlarmError),
    #[error(transparent)]
    Serve(#[from] grpc::server::ServeError),
}

async fn serve(args: &ServeArgs, configuration: Configuration) -> Result<(), ServeError> {
    let mut stop = Box::pin(stop_signal().map_err(ServeError::Signals)?);
    let listener = args.listen.bind("--listen").await?;
    let settings = &configuration.settings;
    let guards = Guards {
        has_tls: settings.tls.is_some(),
        has_identities: settings.access.is_policed(),
    };
    exposure::check("--listen", &listener, guards, configuration.is_insecure)?;
    let console = args.console.bind().await?;
    console_args::check(console.as_ref(), guards, configuration.is_insecure)?;
    if !guards.has_identities {
        warn!("there is no access file: everybody who reaches the server may do everything");
    }
    let readiness = configuration.settings.readiness.clone();
    let admin = args.admin.bind().await?;
    let gauges = Gauges::default();
    let store = store_kind(&configuration.plan);
    let _admin = admin.map(|port| port.serve(readiness, gauges.clone()));
    let building = async {
        if configuration.wait {
            wait::build(configuration.plan, &listener, &configuration.settings).await
        } else {
            house::build(configuration.plan).await
        }
    };
    let injector = tokio::select! {
        built = building => built?,
        () = &mut stop => {
            info!("stopped before the store was open");
            log::flush();
            // A thread that opens an embedded store would keep the runtime. What it does is whole
            // or not begun, as at a crash.
            std::process::exit(0);
        }
    };
    gauges.open(injector.store());
    let info = injector.store().info();
    if info.test_clock {
        warn!(now = %injector.store().clock_hint(), "TEST clock: nothing here is real");
    }
    let local = listener
        .local_addr()
        .map_or_else(|_| args.listen.to_string(), |address| address.to_string());
    info!(
        address = %local,
        store_id = info.store_id,
        durability = ?info.durability,
        "serving on {local}: {}",
        console::durability_in_english(info.durability)
    );
    if let Some(target) = configuration.settings.queue_target {
        injector.store().bound_delay(target);
    }
    if let Some(bound) = configuration.backlog {
        injector.store().bound_backlog(bound);
    }
    if configuration.sink.is_some() || injector.store().ledger_tables().is_some() {
        injector.store().expect_settling();
    }
    let memory = configuration.sink.is_none().then(|| {
        let store = Arc::clone(injector.store());
        tokio::spawn(ledger::memory::watch(store))
    });
    let console = console.map(|listener| {
        let mut settings = console_of(&configuration.settings, &injector, store, None);
        settings.oidc = configuration.oidc;
        settings.is_behind_tls = configuration.is_behind_tls;
        console_args::serve(listener, settings)
    });
    let alarm = alarm::run(Arc::clone(&injector), configuration.alarm);
    let sink = configuration.sink.clone();
    let ledger = reader(&injector, sink, configuration.erasable);
    let wake = ledger.as_ref().map(|ledger| Arc::clone(&ledger.wake));
    let settling = Settling::start(&injector, configuration.sink, |settler| {
        settler
            .woken_by(wake.unwrap_or_default())
            .keeping_closed(configuration.keep_closed)
    });
    tokio::select! {
        served = grpc::server::serve(
            listener,
            Arc::clone(&injector),
            ledger,
            configuration.settings,
            stop,
        ) => served?,
        Err(error) = alarm => return Err(error.into()),
    }
    drop(console);
    if let Some(memory) = memory {
        memory.abort();
        drop(memory.await);
    }
    if let Some(settling) = settling {
        settling.end().await;
    }
    close(injector).await;
    info!("stopped: all work in progress was finished");
    Ok(())
}

/// The console of a server with these settings.
pub(super) fn console_of(
    settings: &Settings,
    injector: &Injector,
    store: console::StoreKind,
    link: Option<console::Link>,
) -> console::Settings {
    let info = injector.store().info();
    console::Settings {
        local: settings.local.clone(),
        is_policed: settings.access.is_policed(),
        key: injector.key().console_key(),
        readiness: settings.readiness.clone(),
        about: console::About {
            store_id: info.store_id.clone(),
            store,
            durability: info.durability,
            lead: injector.lead(),
        },
        tls: settings.tls.clone(),
        link,
        is_behind_tls: false,
        oidc: None,
    }
}

/// Where the store is.
pub(super) fn store_kind(plan: &Plan) -> console::StoreKind {
    match plan.redis.as_ref().map(|redis| &redis.url) {
        None => console::StoreKind::Embedded,
        Some(url) if url.is_cluster() => console::StoreKind::Cluster,
        Some(url) if url.fails_over() => console::StoreKind::Sentinel,
        Some(_) => console::StoreKind::Redis,
    }
}

impl ServeError {
    fn exit(&self) -> Exit {
        match self {
            Self::Build(error) => error.exit(),
            Self::Exposed(_) => Exit::Usage,
            Self::Signals(_) | Self::Bind(_) | Self::Alarm(_) | Self::Serve(_) => Exit::Failed,
        }
    }

    /// The reason, for programs.
    fn reason(&self) -> &'static str {
        match self {
            Self::Build(error) => error.reason(),
            Self::Bind(_) => "ADDRESS_UNAVAILABLE",
            Self::Exposed(_) => "USAGE",
            Self::Signals(_) | Self::Alarm(_) | Self::Serve(_) => "INTERNAL",
        }
    }
}

/// Closes the store, which finishes the commands in its queue.
pub(super) async fn close(injector: Arc<Injector>) {
    // A task that has not ended only keeps files open, and the operating system closes them soon.
    drop(tokio::task::spawn_blocking(move || drop(injector)).await);
}

#[cfg(test)]
mod tests {
    use super::*;

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
