//! The definition by which an operator's act names prizes and pools.

use std::sync::Arc;

use crate::{
    ledger::read::{LedgerReader, ReadError, definitions::Definitions},
    model::{Campaign, CampaignId, Moment},
    store::{Store, view::VersionInfo},
};

/// The definition that was in force at a moment; none if nobody has it any more. As long as nothing
/// has happened to a campaign, a new version may give its prizes and pools other numbers.
pub(super) async fn in_force(
    definitions: &Definitions,
    (store, reader): (&dyn Store, &dyn LedgerReader),
    id: &CampaignId,
    at: Moment,
) -> Result<Option<Arc<Campaign>>, ReadError> {
    let known = store.campaign(id).await.ok();
    let versions: Arc<[VersionInfo]> = match &known {
        Some(view) => Arc::clone(&view.versions),
        None => reader.removed_versions(id).await?.into(),
    };
    let mut newest_first = versions.iter().rev();
    let then = newest_first.find(|version| version.at <= at);
    match (then.map(|then| then.version), known) {
        (Some(then), Some(view)) if then == view.version => Ok(Some(view.campaign)),
        (Some(then), _) => definitions.version(store, reader, id, then).await,
        (None, _) => definitions.newest(store, reader, id).await,
    }
}
