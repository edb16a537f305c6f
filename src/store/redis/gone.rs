//! Data that somebody else removed from Redis. They are distinguished from data that never existed:
//! a campaign is listed in its partition from its first version on. If it is listed and its hash is
//! missing, someone removed it, and its id stays taken. One that tombola removed has a tombstone.

use redis::Value;

use super::{
    core::Core,
    format::{
        keys::IdDigest,
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
    /// Why a campaign was not found: it never existed, it was removed, or its hash is gone.
    pub(super) async fn not_found(&self, id: &CampaignId) -> StoreError {
        match self.absence(id).await {
            Ok(why) | Err(why) => why,
        }
    }

    async fn absence(&self, id: &CampaignId) -> Result<StoreError> {
        let partition = self.partition(id);
        let keys = [
            partition.partition.clone(),
            partition.campaigns.clone(),
            partition.campaign(id).campaign,
            partition.removed_campaigns.clone(),
        ];
        let args = [id.as_str().as_bytes(), &IdDigest::campaign(id).field];
        let (_, mut parts) = self.ask(partition, &scripts::LISTED, &keys, &args).await?;
        let answer = parts.next()?;
        if letter(&answer) == Some(b'L') {
            return Err(self.lost());
        }
        if reply::number::<u8>(answer)? == 1 {
            return Ok(gone(&partition.campaign(id).campaign));
        }
        match parts.maybe_next().filter(|end| *end != Value::Nil) {
            Some(end) => Ok(Refusal::Removed {
                end: reply::moment(end)?,
            }
            .into()),
            None => Ok(Refusal::CampaignNotFound.into()),
        }
    }

    /// The same result; if it is that a campaign was not found, with the reason.
    pub(super) async fn explained<T>(&self, id: &CampaignId, result: Result<T>) -> Result<T> {
        match result {
            Err(StoreError::Refused(Refusal::CampaignNotFound)) => Err(self.not_found(id).await),
            result => result,
        }
    }

    /// The first parts of the load script's reply, as [`Core::fields`] reads them; if the campaign
    /// was not found, an error with the reason.
    pub(super) async fn found_fields(
        &self,
        id: &CampaignId,
        parts: &mut Parts,
    ) -> Result<(Fields, Option<Vec<u8>>)> {
        let fields = self.fields(id, parts);
        self.explained(id, fields).await
    }
}

/// The error if a key that must exist is missing.
pub(super) fn gone(key: &[u8]) -> StoreError {
    let key = String::from_utf8_lossy(key);
    StoreError::corrupt(format!(
        "the key {key} is gone from Redis, though it was never removed by tombola; nothing is done \
         with what it belongs to until it is restored"
    ))
}

/// The error if something new finds a key of an earlier one with its id.
pub(super) fn left_over(what: &str, key: &[u8]) -> StoreError {
    let key = String::from_utf8_lossy(key);
    StoreError::corrupt(format!(
        "{what} was there before and its data are gone, but for {key}: its id is not used again; \
         restore the data"
    ))
}

/// The error if a queue has fewer or more units than its counter says.
pub(super) fn units_gone(key: &[u8]) -> StoreError {
    let key = String::from_utf8_lossy(key);
    StoreError::corrupt(format!(
        "the key {key} in Redis has not the units that its campaign counts; nothing is put in or \
         taken back until it is restored"
    ))
}
