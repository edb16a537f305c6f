//! Definitions of campaigns, for the names in lists: from the store, or from the ledger once the
//! store has given them up.

use std::sync::Arc;

use super::{LedgerReader, ReadError, Removed};
use crate::{
    cache::Cache,
    chance::unhex,
    model::{Campaign, CampaignId, convert},
    store::{Store, entry::Body},
};

/// Definitions that are kept in memory.
const KEPT_MAX: usize = 256;

/// A campaign and its version.
type Key = (CampaignId, u32);

/// Definitions that were read, by campaign and version.
#[derive(Default)]
pub struct Definitions(Cache<Key, Arc<Campaign>, KEPT_MAX>);

impl Definitions {
    /// The definition of a version; none if nobody has it any more.
    ///
    /// # Errors
    /// The sink cannot be read.
    pub async fn version(
        &self,
        store: &dyn Store,
        reader: &dyn LedgerReader,
        id: &CampaignId,
        version: u32,
    ) -> Result<Option<Arc<Campaign>>, ReadError> {
        let key = (id.clone(), version);
        if let Some(known) = self.0.get(&key) {
            return Ok(Some(known));
        }
        let found = match store.version(id, version).await {
            Ok(campaign) => Some(campaign),
            Err(_) => match settled(reader, id, Some(version)).await? {
                Some(campaign) => Some(campaign),
                // The month of the entry may be dropped. What is kept of a removed campaign stays.
                None => reader.removed_version(id, version).await?,
            },
        };
        if let Some(campaign) = &found {
            self.0.put(key, Arc::clone(campaign));
        }
        Ok(found)
    }

    /// The newest definition of a campaign; none if nobody has it any more. Prizes and pools have
    /// the same numbers in all versions.
    ///
    /// # Errors
    /// The sink cannot be read.
    pub async fn newest(
        &self,
        store: &dyn Store,
        reader: &dyn LedgerReader,
        id: &CampaignId,
    ) -> Result<Option<Arc<Campaign>>, ReadError> {
        if let Ok(view) = store.campaign(id).await {
            return Ok(Some(view.campaign));
        }
        if let Some(campaign) = settled(reader, id, None).await? {
            return Ok(Some(campaign));
        }
        let removed = reader.removed(Removed::One(id)).await?.pop();
        Ok(removed.map(|removed| removed.stats.view.campaign))
    }
}

/// The definition in the entry that brought it into force. Earlier versions wrote none.
async fn settled(
    reader: &dyn LedgerReader,
    id: &CampaignId,
    version: Option<u32>,
) -> Result<Option<Arc<Campaign>>, ReadError> {
    let Some(entry) = reader.applied(id, version).await? else {
        return Ok(None);
    };
    let Body::Applied(applied) = entry.body else {
        return Ok(None);
    };
    if version.is_some_and(|version| version != applied.version) {
        return Ok(None);
    }
    let campaign = unhex(&applied.definition).filter(|bytes| !bytes.is_empty());
    let campaign = campaign.and_then(|bytes| convert::decode(&bytes).ok());
    Ok(campaign.map(Arc::new))
}
