//! The splits of envelopes: computed from their seeds, the large ones kept in memory as long as
//! they are in use.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    chance::{self, Nonce, Seed},
    model::{Envelope, EnvelopeId, Moment},
    store::{
        EnvelopeView, Result, StoreError,
        envelope::{CHUNK_PACKETS, NewPacket, WaitingPacket},
    },
};

/// Splits in memory, of envelopes that take more than one chunk: at most 2.4 MB each.
const SPLITS_MAX: usize = 16;
/// Packets from which on a split is computed away from the threads that answer calls.
const LONG_SPLIT: u32 = 5_000;

/// All packets of an envelope, in order.
pub(super) type Packets = Arc<[WaitingPacket]>;

/// Splits that were computed lately. An id names one envelope for ever, unless a store that was
/// rolled back has lost that envelope and another one was made. The other one has another nonce.
#[derive(Default)]
pub(super) struct Splits(Mutex<VecDeque<(Name, Packets)>>);

/// What a split is known by.
type Name = (EnvelopeId, Nonce);

impl Splits {
    /// All packets of an envelope with this seed, from memory or computed.
    pub(super) async fn packets(&self, seed: Seed, view: &EnvelopeView) -> Result<Packets> {
        let name = (view.envelope.id.clone(), view.nonce);
        if let Some(packets) = self.known(&name) {
            return Ok(packets);
        }
        let (envelope, start) = (Arc::clone(&view.envelope), view.start);
        let compute = move || packets(&seed, &envelope, start);
        let packets = if view.envelope.packets < LONG_SPLIT {
            compute()
        } else {
            let computed = tokio::task::spawn_blocking(compute).await;
            computed.map_err(|_| StoreError::corrupt(format!("{} could not be split", name.0)))?
        };
        if packets.len() > CHUNK_PACKETS {
            self.keep(name, &packets);
        }
        Ok(packets)
    }

    fn known(&self, name: &Name) -> Option<Packets> {
        let splits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = splits.iter().find(|(known, _)| known == name);
        known.map(|(_, packets)| Arc::clone(packets))
    }

    /// Keeps a split, and forgets the one that was kept longest ago.
    fn keep(&self, name: Name, packets: &Packets) {
        let mut splits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if splits.iter().any(|(known, _)| *known == name) {
            return;
        }
        if splits.len() == SPLITS_MAX {
            splits.pop_front();
        }
        splits.push_back((name, Arc::clone(packets)));
    }
}

/// All packets of an envelope: pure, so every replica computes the same.
fn packets(seed: &Seed, envelope: &Envelope, start: Moment) -> Packets {
    let packets = (1..).zip(new_packets(seed, envelope));
    packets
        .map(|(number, packet)| packet.waiting(number, start))
        .collect()
}

/// All packets of an envelope, whenever it starts.
pub(super) fn new_packets(seed: &Seed, envelope: &Envelope) -> impl Iterator<Item = NewPacket> {
    let (total, packets) = (envelope.total_minor, envelope.packets);
    let amounts = chance::split(seed, envelope.split, total, packets, envelope.min_minor);
    let releases = chance::rain(seed, Moment::EPOCH, envelope.rain_micros, packets);
    let packets = amounts.into_iter().zip(releases);
    packets.map(|(amount_minor, release)| NewPacket {
        amount_minor,
        after: release.since(Moment::EPOCH),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chance::MasterKey,
        model::convert::envelope_from_proto,
        proto,
        store::{LedgerId, envelope::GrabCounts},
    };

    /// An envelope of more packets than one chunk has, with a nonce of these bytes.
    fn envelope(byte: u8) -> EnvelopeView {
        let request = proto::CreateEnvelopeRequest {
            envelope_id: "new-year".into(),
            sender_id: "boss".into(),
            total_minor: 100_000,
            currency: "CNY".into(),
            packets: 200,
            ..proto::CreateEnvelopeRequest::default()
        };
        let (envelope, _) = envelope_from_proto(&request).unwrap();
        EnvelopeView {
            envelope: Arc::new(envelope),
            nonce: Nonce([byte; 32]),
            commitment: String::new(),
            created: Moment::EPOCH,
            start: Moment::EPOCH,
            expiry: Moment::FAR_FUTURE,
            ledger: LedgerId {
                partition: 0,
                sequence: 1,
            },
            filled: 0,
            grabbed: GrabCounts::default(),
            refund: None,
            now: Moment::EPOCH,
        }
    }

    #[tokio::test]
    async fn an_envelope_that_was_made_again_has_a_split_of_its_own() {
        let key = MasterKey::from_bytes([3; 32]);
        let seed = |view: &EnvelopeView| key.envelope_seed(&view.envelope.id, &view.nonce);
        let (lost, new) = (envelope(1), envelope(2));
        let splits = Splits::default();
        let first = splits.packets(seed(&lost), &lost).await.unwrap();
        let second = splits.packets(seed(&new), &new).await.unwrap();
        assert_eq!(second, packets(&seed(&new), &new.envelope, new.start));
        assert_ne!(first, second);
        let again = splits.packets(seed(&lost), &lost).await.unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }
}
