//! The server: its services, its bounds, its end.

use std::{future::Future, sync::Arc, time::Duration};

use thiserror::Error;
use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
    time::sleep,
};
use tonic::Status;
use tonic_health::{
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use tracing::info;

use super::{
    access::{Access, Guarded, Reflection, Senders, gate::Gate},
    alerts,
    backup::Admin,
    campaigns::Campaigns,
    connections::{self, Bounds},
    desk::Desk,
    envelopes::Envelopes,
    health::Health,
    ledger::Ledger,
    local::Local,
    lottery::Lottery,
    presence::Presence,
    readiness::Readiness,
    services::{self, Services},
};
use crate::{
    injector::Injector,
    ledger::read::SettledLedger,
    proto::{
        FILE_DESCRIPTOR_SET, admin_service_server::AdminServiceServer,
        campaign_service_server::CampaignServiceServer,
        envelope_service_server::EnvelopeServiceServer, ledger_service_server::LedgerServiceServer,
        lottery_service_server::LotteryServiceServer,
    },
    tls::ServerTls,
    trace::Tracer,
};

/// The largest request of a caller: ids, a reference.
pub(super) const CALLER_BYTES_MAX: usize = 64 * 1024;

/// The largest request of an operator: a campaign with a thousand special hours.
pub(super) const OPERATOR_BYTES_MAX: usize = 1024 * 1024;

/// The largest request of a sender: an envelope with ten thousand users who may grab.
pub(super) const SENDER_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The largest request of health and reflection: the name of a service or of a symbol.
pub(super) const OTHER_BYTES_MAX: usize = 1024;

/// The most connections at once, unless the settings say otherwise.
pub const CONNECTIONS_MAX: usize = 10_000;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a connection may be without calls until it is closed.
    pub idle_time: Duration,
    /// The age at which a client is asked to connect again, give or take a tenth; unbounded if
    /// absent.
    pub connection_age: Option<Duration>,
    /// The most connections at once.
    pub connections_max: usize,
    /// The most connections of one address at once; unbounded if absent.
    pub connections_per_address_max: Option<usize>,
    /// TLS, if callers must speak it.
    pub tls: Option<Arc<ServerTls>>,
    /// How long calls may wait before some are refused, if that is bounded. The store has a setting
    /// of its own for its queues.
    pub queue_target: Option<Duration>,
    /// How long the server goes on serving after the signal to stop, while it reports that it is
    /// not ready: until balancers have noticed.
    pub drain_delay: Duration,
    /// Where the server reports whether it is ready.
    pub readiness: Readiness,
    /// Who may do what.
    pub access: Access,
    /// Who may call reflection.
    pub reflection: Reflection,
    /// What records calls, if anything does.
    pub tracer: Option<Tracer>,
    /// Where the server can be called from within the process.
    pub local: Local,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            idle_time: Duration::from_secs(600),
            connection_age: None,
            connections_max: CONNECTIONS_MAX,
            connections_per_address_max: None,
            tls: None,
            queue_target: None,
            drain_delay: Duration::ZERO,
            readiness: Readiness::default(),
            access: Access::default(),
            reflection: Reflection::default(),
            tracer: None,
            local: Local::default(),
        }
    }
}

/// Why a server ended other than by its signal.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The descriptors of the build are damaged.
    #[error("the reflection service cannot be built: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// Serves all services, reflection and health on `listener` until `shutdown`, and for the drain
/// delay after it; then asks clients to go away, and waits for their calls for at most ten seconds.
/// A connection that has no call for the idle time is closed, and one that reaches its age is
/// closed once its calls have ended. `ledger` reads the settled ledger, if
/// it is settled anywhere.
///
/// # Errors
/// The server cannot be built. (A failing connection is no such error.)
pub async fn serve(
    listener: TcpListener,
    injector: Arc<Injector>,
    ledger: Option<SettledLedger>,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let reporter = HealthReporter::new();
    let mut health = Health::new(
        reporter.clone(),
        settings.readiness.clone(),
        injector.store().clone(),
    );
    health.probe().await;
    let (stopping, draining) = watch::channel(false);
    let store = Arc::clone(injector.store());
    let access = settings.access.clone();
    let gate = Gate::new(&settings.access, settings.reflection);
    let reader = ledger.as_ref().map(|ledger| Arc::clone(&ledger.reader));
    let port = listener.local_addr().ok().map(|address| address.port());
    let presence = Presence::new(&store, settings.readiness.clone(), port);
    let desk = Arc::new(Desk::new(injector, reader.clone(), presence));
    let senders = Arc::new(Senders::new(store.clone(), reader));
    let behind = (Arc::clone(&desk), senders);
    let leaving = draining.clone();
    let (reflection, ledger) = (settings.reflection, (ledger, draining));
    let services = services(behind, gate, ledger, reporter, reflection)?;
    settings.local.open(&services, &access);
    let local = settings.local.clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let ending = async {
        tokio::select! {
            () = shutdown => {}
            () = health.watch() => {}
        }
        health.retire().await;
        if !settings.drain_delay.is_zero() {
            let delay_s = settings.drain_delay.as_secs();
            info!(
                delay_s,
                "not ready any more: calls are served for another {delay_s} s"
            );
            sleep(settings.drain_delay).await;
        }
        info!("stopping: no new connections, calls that have begun may end");
        health.stop().await;
        stopping.send_replace(true);
        drop(stop);
    };
    let stopped = async {
        stopped.await.ok(); // an error means that the other half is gone: stop as well
    };
    let bounds = Bounds::of(&settings);
    let services = (services, Some(store.clone()));
    let wire = (settings.tls, settings.tracer);
    let serving = async {
        tokio::select! {
            () = connections::serve(listener, services, wire, bounds, stopped) => {}
            () = access.watch() => {}
            () = alerts::watch(&desk) => {}
        }
    };
    tokio::join!(ending, serving, desk.presence().keep(leaving));
    local.close();
    Ok(())
}

/// The service of the health protocol. Anybody may call it, so its requests are small.
pub(super) fn health_server(reporter: HealthReporter) -> HealthServer<HealthService> {
    HealthServer::new(HealthService::from_health_reporter(reporter))
        .max_decoding_message_size(OTHER_BYTES_MAX)
}

fn services(
    (desk, senders): (Arc<Desk>, Arc<Senders>),
    gate: Gate,
    (ledger, draining): (Option<SettledLedger>, watch::Receiver<bool>),
    reporter: HealthReporter,
    reflection: Reflection,
) -> Result<Services, ServeError> {
    let lottery = Guarded::new(Lottery::new(desk.clone()), &senders);
    let lottery = LotteryServiceServer::new(lottery).max_decoding_message_size(CALLER_BYTES_MAX);
    let envelopes = Guarded::new(Envelopes::new(desk.clone()), &senders);
    let envelopes =
        EnvelopeServiceServer::new(envelopes).max_decoding_message_size(SENDER_BYTES_MAX);
    let admin = Guarded::new(Admin::new(desk.clone(), draining.clone()), &senders);
    let admin = AdminServiceServer::new(admin).max_decoding_message_size(CALLER_BYTES_MAX);
    let ledger = Ledger::new(desk.clone(), ledger, (draining, senders.clone()));
    let ledger = LedgerServiceServer::new(Guarded::new(ledger, &senders))
        .max_decoding_message_size(CALLER_BYTES_MAX);
    let campaigns = Guarded::new(Campaigns::new(desk), &senders);
    let campaigns =
        CampaignServiceServer::new(campaigns).max_decoding_message_size(OPERATOR_BYTES_MAX);
    let reflected = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // The details of errors, for tools that show them.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    let services = services::Builder::new(Some(gate), || Status::unimplemented(""))
        .add(lottery, CALLER_BYTES_MAX)
        .add(ledger, CALLER_BYTES_MAX)
        .add(admin, CALLER_BYTES_MAX)
        .add(envelopes, SENDER_BYTES_MAX)
        .add(campaigns, OPERATOR_BYTES_MAX)
        .add(health_server(reporter), OTHER_BYTES_MAX);
    let services = match reflection {
        Reflection::Off => services,
        Reflection::On | Reflection::Admin => services
            .add(
                reflected()
                    .build_v1()?
                    .max_decoding_message_size(OTHER_BYTES_MAX),
                OTHER_BYTES_MAX,
            )
            .add(
                reflected()
                    .build_v1alpha()?
                    .max_decoding_message_size(OTHER_BYTES_MAX),
                OTHER_BYTES_MAX,
            ),
    };
    Ok(services.build())
}
