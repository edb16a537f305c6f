//! Every step of an envelope that exists, but a grab: read it, let the rule decide, and write what
//! it decided if nothing that it read has changed since; else begin again.

use std::time::Duration;

use super::load::{Found, Loaded};
use crate::store::redis::{
    RedisStore,
    format::keys::PartitionKeys,
    step::decide::{ROUNDS_MAX, contended},
};
use crate::{
    model::EnvelopeId,
    store::{
        CancelEnvelope, EnvelopeReply, FillEnvelope, Result, Settled, Step, StoreError,
        rules::envelope as rules,
    },
};

impl RedisStore {
    /// Puts the next packets in.
    pub(super) async fn do_fill_envelope(&self, command: &FillEnvelope) -> Result<Step> {
        let id = &command.envelope;
        let partition = self.core.envelope_partition(id);
        let _turn = self.turn(id).lock().await;
        for _ in 0..ROUNDS_MAX {
            let (now, found) = self.core.load_envelope(id).await?;
            let mut loaded = found.whole()?;
            let step = rules::fill(&mut loaded.state, command, now)?;
            if step != Step::Done
                || self
                    .core
                    .write_envelope(partition, &mut loaded, now)
                    .await?
            {
                return Ok(step);
            }
        }
        Err(contended())
    }

    /// Takes the rest back at once.
    pub(super) async fn do_cancel_envelope(
        &self,
        command: &CancelEnvelope,
    ) -> Result<EnvelopeReply> {
        let id = &command.envelope;
        let partition = self.core.envelope_partition(id);
        let _turn = self.turn(id).lock().await;
        for _ in 0..ROUNDS_MAX {
            let (now, found) = self.core.load_envelope(id).await?;
            let mut loaded = found.whole()?;
            let was_settled = loaded.state.settled_at().is_some();
            let is_cancelled = rules::cancel(&mut loaded.state, command, now);
            let is_done = if was_settled {
                self.is_kept(partition, id, &loaded).await?
            } else {
                let written = self.core.write_envelope(partition, &mut loaded, now);
                written.await?
            };
            if is_done {
                return Ok(EnvelopeReply {
                    view: loaded
                        .view(partition, now)
                        .map_err(StoreError::after_write)?,
                    replayed: !is_cancelled,
                });
            }
        }
        Err(contended())
    }

    /// Whether an envelope that was settled before is still there as it was read. It is then as
    /// durable as the store promises.
    async fn is_kept(
        &self,
        partition: &PartitionKeys,
        id: &EnvelopeId,
        loaded: &Loaded,
    ) -> Result<bool> {
        let (field, sequence) = match loaded.refund_sequence {
            Some(refunded) => ("refunded", refunded),
            None => ("created", loaded.created_sequence),
        };
        let read = [(id.clone(), sequence)];
        let kept = self.core.recall_entries(partition, field, &read).await?;
        Ok(kept == [true])
    }

    /// Refunds or removes the envelope, if that is due.
    pub(super) async fn do_settle_envelope(
        &self,
        id: &EnvelopeId,
        retention: Duration,
    ) -> Result<Settled> {
        let partition = self.core.envelope_partition(id);
        let _turn = self.turn(id).lock().await;
        for _ in 0..ROUNDS_MAX {
            let (now, Found::Envelope(mut loaded)) = self.core.load_envelope(id).await? else {
                return Ok(Settled::default());
            };
            let was_removed = loaded.state.is_removed();
            let Some(settled) = rules::settle(&mut loaded.state, retention, now) else {
                return Ok(Settled::default());
            };
            if !self
                .core
                .remove_ahead(partition, &mut loaded, was_removed, now)
                .await?
            {
                continue;
            }
            if self
                .core
                .write_envelope(partition, &mut loaded, now)
                .await?
            {
                return Ok(settled);
            }
        }
        Err(contended())
    }
}
