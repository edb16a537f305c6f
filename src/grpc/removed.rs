//! Reads of campaigns: from the store, or from the settled ledger once their data have left it.

use std::{collections::BTreeMap, sync::Arc};

use super::{desk::Desk, status::CallError};
use crate::{
    ledger::{
        read::{LedgerReader, Removed},
        removed::RemovedCampaign,
    },
    model::{Campaign, CampaignId, RequestId, UserId},
    store::{
        CampaignView, DrawAnswer, Refusal, Stats, StoreError, WindowView, entry::Body,
        last_windows::last_windows,
    },
};

/// The campaign's data have left the store.
pub(super) fn is_removal(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused(Refusal::Removed { .. }))
}

impl Desk {
    /// A campaign as it stands, or as it stood last.
    pub(super) async fn campaign(&self, id: &CampaignId) -> Result<CampaignView, CallError> {
        match self.store().campaign(id).await {
            Err(error) if is_removal(&error) => {
                let (reader, removed) = self.removed(id, error).await?;
                let mut view = removed.stats.view;
                view.versions = reader.removed_versions(id).await?.into();
                Ok(view)
            }
            view => Ok(view?),
        }
    }

    /// The definition of a version.
    pub(super) async fn version(
        &self,
        id: &CampaignId,
        version: u32,
    ) -> Result<Arc<Campaign>, CallError> {
        match self.store().version(id, version).await {
            Err(error) if is_removal(&error) => {
                let definition = self.reader_or(error)?.removed_version(id, version).await?;
                Ok(definition.ok_or(Refusal::VersionNotFound(version))?)
            }
            definition => Ok(definition?),
        }
    }

    /// Campaigns by id, after `after`, at most `limit`, those too whose data have left the store.
    pub(super) async fn campaigns(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<CampaignView>, CallError> {
        // The store is read first: what leaves it meanwhile is in the ledger by then.
        let stored = self.store().campaigns(after, limit).await?;
        let Some(reader) = self.ledger() else {
            return Ok(stored);
        };
        let removed = Removed::After(after.unwrap_or_default(), limit);
        let removed = reader.removed(removed).await?.into_iter();
        let removed = removed.map(|campaign| campaign.stats.view);
        let by_id = |view: CampaignView| (view.campaign.id.clone(), view);
        // A campaign that has a row may still be in the store, which counts then.
        let views: BTreeMap<_, _> = removed.chain(stored).map(by_id).collect();
        Ok(views.into_values().take(limit).collect())
    }

    /// Where every unit is, and the last windows; none of the windows is secret any more if the
    /// data have left the store.
    pub(super) async fn stats(
        &self,
        id: &CampaignId,
    ) -> Result<(Stats, Vec<WindowView>, bool), CallError> {
        let stored = async {
            let stats = self.store().stats(id).await?;
            let windows = last_windows(self.store(), &stats).await?;
            Ok::<_, StoreError>((stats, windows, true))
        };
        match stored.await {
            Err(error) if is_removal(&error) => {
                let (_, removed) = self.removed(id, error).await?;
                Ok((removed.stats, removed.windows, false))
            }
            stored => Ok(stored?),
        }
    }

    /// What a draw answered: one that the store remembers, or any of a campaign whose data have
    /// left it.
    pub(super) async fn find_draw(
        &self,
        id: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<DrawAnswer, CallError> {
        let error = match self.store().find_draw(id, user, request).await {
            Err(error) if is_removal(&error) => error,
            answer => return Ok(answer?),
        };
        let reader = self.reader_or(error)?;
        let entry = reader.draw(id, user, request).await?;
        let entry = entry.ok_or(Refusal::DrawNotFound)?;
        let Body::Draw(draw) = entry.body else {
            return Err(Refusal::DrawNotFound.into());
        };
        Ok(DrawAnswer {
            campaign: self.version(id, draw.version).await?,
            entry: Arc::new(draw),
            ledger: entry.id,
            at: entry.at,
            replayed: true,
            running_low: Vec::new(),
        })
    }

    /// A campaign whose data have left the store, which refused with this error.
    async fn removed(
        &self,
        id: &CampaignId,
        error: StoreError,
    ) -> Result<(&dyn LedgerReader, RemovedCampaign), CallError> {
        let reader = self.reader_or(error.clone())?;
        let found = reader.removed(Removed::One(id)).await?.pop();
        Ok((reader, found.ok_or(error)?))
    }

    /// What reads the settled ledger; this error if nothing does.
    fn reader_or(&self, error: StoreError) -> Result<&dyn LedgerReader, CallError> {
        Ok(self.ledger().ok_or(error)?)
    }
}
