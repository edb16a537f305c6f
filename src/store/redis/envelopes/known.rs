//! What the service keeps in memory of envelopes: the parts that never change.

use std::sync::Arc;

use super::codec::{Base, Mark};
use crate::{
    cache::Cache,
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

/// Envelopes that the service has read or created.
pub(crate) type KnownEnvelopes = Cache<EnvelopeId, Arc<Known>, KEPT_MAX>;
