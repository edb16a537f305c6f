//! The health of the store's clock, a service of its own in the health protocol: draws go on while
//! it stands still, but nothing is released, begins or ends.

use tonic_health::{ServingStatus, server::HealthReporter};
use tracing::{info, warn};

use crate::{
    metrics::STORE,
    model::Moment,
    store::{StandingStill, Store},
};

/// Its name.
const NAME: &str = "clock";

/// Reports the health of the store's clock.
pub(super) struct ClockHealth {
    reporter: HealthReporter,
    /// What was logged last.
    still: Option<Vec<StandingStill>>,
}

impl ClockHealth {
    pub(super) fn new(reporter: HealthReporter) -> Self {
        Self {
            reporter,
            still: None,
        }
    }

    /// Reports the partitions in which the clock stands still, if they have changed.
    pub(super) async fn report(&mut self, store: &dyn Store) {
        let still = store.standing_still();
        if self.still.as_ref() == Some(&still) {
            return;
        }
        let status = if still.is_empty() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        let partitions = i64::try_from(still.len()).unwrap_or(i64::MAX);
        STORE.clock_still_partitions.set(partitions);
        self.reporter.set_service_status(NAME, status).await;
        match (&self.still, until(&still)) {
            (_, Some(until)) => warn!(
                partitions = numbers(&still),
                %until,
                "time stands still until {until} in partitions {}: they were written while the \
                 store's clock was ahead; draws go on there, and nothing is released, begins or \
                 ends",
                numbers(&still)
            ),
            (Some(_), None) => info!("time goes on in all partitions"),
            (None, None) => {}
        }
        self.still = Some(still);
    }

    /// Ends the streams of those who watch it.
    pub(super) async fn stop(&mut self) {
        self.reporter.clear_service_status(NAME).await;
    }
}

/// When all of them go on.
fn until(still: &[StandingStill]) -> Option<Moment> {
    still.iter().map(|one| one.until).max()
}

fn numbers(still: &[StandingStill]) -> String {
    let numbers: Vec<_> = still.iter().map(|one| one.partition.to_string()).collect();
    numbers.join(", ")
}
