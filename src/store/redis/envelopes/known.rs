//! What the service keeps in memory of envelopes that it has read: the parts that never change.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use super::codec::{Base, Mark};
use crate::{
    model::{Envelope, EnvelopeId, Moment},
    store::redis::format::keys::{EnvelopeKeys, PartitionKeys},
};

/// The most envelopes that are kept.
const KEPT_MAX: usize = 4096;

/// The parts of an envelope that never change.
pub(crate) struct Known {
    pub(super) partition: Arc<PartitionKeys>,
    pub(super) keys: EnvelopeKeys,
    pub(super) envelope: Arc<Envelope>,
    pub(super) mark: Mark,
    pub(super) start: Moment,
    pub(super) expiry: Moment,
    pub(super) base: Base,
}

/// Envelopes that the service has read.
#[derive(Default)]
pub(crate) struct KnownEnvelopes {
    by_id: RwLock<HashMap<EnvelopeId, Arc<Known>>>,
}

impl KnownEnvelopes {
    pub(super) fn get(&self, id: &EnvelopeId) -> Option<Arc<Known>> {
        let by_id = self.by_id.read().unwrap_or_else(PoisonError::into_inner);
        by_id.get(id).cloned()
    }

    pub(super) fn put(&self, known: Arc<Known>) {
        let mut by_id = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        if by_id.len() >= KEPT_MAX {
            by_id.clear();
        }
        by_id.insert(known.envelope.id.clone(), known);
    }

    /// Forgets an envelope, so that it is read again.
    pub(super) fn forget(&self, id: &EnvelopeId) {
        let mut by_id = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        by_id.remove(id);
    }
}
