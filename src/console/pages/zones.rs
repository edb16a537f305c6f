//! The zones of campaigns whose rows are in one table.

use std::collections::{BTreeSet, HashMap};

use jiff::tz::TimeZone;
use tokio::task::JoinSet;

use super::{definition, status};
use crate::console::visit::Visit;

/// Campaigns that a page reads for their zones. Rows of others are in UTC.
const READ_MAX: usize = 10;

/// Zones of campaigns by their ids.
#[derive(Debug, Default)]
pub(super) struct Zones(HashMap<String, TimeZone>);

impl Zones {
    /// The zones of the first of these campaigns, as far as the visitor may read them.
    pub(super) async fn read(visit: &Visit, campaigns: impl Iterator<Item = &str>) -> Self {
        let campaigns: BTreeSet<_> = campaigns.filter(|id| !id.is_empty()).collect();
        let mut reads = JoinSet::new();
        for id in campaigns.into_iter().take(READ_MAX) {
            let (visit, id) = (visit.clone(), id.to_owned());
            reads.spawn(async move {
                let status = status(&visit, &id).await.ok()?;
                Some((id, definition(&status).1))
            });
        }
        Self(reads.join_all().await.into_iter().flatten().collect())
    }

    /// The zone of a campaign; UTC if it is not known.
    pub(super) fn of_campaign(&self, id: &str) -> TimeZone {
        self.0.get(id).cloned().unwrap_or(TimeZone::UTC)
    }
}
