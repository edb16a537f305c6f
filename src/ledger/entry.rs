//! What a sink stores of an entry: columns to search by, and the bytes that say everything.
//!
//! The bytes are made and read here and nowhere else. [`FORMAT`] names their form, and each stored
//! entry has its format beside it, so that a later version can write another form and still read
//! this one.

use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::{
    model::Moment,
    store::{
        Entry,
        entry::{Body, EnvelopeCreated},
    },
};

/// The form of the bytes that this version writes: the entry's body as JSON.
///
/// The bytes of an entry that is in a store already must stay the same for as long as this number
/// does: the settler compares the last settled entry with its digest.
pub const FORMAT: i16 = 1;

/// An entry as a sink stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// The partition, from 0.
    pub partition: u32,
    /// The entry's number in its partition.
    pub sequence: u64,
    /// The entry's number in its campaign, if it has one.
    pub number: Option<u64>,
    /// Mark of the store's fork.
    pub fork: u32,
    /// When it was written, by the store's clock.
    pub at: Moment,
    /// The name of what happened.
    pub kind: &'static str,
    /// The campaign's id, if the entry is about one.
    pub campaign: Option<String>,
    /// The envelope's id, if the entry is about one.
    pub envelope: Option<String>,
    /// Who drew or grabbed.
    pub user: Option<String>,
    /// The request id of a draw or of an operator's act.
    pub request: Option<String>,
    /// What happened, in the form [`FORMAT`].
    pub body: Vec<u8>,
}

impl StoredEntry {
    /// The form in which an entry is stored.
    pub fn of(entry: &Entry) -> Self {
        let (user, request) = people(&entry.body);
        Self {
            partition: entry.id.partition,
            sequence: entry.id.sequence,
            number: entry.number,
            fork: entry.fork,
            at: entry.at,
            kind: entry.body.kind(),
            campaign: entry.subject.campaign().map(ToString::to_string),
            envelope: entry.subject.envelope().map(ToString::to_string),
            user,
            request,
            // Only maps with keys that are not text fail, and there are none.
            body: serde_json::to_vec(&entry.body).expect("an entry can be written as JSON"),
        }
    }

    /// SHA-256 of the bytes.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(&self.body).into()
    }
}

/// Stored bytes that this version cannot read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// A later version wrote them.
    #[error("the entry is stored in format {0}, and this version reads format {FORMAT}")]
    Newer(i16),
    /// They are damaged.
    #[error("the stored entry cannot be read: {0}")]
    Damaged(#[from] serde_json::Error),
    /// The id of its campaign or envelope is none.
    #[error("the stored entry names something by an id that is none: {0}")]
    Id(String),
}

/// Reads the bytes of a stored entry.
///
/// # Errors
/// The format is unknown, or the bytes are damaged.
pub fn decode(format: i16, body: &[u8]) -> Result<Body, Unreadable> {
    match format {
        FORMAT => Ok(serde_json::from_slice(body)?),
        other => Err(Unreadable::Newer(other)),
    }
}

/// A moment for PostgreSQL.
pub fn to_system_time(moment: Moment) -> SystemTime {
    let micros = u64::try_from(moment.as_micros()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros)
}

/// A moment from PostgreSQL.
pub fn from_system_time(time: SystemTime) -> Moment {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    Moment::EPOCH + since.unwrap_or_default()
}

/// The user and the request id that an entry names.
fn people(body: &Body) -> (Option<String>, Option<String>) {
    match body {
        Body::Draw(draw) => (Some(draw.user.to_string()), Some(draw.request.to_string())),
        Body::Grab { user, .. } => (Some(user.to_string()), None),
        Body::Delivered { win, author, .. } | Body::Revoked { win, author, .. } => {
            (Some(win.user.to_string()), Some(author.request.to_string()))
        }
        Body::EnvelopeCreated(created) => (Some(sender(created)), None),
        Body::Applied(applied) => (None, Some(applied.author.request.to_string())),
        Body::Operated { author, .. }
        | Body::Recovered { author, .. }
        | Body::Refund {
            author: Some(author),
            ..
        } => (None, Some(author.request.to_string())),
        Body::Refund { author: None, .. }
        | Body::Injected(_)
        | Body::Missed { .. }
        | Body::Dealt { .. }
        | Body::TakenBack { .. }
        | Body::Closed {}
        | Body::Forked { .. } => (None, None),
    }
}

fn sender(created: &EnvelopeCreated) -> String {
    created.envelope.sender.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{
            CampaignId, RequestId, UserId,
            limits::{Funding, UserCounts},
        },
        store::{Cause, DrawResult, LedgerId, Subject, entry::DrawEntry},
    };

    fn stored(body: Body) -> StoredEntry {
        StoredEntry::of(&Entry {
            id: LedgerId {
                partition: 2,
                sequence: 7,
            },
            number: Some(5),
            fork: 0,
            at: Moment::from_micros(1_795_960_801_000_001),
            subject: Subject::Campaign(CampaignId::parse("campaign", "spring").unwrap()),
            body,
        })
    }

    #[test]
    fn the_kind_is_the_name_in_the_bytes() {
        for body in [
            Body::Closed {},
            Body::Grab {
                user: UserId::parse("user", "u").unwrap(),
                packet: 1,
                amount_minor: 5,
            },
            Body::Forked {
                replid: "a".repeat(40),
                base: 3,
                mark: 1,
            },
        ] {
            let stored = stored(body.clone());
            let json: serde_json::Value = serde_json::from_slice(&stored.body).unwrap();
            assert_eq!(json["kind"], stored.kind);
            assert_eq!(decode(FORMAT, &stored.body).unwrap(), body);
        }
    }

    #[test]
    fn the_bytes_of_a_format_never_change() {
        let draw = Body::Draw(DrawEntry {
            version: 3,
            user: UserId::parse("user", "u1").unwrap(),
            request: RequestId::parse("request", "r1").unwrap(),
            funding: Funding::Free,
            payment_ref: String::new(),
            consolation_only: false,
            results: [true, false]
                .map(|consolation| DrawResult::NotWon {
                    consolation,
                    cause: Cause::Unknown,
                })
                .into(),
            counts: UserCounts::default(),
        });
        let golden = concat!(
            r#"{"kind":"draw","version":3,"user":"u1","request":"r1","funding":"free","#,
            r#""results":[1,0],"counts":{"free_today":0,"paid_today":0,"draws":0,"#,
            r#""bonus_used":0,"wins":0,"bonus_left":0}}"#
        );
        assert_eq!(String::from_utf8(stored(draw).body).unwrap(), golden);
    }

    #[test]
    fn bytes_of_another_format_are_refused() {
        let body = stored(Body::Closed {}).body;
        assert!(matches!(decode(2, &body), Err(Unreadable::Newer(2))));
        assert!(matches!(decode(FORMAT, b"{"), Err(Unreadable::Damaged(_))));
    }

    #[test]
    fn moments_keep_their_microseconds() {
        let moment = Moment::from_micros(1_795_960_801_000_001);
        assert_eq!(from_system_time(to_system_time(moment)), moment);
    }
}
