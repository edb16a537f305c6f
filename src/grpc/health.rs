//! The standard health service: whether the store does its work.

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval, timeout};
use tonic::server::NamedService;
use tonic_health::{ServingStatus, server::HealthReporter};
use tracing::{info, warn};

use super::{
    backup::Admin,
    campaigns::Campaigns,
    clock_health::ClockHealth,
    envelopes::Envelopes,
    ledger::Ledger,
    ledger_health::LedgerHealth,
    lottery::Lottery,
    partition_health::PartitionHealth,
    readiness::{Phase, Readiness},
};
use crate::{
    proto::{
        admin_service_server::AdminServiceServer, campaign_service_server::CampaignServiceServer,
        envelope_service_server::EnvelopeServiceServer, ledger_service_server::LedgerServiceServer,
        lottery_service_server::LotteryServiceServer,
    },
    store::{Executed, Store, StoreError},
};

/// How often the store is asked.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// How long it may take to answer.
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);

/// What is reported: the server as a whole, and each service.
pub(super) const NAMES: [&str; 6] = [
    "",
    <LotteryServiceServer<Lottery> as NamedService>::NAME,
    <EnvelopeServiceServer<Envelopes> as NamedService>::NAME,
    <CampaignServiceServer<Campaigns> as NamedService>::NAME,
    <LedgerServiceServer<Ledger> as NamedService>::NAME,
    <AdminServiceServer<Admin> as NamedService>::NAME,
];

/// A service that is `SERVING` while the process works, whatever state the store is in: for probes
/// that restart the process.
const LIVENESS: &str = "liveness";

/// A service that exists on a test clock only, so that probes can see it.
const TEST_NAME: &str = "TEST";

/// Reports the health of the server.
pub(super) struct Health {
    reporter: HealthReporter,
    readiness: Readiness,
    store: Arc<dyn Store>,
    serving: Option<bool>,
    clock: ClockHealth,
    ledger: LedgerHealth,
    partitions: PartitionHealth,
}

impl Health {
    /// The health of a server before its store was asked.
    pub(super) fn new(
        reporter: HealthReporter,
        readiness: Readiness,
        store: Arc<dyn Store>,
    ) -> Self {
        Self {
            clock: ClockHealth::new(reporter.clone()),
            ledger: LedgerHealth::new(reporter.clone()),
            partitions: PartitionHealth::new(reporter.clone()),
            reporter,
            readiness,
            store,
            serving: None,
        }
    }

    /// Asks the store once.
    pub(super) async fn probe(&mut self) {
        let failure = match timeout(PROBE_TIME_MAX, self.store.now()).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(StoreError::Unavailable {
                executed: Executed::No,
                detail: "it does not answer".into(),
            }),
        };
        let impaired = self.partitions.report(&*self.store, failure.as_ref()).await;
        self.clock.report(&*self.store).await;
        // A store that does not answer is known already.
        drop(timeout(PROBE_TIME_MAX, self.ledger.report(&*self.store)).await);
        let serving = failure.is_none();
        self.readiness.set(match &failure {
            None => impaired.map_or(Phase::Ready, Phase::Impaired),
            Some(failure) => Phase::NotReady(format!("the store is not serving: {failure}")),
        });
        if self.serving == Some(serving) {
            return;
        }
        match failure {
            None => info!("the store is serving"),
            Some(failure) => warn!(%failure, "the store is not serving"),
        }
        self.report(serving).await;
    }

    /// Asks the store for ever.
    pub(super) async fn watch(&mut self) {
        let mut beat = interval(PROBE_INTERVAL);
        // A probe that takes long is followed by the next one at once.
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            self.probe().await;
        }
    }

    /// Reports that the server will be gone soon.
    pub(super) async fn retire(&mut self) {
        self.readiness.set(Phase::Stopping);
        self.report(false).await;
    }

    /// Ends the streams of those who watch: they would keep their connections open for as long as
    /// a stopping server waits.
    pub(super) async fn stop(&mut self) {
        for name in self.names().chain([LIVENESS]) {
            self.reporter.clear_service_status(name).await;
        }
        self.clock.stop().await;
        self.ledger.stop().await;
        self.partitions.stop().await;
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let test = self.store.info().test_clock.then_some(TEST_NAME);
        NAMES.into_iter().chain(test)
    }

    async fn report(&mut self, serving: bool) {
        self.serving = Some(serving);
        self.reporter
            .set_service_status(LIVENESS, ServingStatus::Serving)
            .await;
        let status = if serving {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for name in self.names() {
            self.reporter.set_service_status(name, status).await;
        }
    }
}
