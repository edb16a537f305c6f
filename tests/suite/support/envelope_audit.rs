//! The audit of envelopes: compares the ledger and the seeds with the store.

use std::collections::{BTreeMap, BTreeSet};

use tombola::{
    chance::{self, Nonce},
    model::{EnvelopeId, Moment, UserId},
    store::{
        Entry, EnvelopeSums, EnvelopeView, GrabView, Refusal, Store, StoreError, Subject,
        entry::{Body, EnvelopeCreated, RefundCause},
        envelope::{Packet, Refund},
    },
};

use super::{envelopes::Acknowledged, patience::patiently, world::key};

/// What the store says of all envelopes.
pub struct Views {
    pub sums: Vec<EnvelopeSums>,
    /// `None` if it was removed.
    by_id: BTreeMap<EnvelopeId, Option<(EnvelopeView, Vec<GrabView>)>>,
}

/// Reads all envelopes that these entries name.
pub async fn read(store: &dyn Store, entries: &[Entry]) -> Views {
    let ids: BTreeSet<_> = entries
        .iter()
        .filter_map(|e| e.subject.envelope())
        .collect();
    let mut by_id = BTreeMap::new();
    for id in ids {
        let read = || async {
            match store.envelope(id).await {
                Ok(view) => Ok(Some((view, store.grabs(id, 0, 200_000).await?))),
                Err(StoreError::Refused(Refusal::EnvelopeNotFound)) => Ok(None),
                Err(error) => Err(error),
            }
        };
        by_id.insert(id.clone(), patiently(read).await);
    }
    Views {
        sums: patiently(|| store.envelope_sums()).await.sums,
        by_id,
    }
}

/// Checks the promises on envelopes that the ledger and the seeds can show.
pub fn check(entries: &[Entry], views: &Views, acknowledged: &Acknowledged) {
    let mut books = BTreeMap::<&EnvelopeId, Book<'_>>::new();
    for entry in entries {
        match (&entry.subject, &entry.body) {
            (Subject::Envelope(id), Body::EnvelopeCreated(created)) => {
                let earlier = books.insert(id, Book::new(entry, created));
                assert!(earlier.is_none(), "{id} was created twice");
            }
            (Subject::Envelope(id), _) => books.get_mut(id).expect("created first").read(entry),
            (Subject::Campaign(_) | Subject::Partition, _) => {}
        }
    }
    for (name, packet) in acknowledged {
        let (id, user) = name;
        let found = books[id]
            .grabs
            .iter()
            .find(|grab| grab.user.as_str() == user);
        let found = found.unwrap_or_else(|| panic!("P3: {user} has {packet:?} of {id}"));
        assert_eq!(found.packet, *packet, "P3: {user} of {id}");
    }
    for (id, book) in &books {
        match &views.by_id[*id] {
            Some((view, grabs)) => book.check(view, grabs),
            None => assert!(book.is_settled(), "{id} was removed too early"),
        }
    }
    check_sums(books.values(), &views.sums);
}

/// For each currency: created = grabbed + waiting + refunded (P2).
fn check_sums<'a>(books: impl Iterator<Item = &'a Book<'a>>, found: &[EnvelopeSums]) {
    let mut sums = BTreeMap::<&str, EnvelopeSums>::new();
    for book in books {
        let envelope = &book.created.envelope;
        let sum = sums.entry(&envelope.currency).or_default();
        sum.currency.clone_from(&envelope.currency);
        sum.envelopes_agree = true;
        sum.envelopes += 1;
        sum.open += u64::from(!book.is_settled());
        sum.created_minor += u128::from(envelope.total_minor);
        sum.grabbed_minor += u128::from(book.grabbed_minor());
        sum.waiting_minor += u128::from(book.waiting_minor());
        sum.refunded_minor += u128::from(book.refunded_minor());
    }
    assert!(found.iter().all(EnvelopeSums::balanced), "P2: {found:#?}");
    assert_eq!(found, sums.into_values().collect::<Vec<_>>(), "P2");
}

/// The sums of an envelope's entries.
struct Book<'a> {
    entry: &'a Entry,
    created: &'a EnvelopeCreated,
    amounts: Vec<u64>,
    releases: Vec<Moment>,
    grabs: Vec<GrabView>,
    users: BTreeSet<UserId>,
    refund: Option<(&'a Entry, u32, u64, RefundCause)>,
}

impl<'a> Book<'a> {
    fn new(entry: &'a Entry, created: &'a EnvelopeCreated) -> Self {
        let envelope = &created.envelope;
        let nonce = Nonce::from_hex(&created.nonce).unwrap();
        let seed = key().envelope_seed(&envelope.id, &nonce);
        assert_eq!(seed.commitment(), created.commitment);
        let (total, packets) = (envelope.total_minor, envelope.packets);
        let amounts = chance::split(&seed, envelope.split, total, packets, envelope.min_minor);
        assert_eq!(amounts.iter().sum::<u64>(), total, "P2");
        Self {
            entry,
            created,
            amounts,
            releases: chance::rain(&seed, created.start, envelope.rain_micros, packets),
            grabs: Vec::new(),
            users: BTreeSet::new(),
            refund: None,
        }
    }

    fn read(&mut self, entry: &'a Entry) {
        assert!(self.refund.is_none(), "nothing after the refund: {entry:?}");
        match &entry.body {
            Body::Grab {
                user,
                packet,
                amount_minor,
            } => {
                self.grab(entry, user, (*packet, *amount_minor));
            }
            Body::Refund {
                packets,
                amount_minor,
                cause,
                author,
            } => {
                assert_eq!(
                    *packets,
                    self.amounts.len() as u32 - self.grabs.len() as u32
                );
                assert!(*packets > 0, "nothing was left: {entry:?}");
                assert_eq!(*amount_minor, self.waiting_minor(), "P2: {entry:?}");
                assert_eq!(author.is_some(), *cause == RefundCause::Cancelled);
                let is_expired = entry.at >= self.created.expiry;
                assert_eq!(is_expired, *cause == RefundCause::Expired, "{entry:?}");
                self.refund = Some((entry, *packets, *amount_minor, *cause));
            }
            body => panic!("no envelope has {body:?}"),
        }
    }

    fn grab(&mut self, entry: &Entry, user: &UserId, (number, amount_minor): (u32, u64)) {
        let created = self.created;
        assert!(
            self.users.insert(user.clone()),
            "one packet a user: {entry:?}"
        );
        let allowed = &created.allowed_users;
        assert!(allowed.is_empty() || allowed.contains(user), "{entry:?}");
        assert_eq!(number as usize, self.grabs.len() + 1, "in order: {entry:?}");
        let index = self.grabs.len();
        assert_eq!(amount_minor, self.amounts[index], "as the seed says");
        assert!(entry.at >= self.releases[index], "P7: before its release");
        let is_open = (created.start..created.expiry).contains(&entry.at);
        assert!(is_open, "in its time: {entry:?}");
        self.grabs.push(GrabView {
            user: user.clone(),
            packet: Packet {
                number,
                amount_minor,
                at: entry.at,
                ledger: entry.id,
            },
        });
    }

    fn grabbed_minor(&self) -> u64 {
        self.grabs.iter().map(|grab| grab.packet.amount_minor).sum()
    }

    fn refunded_minor(&self) -> u64 {
        self.refund.map_or(0, |(_, _, amount, _)| amount)
    }

    fn waiting_minor(&self) -> u64 {
        self.created.envelope.total_minor - self.grabbed_minor() - self.refunded_minor()
    }

    fn is_settled(&self) -> bool {
        self.refund.is_some() || self.grabs.len() == self.amounts.len()
    }

    /// The store has the same.
    fn check(&self, view: &EnvelopeView, grabs: &[GrabView]) {
        let created = self.created;
        assert_eq!(*view.envelope, created.envelope);
        assert_eq!(view.ledger, self.entry.id);
        assert_eq!((view.start, view.expiry), (created.start, created.expiry));
        assert_eq!(view.nonce.to_hex(), created.nonce);
        assert_eq!(view.commitment, created.commitment);
        assert_eq!(grabs, self.grabs, "who has what");
        assert_eq!(view.grabbed.packets as usize, grabs.len());
        assert_eq!(view.grabbed.amount_minor, self.grabbed_minor(), "P2");
        assert_eq!(view.grabbed.last, grabs.last().map(|grab| grab.packet.at));
        assert_eq!(view.waiting_minor(), self.waiting_minor(), "P2");
        assert_eq!(view.is_settled(), self.is_settled());
        let found = view
            .refund
            .map(|refunded| (refunded.ledger, refunded.refund));
        let known = self.refund.map(|(entry, packets, amount_minor, cause)| {
            let refund = Refund {
                packets,
                amount_minor,
                cause,
                // The time in the record may be a little earlier than the entry's.
                at: found.map_or(entry.at, |(_, refund)| refund.at),
            };
            assert!(refund.at <= entry.at);
            (entry.id, refund)
        });
        assert_eq!(found, known);
    }
}
