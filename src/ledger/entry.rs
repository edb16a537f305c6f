//! What a sink stores of an entry: the canonical bytes, in which pseudonyms stand for people, and
//! columns beside them, some with the clear values.
//!
//! The bytes are made and read here and nowhere else; `docs/ledger-format.md` describes them. Each
//! stored entry has its format beside it. All formats stay readable:
//!
//! - 1: the body as JSON with clear values. Entries without a number within their campaign, which
//!   versions before numbers wrote, are still stored in it. It is also the store's own form, of
//!   which the cursor keeps a digest: it does not depend on salts, which may be destroyed.
//! - 2: the canonical form

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::people::{Column, walk};
use crate::{
    chance::Pseudonyms,
    model::{Moment, Problem},
    store::{Entry, entry::Body},
};

/// The canonical form.
const CANONICAL: i16 = 2;
/// The store's own form, the body as JSON with clear values. Its bytes of an entry that is in a
/// store must stay the same: the settler compares the last settled entry with its digest.
pub const OWN_FORMAT: i16 = 1;

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
    /// Who drew or grabbed, or sent the envelope.
    pub user: Option<String>,
    /// The request id of a draw, of a caller's grant or of an operator's act.
    pub request: Option<String>,
    /// JSON list of the other clear values that pseudonyms stand for, in the order of the body;
    /// none if there are no others, or if the bytes have no pseudonyms.
    pub people: Option<String>,
    /// The form of the bytes.
    pub format: i16,
    /// What happened.
    pub body: Vec<u8>,
}

/// The clear values beside the bytes of an entry, as far as they are not erased.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clear<'a> {
    /// The column `user_id`.
    pub user: Option<&'a str>,
    /// The column `request_id`.
    pub request: Option<&'a str>,
    /// The column `people`.
    pub people: Option<&'a str>,
}

/// The canonical form: fields in this order, and JSON without blanks.
#[derive(Serialize)]
struct Canonical<'a> {
    at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    campaign: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    envelope: Option<&'a str>,
    number: u64,
    fork: u32,
    body: &'a Body,
}

/// The part of the canonical form that is read back; columns have the rest.
#[derive(Deserialize)]
struct Content {
    body: Body,
}

impl StoredEntry {
    /// The form in which an entry is stored.
    pub fn of(entry: &Entry, pseudonyms: &Pseudonyms) -> Self {
        let mut body = entry.body.clone();
        let (user, request, people) = replace(&mut body, pseudonyms);
        let campaign = entry.subject.campaign().map(ToString::to_string);
        let envelope = entry.subject.envelope().map(ToString::to_string);
        let (format, body, people) = match entry.number {
            None => (OWN_FORMAT, json(&entry.body), Vec::new()),
            Some(number) => {
                let canonical = Canonical {
                    at: entry.at.as_micros(),
                    campaign: campaign.as_deref(),
                    envelope: envelope.as_deref(),
                    number,
                    fork: entry.fork,
                    body: &body,
                };
                (CANONICAL, json(&canonical), people)
            }
        };
        Self {
            partition: entry.id.partition,
            sequence: entry.id.sequence,
            number: entry.number,
            fork: entry.fork,
            at: entry.at,
            kind: entry.body.kind(),
            campaign,
            envelope,
            user,
            request,
            people: (!people.is_empty())
                .then(|| String::from_utf8_lossy(&json(&people)).into_owned()),
            format,
            body,
        }
    }
}

/// SHA-256 of an entry in the store's own form.
pub fn digest(entry: &Entry) -> [u8; 32] {
    Sha256::digest(json(&entry.body)).into()
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    // Only maps with keys that are not text fail, and there are none.
    serde_json::to_vec(value).expect("an entry can be written as JSON")
}

/// Puts pseudonyms in place of people; the clear values by column.
fn replace(
    body: &mut Body,
    pseudonyms: &Pseudonyms,
) -> (Option<String>, Option<String>, Vec<String>) {
    let (mut user, mut request, mut people) = (None, None, Vec::new());
    let replaced = walk(body, &mut |column, kind, value| {
        let pseudonym = pseudonyms.of(kind, value);
        let clear = std::mem::replace(value, pseudonym);
        match column {
            Column::User => user = Some(clear),
            Column::Request => request = Some(clear),
            Column::People => people.push(clear),
        }
        Ok(())
    });
    replaced.expect("64 hex digits can stand for every value");
    (user, request, people)
}

/// Puts the clear values back that there are.
fn restore(body: &mut Body, clear: &Clear<'_>) -> Result<(), Unreadable> {
    let people: Vec<Option<String>> = match clear.people {
        Some(people) => serde_json::from_str(people)?,
        None => Vec::new(),
    };
    let mut people = people.into_iter();
    walk(body, &mut |column, _, value| {
        let found = match column {
            Column::User => clear.user.map(ToOwned::to_owned),
            Column::Request => clear.request.map(ToOwned::to_owned),
            Column::People => people.next().flatten(),
        };
        if let Some(found) = found {
            *value = found;
        }
        Ok(())
    })
    .map_err(Unreadable::People)
}

/// Stored bytes that this version cannot read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// A later version wrote them.
    #[error("the entry is stored in format {0}, and this version reads up to format {CANONICAL}")]
    Newer(i16),
    /// They are damaged.
    #[error("the stored entry cannot be read: {0}")]
    Damaged(#[from] serde_json::Error),
    /// The id of its campaign or envelope is none.
    #[error("the stored entry names something by an id that is none: {0}")]
    Id(String),
    /// A clear value beside the bytes cannot stand in them.
    #[error("a column beside the stored entry cannot be read: {} {}", .0.path, .0.message)]
    People(Problem),
}

/// What happened, with the clear values that there are; pseudonyms stand for those that were
/// erased.
///
/// # Errors
/// The format is unknown, or the bytes or the columns are damaged.
pub fn decode(format: i16, body: &[u8], clear: &Clear<'_>) -> Result<Body, Unreadable> {
    match format {
        OWN_FORMAT => Ok(serde_json::from_slice(body)?),
        CANONICAL => {
            let Content { mut body } = serde_json::from_slice(body)?;
            restore(&mut body, clear)?;
            Ok(body)
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chance::{MasterKey, Salt},
        model::{
            CampaignId, OperatorId, RequestId, SegmentId, UserId,
            limits::{Funding, UserCounts},
        },
        store::{
            Approved, Author, BonusEntry, Cause, DrawResult, LedgerId, Operation, ProposalId,
            Subject, entry::DrawEntry,
        },
    };

    fn entry(body: Body) -> Entry {
        Entry {
            id: LedgerId {
                partition: 2,
                sequence: 7,
            },
            number: Some(5),
            fork: 0,
            at: Moment::from_micros(1_795_960_801_000_001),
            subject: Subject::Campaign(CampaignId::parse("campaign", "spring").unwrap()),
            body,
        }
    }

    fn stored(body: Body) -> StoredEntry {
        let key = MasterKey::from_bytes([7; 32]);
        StoredEntry::of(&entry(body), &key.pseudonyms("spring", &Salt([1; 32])))
    }

    fn read(stored: &StoredEntry) -> Body {
        let clear = Clear {
            user: stored.user.as_deref(),
            request: stored.request.as_deref(),
            people: stored.people.as_deref(),
        };
        decode(stored.format, &stored.body, &clear).unwrap()
    }

    fn author() -> Author {
        Author::named(
            RequestId::parse("request", "r1").unwrap(),
            OperatorId::parse("operator", "olga").unwrap(),
            "a \"test\"",
        )
    }

    fn draw() -> Body {
        draw_in(&[])
    }

    fn draw_in(segments: &[&str]) -> Body {
        let segment = |id: &&str| SegmentId::parse("segment", id).unwrap();
        Body::Draw(DrawEntry {
            version: 3,
            user: UserId::parse("user", "u1").unwrap(),
            request: RequestId::parse("request", "r1").unwrap(),
            funding: Funding::Paid,
            payment_ref: "order 7".into(),
            consolation_only: false,
            results: [true, false]
                .map(|consolation| DrawResult::NotWon {
                    consolation,
                    cause: Cause::Unknown,
                })
                .into(),
            segments: segments.iter().map(segment).collect(),
            counts: UserCounts::default(),
        })
    }

    fn bonus() -> Body {
        Body::Bonus(BonusEntry {
            version: 3,
            user: UserId::parse("user", "u1").unwrap(),
            request: RequestId::parse("request", "r1").unwrap(),
            draws: 2,
            expires: Moment::FAR_FUTURE,
            counts: UserCounts {
                bonus_left: 2,
                granted_today: 2,
                ..UserCounts::default()
            },
        })
    }

    #[test]
    fn clear_values_stand_beside_the_bytes_and_come_back() {
        let user = |id: &str| UserId::parse("user", id).unwrap();
        for body in [
            draw(),
            draw_in(&["member", "north"]),
            bonus(),
            Body::Closed {},
            Body::Grab {
                user: user("u"),
                packet: 1,
                amount_minor: 5,
            },
            Body::Operated {
                operation: Operation::Block {
                    users: vec![user("u1"), user("u2")],
                },
                author: author(),
                users: 2,
            },
            Body::Operated {
                operation: Operation::Pause,
                author: Author {
                    on_behalf_of: Some(OperatorId::parse("operator", "helen").unwrap()),
                    authenticated: true,
                    approved: Some(Box::new(Approved {
                        id: ProposalId::parse("0123456789ab").unwrap(),
                        operator: OperatorId::parse("operator", "paula").unwrap(),
                        on_behalf_of: Some(OperatorId::parse("operator", "quinn").unwrap()),
                        reason: "proposal 9".into(),
                        at: Moment::EPOCH,
                    })),
                    ..author()
                },
                users: 0,
            },
            Body::Forked {
                replid: "a".repeat(40),
                base: 3,
                mark: 1,
            },
        ] {
            let stored = stored(body.clone());
            let json: serde_json::Value = serde_json::from_slice(&stored.body).unwrap();
            assert_eq!(json["body"]["kind"], stored.kind);
            assert_eq!(read(&stored), body);
            let bytes = String::from_utf8(stored.body).unwrap();
            for clear in [
                "\"u1\"",
                "\"u2\"",
                "\"r1\"",
                "order 7",
                "olga",
                "helen",
                "paula",
                "quinn",
                "proposal 9",
                "test",
            ] {
                assert!(!bytes.contains(clear), "{bytes}");
            }
        }
    }

    /// People see some of these ids with escapes, which must not get into the ledger.
    #[test]
    fn ids_are_settled_to_the_byte() {
        let ids = [r"a\b", " a ", "\u{202e}b", &r"\".repeat(128)];
        for id in ids {
            let user = UserId::parse("user", id).unwrap();
            let grab = stored(Body::Grab {
                user: user.clone(),
                packet: 1,
                amount_minor: 5,
            });
            assert_eq!(grab.user.as_deref(), Some(id));
            let operator = OperatorId::parse("operator", id).unwrap();
            let body = Body::Operated {
                operation: Operation::Block { users: vec![user] },
                author: Author {
                    operator: operator.clone(),
                    on_behalf_of: Some(operator),
                    request: RequestId::parse("request", id).unwrap(),
                    ..author()
                },
                users: 1,
            };
            let operated = stored(body.clone());
            assert_eq!(operated.request.as_deref(), Some(id));
            assert_eq!(read(&operated), body);
        }
    }

    #[test]
    fn the_canonical_bytes_never_change() {
        let golden = concat!(
            r#"{"at":1795960801000001,"campaign":"spring","number":5,"fork":0,"body":{"#,
            r#""kind":"draw","version":3,"#,
            r#""user":"fc4cf8cc9a62d14d6585034dd5c94355234ef5cfbae3a8493c52eddcaf108b27","#,
            r#""request":"294e238b2edb4dcb2284eb32cbf96512826a71eb02a12136b60344514374c509","#,
            r#""funding":"paid","#,
            r#""payment_ref":"fb2115e6d68a9b1ce4bf682594b235fadd7e22ac5879f292d219ca13f13e77eb","#,
            r#""results":[1,0],"counts":{"free_today":0,"paid_today":0,"draws":0,"#,
            r#""bonus_used":0,"wins":0,"bonus_left":0}}}"#
        );
        let stored = stored(draw());
        assert_eq!(String::from_utf8(stored.body).unwrap(), golden);
        assert_eq!(stored.user.as_deref(), Some("u1"));
        assert_eq!(stored.request.as_deref(), Some("r1"));
        assert_eq!(stored.people.as_deref(), Some(r#"["order 7"]"#));
    }

    #[test]
    fn the_bytes_of_format_1_never_change_and_stay_readable() {
        let golden = concat!(
            r#"{"kind":"draw","version":3,"user":"u1","request":"r1","funding":"paid","#,
            r#""payment_ref":"order 7","#,
            r#""results":[1,0],"counts":{"free_today":0,"paid_today":0,"draws":0,"#,
            r#""bonus_used":0,"wins":0,"bonus_left":0}}"#
        );
        let entry = Entry {
            number: None,
            ..entry(draw())
        };
        let key = MasterKey::from_bytes([7; 32]);
        let stored = StoredEntry::of(&entry, &key.pseudonyms("spring", &Salt([1; 32])));
        assert_eq!(stored.format, OWN_FORMAT);
        assert_eq!(String::from_utf8(stored.body.clone()).unwrap(), golden);
        assert_eq!(digest(&entry), <[u8; 32]>::from(Sha256::digest(golden)));
        assert_eq!(read(&stored), draw());
    }

    #[test]
    fn erased_values_are_read_as_their_pseudonyms() {
        let stored = stored(Body::Operated {
            operation: Operation::Pause,
            author: author(),
            users: 0,
        });
        assert_eq!(stored.people.as_deref(), Some(r#"["olga","a \"test\""]"#));
        let clear = Clear {
            user: None,
            request: None,
            people: Some(r#"[null,"kept"]"#),
        };
        let body = decode(stored.format, &stored.body, &clear).unwrap();
        let Body::Operated { author, .. } = body else {
            panic!("{body:?}");
        };
        assert_eq!(author.operator.as_str().len(), 64);
        assert_eq!(author.request.as_str().len(), 64);
        assert_eq!(author.reason, "kept");
    }

    #[test]
    fn bytes_of_another_format_are_refused() {
        let body = stored(Body::Closed {}).body;
        let none = Clear::default();
        assert!(matches!(decode(3, &body, &none), Err(Unreadable::Newer(3))));
        for format in [OWN_FORMAT, CANONICAL] {
            let damaged = decode(format, b"{", &none);
            assert!(matches!(damaged, Err(Unreadable::Damaged(_))));
        }
    }

    #[test]
    fn moments_keep_their_microseconds() {
        let moment = Moment::from_micros(1_795_960_801_000_001);
        assert_eq!(from_system_time(to_system_time(moment)), moment);
    }
}
