//! Entries as sinks have them, decoded. This is the one place at which readers decode.

use std::sync::Arc;

use super::{Delivery, DeliveryState, ReadError, Rows, sql::PAGE_BYTES_MAX};
use crate::{
    ledger::{
        entry::{self, Clear, Unreadable},
        removed::{RemovedCampaign, RemovedRow, definition_of, version_info},
    },
    model::{Campaign, CampaignId, EnvelopeId, Moment},
    store::{Entry, LedgerId, Subject, view::VersionInfo},
};

/// What became of a win, from the columns of its row.
pub(super) fn delivery(code: i16, reference: String, at: Option<Moment>) -> Delivery {
    let state = match code {
        0 => DeliveryState::Pending,
        1 => DeliveryState::Delivered,
        _ => DeliveryState::Revoked,
    };
    Delivery {
        state,
        reference,
        at,
    }
}

/// A row of the table of entries.
#[derive(Clone, Debug)]
pub struct EntryRow {
    /// Its partition and number.
    pub id: LedgerId,
    /// When it was written.
    pub at: Moment,
    /// The campaign that it is about.
    pub campaign: Option<String>,
    /// The envelope that it is about.
    pub envelope: Option<String>,
    /// The form of its bytes.
    pub format: i16,
    /// Its bytes.
    pub body: Vec<u8>,
    /// Its number in its campaign.
    pub number: Option<u64>,
    /// Mark of the store's fork.
    pub fork: u32,
    /// The column `user_id`.
    pub user: Option<String>,
    /// The column `request_id`.
    pub request: Option<String>,
    /// The column `people`.
    pub people: Option<String>,
}

/// The entry of a row.
pub(super) fn decode(row: EntryRow) -> Result<Entry, ReadError> {
    let unreadable = |cause| ReadError::Unreadable { id: row.id, cause };
    let clear = Clear {
        user: row.user.as_deref(),
        request: row.request.as_deref(),
        people: row.people.as_deref(),
    };
    let subject = subject(row.campaign.as_deref(), row.envelope.as_deref());
    Ok(Entry {
        id: row.id,
        number: row.number,
        fork: row.fork,
        at: row.at,
        subject: subject.map_err(unreadable)?,
        body: entry::decode(row.format, &row.body, &clear).map_err(unreadable)?,
    })
}

fn subject(campaign: Option<&str>, envelope: Option<&str>) -> Result<Subject, Unreadable> {
    let subject = match (campaign, envelope) {
        (Some(id), _) => CampaignId::parse("campaign", id).map(Subject::Campaign),
        (None, Some(id)) => EnvelopeId::parse("envelope", id).map(Subject::Envelope),
        (None, None) => Ok(Subject::Partition),
    };
    subject.map_err(|problem| Unreadable::Id(problem.message))
}

impl Rows<Entry> {
    /// The entries of rows, of which at most `limit` were asked for.
    pub(super) fn of(found: Vec<EntryRow>, limit: usize) -> Result<Self, ReadError> {
        let bytes = found.iter().map(|row| row.body.len()).sum::<usize>();
        Ok(Self {
            more: found.len() == limit || bytes >= PAGE_BYTES_MAX,
            rows: found.into_iter().map(decode).collect::<Result<_, _>>()?,
        })
    }
}

/// A removed campaign, from the columns of its row and the definition of its last version.
pub(super) fn removed(
    (row, definition): (RemovedRow, Vec<u8>),
) -> Result<RemovedCampaign, ReadError> {
    let campaign = row.campaign.clone();
    let decoded = row.decode(&definition, Vec::new());
    decoded.map_err(|cause| ReadError::UnreadableCampaign { campaign, cause })
}

/// A version's columns: number, moment, operator, reason.
pub(super) type VersionColumns = (u32, Moment, String, String);

/// Who made a version of a removed campaign.
pub(super) fn version(
    campaign: &CampaignId,
    (version, at, operator, reason): VersionColumns,
) -> Result<VersionInfo, ReadError> {
    let info = version_info((version, at), &operator, reason);
    info.map_err(|cause| unreadable(campaign, cause))
}

/// The definition of a version of a removed campaign.
pub(super) fn definition(campaign: &CampaignId, bytes: &[u8]) -> Result<Arc<Campaign>, ReadError> {
    definition_of(bytes).map_err(|cause| unreadable(campaign, cause))
}

fn unreadable(campaign: &CampaignId, cause: String) -> ReadError {
    ReadError::UnreadableCampaign {
        campaign: campaign.to_string(),
        cause,
    }
}
