//! Envelopes on Redis.

use std::time::Duration;

use async_trait::async_trait;

use super::RedisStore;
use crate::{
    model::EnvelopeId,
    store::{
        CancelEnvelope, CreateEnvelope, EnvelopeReply, EnvelopeStore, EnvelopeSums, EnvelopeView,
        Executed, FillEnvelope, GrabCommand, GrabView, Grabbed, Result, Settled, Step, StoreError,
    },
};

#[async_trait]
impl EnvelopeStore for RedisStore {
    async fn create_envelope(&self, _command: CreateEnvelope) -> Result<EnvelopeReply> {
        Err(not_here())
    }

    async fn grab(&self, _command: GrabCommand) -> Result<Grabbed> {
        Err(not_here())
    }

    async fn fill_envelope(&self, _command: FillEnvelope) -> Result<Step> {
        Err(not_here())
    }

    async fn cancel_envelope(&self, _command: CancelEnvelope) -> Result<EnvelopeReply> {
        Err(not_here())
    }

    async fn envelope(&self, _id: &EnvelopeId) -> Result<EnvelopeView> {
        Err(not_here())
    }

    async fn grabs(&self, _id: &EnvelopeId, _packet: u32, _limit: usize) -> Result<Vec<GrabView>> {
        Err(not_here())
    }

    async fn due_envelopes(
        &self,
        _partition: u32,
        _retention: Duration,
        _limit: usize,
    ) -> Result<Vec<EnvelopeId>> {
        Ok(Vec::new())
    }

    async fn settle_envelope(&self, _id: &EnvelopeId, _retention: Duration) -> Result<Settled> {
        Err(not_here())
    }

    async fn envelope_sums(&self) -> Result<Vec<EnvelopeSums>> {
        Ok(Vec::new())
    }
}

fn not_here() -> StoreError {
    StoreError::Unavailable {
        executed: Executed::No,
        detail: "envelopes are not kept on Redis yet".into(),
    }
}
