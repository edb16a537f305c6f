//! Data of ours that somebody removed: never taken for data that never were. A campaign is listed
//! in its partition from its first version on, so one that is listed without its hash was removed
//! by someone else, and its id stays taken. A retention that removes campaigns on purpose takes the
//! id off the list in the same script and keeps a digest of it, as that of envelopes does.

use super::{
    core::Core,
    format::{
        reply::{self, Parts, letter},
        scripts,
    },
    step::campaign::Fields,
};
use crate::{
    model::CampaignId,
    store::{Refusal, Result, StoreError},
};

impl Core {
    /// Why a campaign was not found: it never was, or its hash is gone.
    pub(super) async fn not_found(&self, id: &CampaignId) -> StoreError {
        match self.is_gone(id).await {
            Ok(true) => gone(&self.partition(id).campaign(id).campaign),
            Ok(false) => Refusal::CampaignNotFound.into(),
            Err(error) => error,
        }
    }

    async fn is_gone(&self, id: &CampaignId) -> Result<bool> {
        let partition = self.partition(id);
        let keys = [
            partition.partition.clone(),
            partition.campaigns.clone(),
            partition.campaign(id).campaign,
        ];
        let args = [id.as_str()];
        let (_, mut parts) = self.ask(partition, &scripts::LISTED, &keys, &args).await?;
        let answer = parts.next()?;
        if letter(&answer) == Some(b'L') {
            return Err(self.lost());
        }
        Ok(reply::number::<u8>(answer)? == 1)
    }

    /// The same result, which of a campaign that was not found says why.
    pub(super) async fn explained<T>(&self, id: &CampaignId, result: Result<T>) -> Result<T> {
        match result {
            Err(StoreError::Refused(Refusal::CampaignNotFound)) => Err(self.not_found(id).await),
            result => result,
        }
    }

    /// What the load script replies first, as [`Core::fields`] reads it; of a campaign that was not
    /// found, why.
    pub(super) async fn found_fields(
        &self,
        id: &CampaignId,
        parts: &mut Parts,
    ) -> Result<(Fields, Option<Vec<u8>>)> {
        let fields = self.fields(id, parts);
        self.explained(id, fields).await
    }
}

/// A key of data that must be there is not.
pub(super) fn gone(key: &[u8]) -> StoreError {
    let key = String::from_utf8_lossy(key);
    StoreError::corrupt(format!(
        "the key {key} is gone from Redis, though it was never removed by tombola; nothing is done \
         with what it belongs to until it is restored"
    ))
}

/// What is to be made finds a key of one that was there before.
pub(super) fn left_over(what: &str, key: &[u8]) -> StoreError {
    let key = String::from_utf8_lossy(key);
    StoreError::corrupt(format!(
        "{what} was there before and its data are gone, but for {key}: its id is not used again; \
         restore the data"
    ))
}

/// Units that a counter tells of are not in their queue.
pub(super) fn units_gone(key: &[u8]) -> StoreError {
    let key = String::from_utf8_lossy(key);
    StoreError::corrupt(format!(
        "the key {key} in Redis has not the units that its campaign counts; nothing is put in or \
         taken back until it is restored"
    ))
}
