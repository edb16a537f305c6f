//! What must hold for entries of the ledger that are read back, from a store or from a sink: what
//! is read is written to the same bytes again, and stands beside its clear values.

use super::{
    entry::{Clear, OWN_FORMAT, StoredEntry, decode, digest},
    forget::change_of_row,
    people::{user_of, walk},
    read::EntryRow,
};
use crate::{
    chance::{MasterKey, Pseudonyms, Salt},
    fuzzing::{assert_json_reads_back, fields},
    model::{CampaignId, Moment},
    store::{Entry, LedgerId, Subject, entry::Body},
};

/// The form of the canonical bytes.
const CANONICAL: i16 = 2;

/// An entry: in the store's own form, in the canonical one, or, with what stands beside the bytes
/// (three fields), as a row. The first byte says which.
pub(crate) fn entry(data: &[u8]) -> bool {
    let Some((form, bytes)) = data.split_first() else {
        return false;
    };
    let body = match form % 3 {
        0 => decode(OWN_FORMAT, bytes, &Clear::default()),
        1 => decode(CANONICAL, bytes, &Clear::default()),
        _ => {
            let fields = fields(bytes);
            let text = |index: usize| std::str::from_utf8(fields.get(index)?).ok();
            let clear = Clear {
                user: text(0),
                request: text(1),
                people: text(2),
            };
            let bytes = fields.get(3).copied().unwrap_or_default();
            decode(CANONICAL, bytes, &clear)
        }
    };
    let Ok(body) = body else {
        return false;
    };
    assert_json_reads_back(&body);
    holds_in_own_form(&body);
    holds_in_canonical_form(&body);
    true
}

fn entry_of(body: &Body, number: Option<u64>) -> Entry {
    Entry {
        id: LedgerId {
            partition: 2,
            sequence: 7,
        },
        number,
        fork: 0,
        at: Moment::from_micros(1_795_960_801_000_001),
        subject: Subject::Campaign(CampaignId::parse("campaign", "spring").expect("an id")),
        body: body.clone(),
    }
}

fn pseudonyms() -> Pseudonyms {
    MasterKey::from_bytes([7; 32]).pseudonyms("spring", &Salt([1; 32]))
}

fn clear(stored: &StoredEntry) -> Clear<'_> {
    Clear {
        user: stored.user.as_deref(),
        request: stored.request.as_deref(),
        people: stored.people.as_deref(),
    }
}

fn holds_in_own_form(body: &Body) {
    let entry = entry_of(body, None);
    let stored = StoredEntry::of(&entry, &pseudonyms());
    assert_eq!(stored.format, OWN_FORMAT);
    let read = decode(OWN_FORMAT, &stored.body, &clear(&stored)).expect("what was written");
    assert_eq!(&read, body);
    // The settler compares the digest of what it reads again with that of before.
    assert_eq!(digest(&entry_of(&read, None)), digest(&entry));
}

fn holds_in_canonical_form(body: &Body) {
    let stored = StoredEntry::of(&entry_of(body, Some(5)), &pseudonyms());
    assert_eq!((stored.format, stored.kind), (CANONICAL, body.kind()));
    let read = decode(CANONICAL, &stored.body, &clear(&stored)).expect("what was written");
    assert_eq!(&read, body, "clear values come back");
    let again = StoredEntry::of(&entry_of(&read, Some(5)), &pseudonyms());
    assert_eq!(again, stored, "an entry has one canonical form");
    assert_eq!(
        stored.user.as_deref(),
        user_of(body).map(|user| user.as_str())
    );

    let mut erased = decode(CANONICAL, &stored.body, &Clear::default()).expect("pseudonyms");
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let people = walk(&mut erased, &mut |_, _, value| {
        assert!(
            value.len() == 64 && value.chars().all(is_digit),
            "{value} is clear"
        );
        Ok(())
    });
    people.expect("pseudonyms stand where people do");
    if let Some(user) = stored.user.clone() {
        erases(stored, &user);
    }
}

/// Erases a user: the columns name the user no more, and the rest can be read.
fn erases(stored: StoredEntry, user: &str) {
    let row = EntryRow {
        id: LedgerId {
            partition: stored.partition,
            sequence: stored.sequence,
        },
        at: stored.at,
        campaign: stored.campaign,
        envelope: stored.envelope,
        format: stored.format,
        body: stored.body,
        number: stored.number,
        fork: stored.fork,
        user: stored.user,
        request: stored.request,
        people: stored.people,
    };
    let change = change_of_row(&row, user).expect("a row that was written");
    let change = change.expect("the user of the entry");
    assert_eq!(change.user, None);
    let clear = Clear {
        user: None,
        request: change.request.as_deref(),
        people: change.people.as_deref(),
    };
    let read = decode(row.format, &row.body, &clear).expect("what is left");
    assert_eq!(
        user_of(&read).map(|user| user.as_str()),
        Some(change.pseudonym.as_str())
    );
}
