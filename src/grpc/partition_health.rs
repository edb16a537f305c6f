//! The health of the store's partitions, a service of its own in the health protocol: one that has
//! halted, is damaged or away stops its own campaigns and envelopes, and no others.

use tonic_health::{ServingStatus, server::HealthReporter};
use tracing::{info, warn};

use crate::{
    metrics::STORE,
    store::{PartitionState, Store, StoreError, Trouble},
};

/// Its name.
const NAME: &str = "partitions";

/// The most partitions whose trouble is told in full.
const TOLD_MAX: usize = 3;

/// Reports the health of the store's partitions.
pub(super) struct PartitionHealth {
    reporter: HealthReporter,
    /// What was reported last: those that do not work.
    reported: Option<Vec<(u32, PartitionState)>>,
}

impl PartitionHealth {
    pub(super) fn new(reporter: HealthReporter) -> Self {
        Self {
            reporter,
            reported: None,
        }
    }

    /// Reports the partitions after the store was asked, and failed in this way as a whole if it
    /// did. If only some do not work, returns which, and what to do.
    pub(super) async fn report(
        &mut self,
        store: &dyn Store,
        failure: Option<&StoreError>,
    ) -> Option<String> {
        let troubles = store.troubles();
        let all = store.info().partitions;
        count(all, &troubles, failure);
        let is_well = failure.is_none() && troubles.is_empty();
        let status = if is_well {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        self.reporter.set_service_status(NAME, status).await;
        // A failure of the whole store is logged as such.
        if failure.is_some() {
            return None;
        }
        let text = (!troubles.is_empty()).then(|| text(all, &troubles));
        let now: Vec<_> = troubles
            .iter()
            .map(|trouble| (trouble.partition, trouble.state()))
            .collect();
        match (&text, &self.reported) {
            (_, Some(before)) if *before == now => {}
            (Some(text), _) => warn!("{text}"),
            (None, Some(_)) => info!("all partitions of the store work"),
            (None, None) => {}
        }
        self.reported = Some(now);
        text
    }

    /// Ends the streams of those who watch it.
    pub(super) async fn stop(&mut self) {
        self.reporter.clear_service_status(NAME).await;
    }
}

/// Sets how many partitions are in which state. If the store fails as a whole, those without a
/// trouble of their own are in the state of its failure.
fn count(all: u32, troubles: &[Trouble], failure: Option<&StoreError>) {
    let others = failure.map_or(PartitionState::Serving, PartitionState::of);
    for state in PartitionState::ALL {
        let mut count = troubles
            .iter()
            .filter(|trouble| trouble.state() == state)
            .count();
        if state == others {
            count += (all as usize).saturating_sub(troubles.len());
        }
        let gauge = STORE.partitions.with_label_values(&[state.name()]);
        gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// Which of so many partitions do not work, the worst first, and what to do.
fn text(all: u32, troubles: &[Trouble]) -> String {
    let mut sorted: Vec<_> = troubles.iter().collect();
    sorted.sort_by_key(|trouble| std::cmp::Reverse(trouble.state()));
    let told: Vec<_> = sorted
        .iter()
        .take(TOLD_MAX)
        .map(ToString::to_string)
        .collect();
    let (count, told) = (troubles.len(), told.join("; "));
    let verb = if count == 1 { "does" } else { "do" };
    let more = match count.saturating_sub(TOLD_MAX) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!(
        "{count} of {all} partitions {verb} not work, and the campaigns and envelopes in them \
         stand still: {told}{more}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(partition: u32, error: StoreError) -> Trouble {
        Trouble { partition, error }
    }

    #[test]
    fn the_worst_partitions_are_told_and_the_others_counted() {
        let damaged = |number| trouble(number, StoreError::corrupt("a key is gone"));
        let mut troubles: Vec<_> = (0..5).map(damaged).collect();
        let halted = StoreError::Halted("partition 9 is halted".into());
        troubles.push(trouble(9, halted));
        let text = text(16, &troubles);
        assert!(text.starts_with("6 of 16 partitions do not work"), "{text}");
        assert!(text.contains("still: partition 9 is halted; "), "{text}");
        assert!(text.ends_with("; and 3 more"), "{text}");
    }
}
