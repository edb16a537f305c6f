//! The health of the ledger, a service of its own in the health protocol: draws go on while it is
//! not settled, until the backlog reaches its bound.

use tonic_health::{ServingStatus, server::HealthReporter};

use super::ledger_stats::LAG_MAX;
use crate::store::Store;

/// Its name.
const NAME: &str = "ledger";
/// The store is asked at each of so many probes.
const PROBES: u32 = 10;

/// Reports the health of the ledger.
pub(super) struct LedgerHealth {
    reporter: HealthReporter,
    probes: u32,
}

impl LedgerHealth {
    pub(super) fn new(reporter: HealthReporter) -> Self {
        Self {
            reporter,
            probes: 0,
        }
    }

    /// Asks the store from time to time. While it does not answer, the last report stands.
    pub(super) async fn report(&mut self, store: &dyn Store) {
        let is_turn = self.probes.is_multiple_of(PROBES);
        self.probes = self.probes.wrapping_add(1);
        if !is_turn {
            return;
        }
        let mut status = ServingStatus::Serving;
        for partition in 0..store.info().partitions {
            let Ok(backlog) = store.backlog(partition).await else {
                return;
            };
            let is_late = |oldest| store.passed_since(oldest) > LAG_MAX;
            if backlog.has_sink && backlog.oldest.is_some_and(is_late) {
                status = ServingStatus::NotServing;
            }
        }
        self.reporter.set_service_status(NAME, status).await;
    }

    /// Ends the streams of those who watch it.
    pub(super) async fn stop(&mut self) {
        self.reporter.clear_service_status(NAME).await;
    }
}
