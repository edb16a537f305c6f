//! The books of envelopes, kept from their entries alone: `total = grabbed + waiting + refunded`
//! (P2), each packet and each user once (P1).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
};

use super::{
    findings::{Check, Findings},
    numbers::Numbers,
};
use crate::{
    model::{EnvelopeId, UserId},
    store::{
        Entry, EnvelopeSums,
        entry::{Body, EnvelopeCreated},
    },
};

/// An envelope of which packets wait.
#[derive(Debug)]
struct Open {
    currency: String,
    packets: u32,
    waiting_minor: u64,
    min_minor: u64,
    grabbed: u32,
    taken: Numbers,
    users: HashSet<u64>,
}

/// The envelopes of one partition. Ids and users are known by digests of 64 bits under a key of
/// this run.
#[derive(Debug, Default)]
pub(super) struct Envelopes {
    hasher: RandomState,
    open: HashMap<EnvelopeId, Open>,
    ever: HashSet<u64>,
    sums: BTreeMap<String, EnvelopeSums>,
}

impl Envelopes {
    /// The sums of all envelopes by currency.
    pub(super) fn sums(&self) -> &BTreeMap<String, EnvelopeSums> {
        &self.sums
    }

    /// Books the next entry about an envelope.
    pub(super) fn take(&mut self, id: &EnvelopeId, entry: &Entry, findings: &mut Findings) {
        let booked = match &entry.body {
            Body::EnvelopeCreated(created) => self.create(id, created),
            Body::Grab {
                user,
                packet,
                amount_minor,
            } => self.grab(id, user, *packet, *amount_minor),
            Body::Refund {
                packets,
                amount_minor,
                ..
            } => self.refund(id, *packets, *amount_minor),
            _ => Ok(()),
        };
        if let Err((check, text)) = booked {
            findings.add(check, Some(entry.id), format!("envelope {id}: {text}"));
        }
    }

    fn create(&mut self, id: &EnvelopeId, created: &EnvelopeCreated) -> Booked {
        if !self.ever.insert(self.hasher.hash_one(id.as_str())) {
            return Err((Check::Order, "it is created a second time".into()));
        }
        let envelope = &created.envelope;
        let sums = self.sums_mut(&envelope.currency);
        sums.envelopes += 1;
        sums.open += 1;
        sums.created_minor += u128::from(envelope.total_minor);
        sums.waiting_minor += u128::from(envelope.total_minor);
        let open = Open {
            currency: envelope.currency.clone(),
            packets: envelope.packets,
            waiting_minor: envelope.total_minor,
            min_minor: envelope.min_minor,
            grabbed: 0,
            taken: Numbers::default(),
            users: HashSet::new(),
        };
        self.open.insert(id.clone(), open);
        Ok(())
    }

    fn grab(&mut self, id: &EnvelopeId, user: &UserId, packet: u32, minor: u64) -> Booked {
        let user_key = self.hasher.hash_one(user.as_str());
        let open = self.open_mut(id)?;
        if packet == 0 || packet > open.packets {
            let text = format!("user {user} grabbed packet {packet} of {}", open.packets);
            return Err((Check::Units, text));
        }
        if !open.taken.insert(u64::from(packet)) {
            let text = format!("packet {packet} was grabbed twice, at last by user {user}");
            return Err((Check::Units, text));
        }
        open.grabbed += 1;
        let is_first = open.users.insert(user_key);
        let left = open.waiting_minor.checked_sub(minor);
        let is_last = open.grabbed == open.packets;
        let is_too_small = minor < open.min_minor;
        open.waiting_minor = left.unwrap_or_default();
        let rest = open.waiting_minor;
        let currency = open.currency.clone();
        self.leave(&currency, minor, |sums| &mut sums.grabbed_minor);
        if is_last {
            self.close(id);
        }
        if !is_first {
            return Err((Check::Units, format!("user {user} grabbed two packets")));
        }
        if left.is_none() || is_too_small || is_last && rest > 0 {
            let text = format!(
                "packet {packet} of {minor} leaves {rest} in {}",
                if is_last { "no packet" } else { "the others" }
            );
            return Err((Check::Sums, text));
        }
        Ok(())
    }

    fn refund(&mut self, id: &EnvelopeId, packets: u32, minor: u64) -> Booked {
        let open = self.open_mut(id)?;
        let (waiting, rest) = (open.packets - open.grabbed, open.waiting_minor);
        let currency = open.currency.clone();
        self.leave(&currency, minor, |sums| &mut sums.refunded_minor);
        self.close(id);
        if (packets, minor) != (waiting, rest) {
            let text = format!(
                "{minor} in {packets} packets were refunded, and {rest} in {waiting} were left"
            );
            return Err((Check::Sums, text));
        }
        Ok(())
    }

    fn open_mut(&mut self, id: &EnvelopeId) -> Result<&mut Open, (Check, String)> {
        self.open.get_mut(id).ok_or_else(|| {
            let text = "nothing was left of it, or it was never created";
            (Check::Units, text.into())
        })
    }

    fn close(&mut self, id: &EnvelopeId) {
        if let Some(open) = self.open.remove(id) {
            self.sums_mut(&open.currency).open -= 1;
        }
    }

    fn sums_mut(&mut self, currency: &str) -> &mut EnvelopeSums {
        let none = || EnvelopeSums {
            currency: currency.into(),
            envelopes_agree: true,
            ..EnvelopeSums::default()
        };
        self.sums.entry(currency.into()).or_insert_with(none)
    }

    fn leave(&mut self, currency: &str, minor: u64, to: fn(&mut EnvelopeSums) -> &mut u128) {
        let sums = self.sums_mut(currency);
        sums.waiting_minor = sums.waiting_minor.saturating_sub(minor.into());
        *to(sums) += u128::from(minor);
    }
}

type Booked = Result<(), (Check, String)>;
