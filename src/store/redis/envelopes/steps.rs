//! Every step of an envelope but a grab: read it, let the rule decide, and write what it decided if
//! nothing that it read has changed since; else begin again.

use std::time::Duration;

use super::load::{Found, Loaded};
use crate::store::redis::{
    RedisStore,
    step::decide::{ROUNDS_MAX, contended},
};
use crate::{
    model::EnvelopeId,
    store::{
        CancelEnvelope, CreateEnvelope, EnvelopeReply, FillEnvelope, Refusal, Result, Settled,
        Step, StoreError, rules::envelope as rules,
    },
};

impl RedisStore {
    /// Creates an envelope; for a retry, returns the one that exists.
    pub(super) async fn do_create_envelope(
        &self,
        command: &CreateEnvelope,
    ) -> Result<EnvelopeReply> {
        let id = &command.envelope.id;
        let partition = self.core.envelope_partition(id);
        let _turn = self.turn(id).lock().await;
        for _ in 0..ROUNDS_MAX {
            let (now, found) = self.core.load_envelope(id).await?;
            let (loaded, replayed) = match found {
                Found::Envelope(loaded) if rules::is_same(&loaded.state.record, command) => {
                    let key = partition.partition.as_ref();
                    self.core.connections.confirm(key).await?;
                    (*loaded, true)
                }
                Found::Envelope(_) | Found::Removed => return Err(Refusal::EnvelopeExists.into()),
                Found::Nothing => {
                    let mut loaded =
                        Loaded::new(rules::create(command, now, self.core.clock.is_test())?);
                    if !self
                        .core
                        .write_envelope(partition, &mut loaded, now)
                        .await?
                    {
                        continue;
                    }
                    (loaded, false)
                }
            };
            self.core.learn_envelope(partition, &loaded);
            return Ok(EnvelopeReply {
                view: loaded
                    .view(partition, now)
                    .map_err(StoreError::after_write)?,
                replayed,
            });
        }
        Err(contended())
    }

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
            if was_settled
                || self
                    .core
                    .write_envelope(partition, &mut loaded, now)
                    .await?
            {
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
