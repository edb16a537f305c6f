//! The splits of envelopes: computed from their seeds, the large ones kept in memory as long as
//! they are in use.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    chance::{self, Seed},
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

/// Splits that were computed lately. An id names one envelope for ever, so none is ever wrong.
#[derive(Default)]
pub(super) struct Splits(Mutex<VecDeque<(EnvelopeId, Packets)>>);

impl Splits {
    /// All packets of an envelope with this seed, from memory or computed.
    pub(super) async fn packets(&self, seed: Seed, view: &EnvelopeView) -> Result<Packets> {
        let id = &view.envelope.id;
        if let Some(packets) = self.known(id) {
            return Ok(packets);
        }
        let (envelope, start) = (Arc::clone(&view.envelope), view.start);
        let compute = move || packets(&seed, &envelope, start);
        let packets = if view.envelope.packets < LONG_SPLIT {
            compute()
        } else {
            let computed = tokio::task::spawn_blocking(compute).await;
            computed.map_err(|_| StoreError::corrupt(format!("{id} could not be split")))?
        };
        if packets.len() > CHUNK_PACKETS {
            self.keep(id, &packets);
        }
        Ok(packets)
    }

    fn known(&self, id: &EnvelopeId) -> Option<Packets> {
        let splits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = splits.iter().find(|(known, _)| known == id);
        known.map(|(_, packets)| Arc::clone(packets))
    }

    /// Keeps a split, and forgets the one that was kept longest ago.
    fn keep(&self, id: &EnvelopeId, packets: &Packets) {
        let mut splits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if splits.iter().any(|(known, _)| known == id) {
            return;
        }
        if splits.len() == SPLITS_MAX {
            splits.pop_front();
        }
        splits.push_back((id.clone(), Arc::clone(packets)));
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
