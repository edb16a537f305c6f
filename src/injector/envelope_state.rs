//! What the injector keeps of envelopes between calls.

use std::time::Duration;

use super::{splits::Splits, turns::Turns};
use crate::model::EnvelopeId;

/// How long an envelope is kept after its refund or its last grab, unless configured.
pub const RETENTION_DEFAULT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What the injector keeps of envelopes.
pub(super) struct EnvelopeFills {
    pub(super) retention: Duration,
    pub(super) splits: Splits,
    /// One fill of an envelope at a time in this process.
    pub(super) turns: Turns<EnvelopeId>,
}

impl Default for EnvelopeFills {
    fn default() -> Self {
        Self {
            retention: RETENTION_DEFAULT,
            splits: Splits::default(),
            turns: Turns::default(),
        }
    }
}
