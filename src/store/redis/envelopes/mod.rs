//! Envelopes on Redis: new ones and grabs in batches ([`create`], [`grab`]), all other steps
//! ([`steps`], [`mod@write`]), reads ([`mod@load`], [`read`]), the stored values ([`codec`]), and
//! what the service keeps in memory ([`known`]).

use std::time::Duration;

use async_trait::async_trait;

mod codec;
mod create;
mod grab;
mod known;
mod load;
mod read;
mod steps;
mod write;

#[cfg(any(test, fuzzing))]
pub(super) use self::codec::{Base, decode_counts, decode_grab_of};
pub(super) use self::{
    codec::decode_grabs, create::CreateLanes, grab::GrabLanes, known::KnownEnvelopes,
};

use super::RedisStore;
use crate::{
    model::EnvelopeId,
    store::{
        CancelEnvelope, CreateEnvelope, EnvelopeReply, EnvelopeStore, EnvelopeTotals, EnvelopeView,
        FillEnvelope, GrabCommand, GrabView, Grabbed, Result, Settled, Step,
    },
};

#[async_trait]
impl EnvelopeStore for RedisStore {
    async fn create_envelope(&self, command: CreateEnvelope) -> Result<EnvelopeReply> {
        self.core.level.admit()?;
        self.create_lanes.create(&self.core, command).await
    }

    async fn grab(&self, command: GrabCommand) -> Result<Grabbed> {
        self.core.level.admit()?;
        self.grab_lanes.grab(&self.core, command).await
    }

    async fn fill_envelope(&self, command: FillEnvelope) -> Result<Step> {
        self.do_fill_envelope(&command).await
    }

    async fn cancel_envelope(&self, command: CancelEnvelope) -> Result<EnvelopeReply> {
        self.do_cancel_envelope(&command).await
    }

    async fn envelope(&self, id: &EnvelopeId) -> Result<EnvelopeView> {
        let (now, found) = self.core.load_envelope(id).await?;
        found.whole()?.view(self.core.envelope_partition(id), now)
    }

    async fn grabs(&self, id: &EnvelopeId, packet: u32, limit: usize) -> Result<Vec<GrabView>> {
        let (_, found) = self.core.load_envelope(id).await?;
        self.core.grabs(&found.whole()?, packet, limit).await
    }

    async fn due_envelopes(
        &self,
        partition: u32,
        retention: Duration,
        limit: usize,
    ) -> Result<Vec<EnvelopeId>> {
        self.core.due_envelopes(partition, retention, limit).await
    }

    async fn settle_envelope(&self, id: &EnvelopeId, retention: Duration) -> Result<Settled> {
        self.do_settle_envelope(id, retention).await
    }

    async fn envelope_sums(&self) -> Result<EnvelopeTotals> {
        self.core.envelope_sums().await
    }
}
