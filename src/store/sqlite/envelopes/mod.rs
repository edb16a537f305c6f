//! Envelopes on SQLite: what the writer keeps of them between steps ([`row`], [`access`]), grabs
//! ([`grab`]), all other steps ([`steps`]), and reads ([`read`]).

use std::time::Duration;

use async_trait::async_trait;

mod access;
mod grab;
mod read;
mod row;
mod steps;
mod sums;

pub(super) use row::Envelopes;

use self::steps::SettleCommand;
use super::{SqliteStore, columns, columns::ledger_id, read::head};
use crate::{
    model::EnvelopeId,
    store::{
        CancelEnvelope, CreateEnvelope, EnvelopeReply, EnvelopeStore, EnvelopeTotals, EnvelopeView,
        FillEnvelope, GrabCommand, GrabView, Grabbed, Result, Settled, Step,
    },
};

#[async_trait]
impl EnvelopeStore for SqliteStore {
    async fn create_envelope(&self, command: CreateEnvelope) -> Result<EnvelopeReply> {
        self.submit(command).await
    }

    async fn grab(&self, command: GrabCommand) -> Result<Grabbed> {
        self.submit(command).await
    }

    async fn fill_envelope(&self, command: FillEnvelope) -> Result<Step> {
        self.submit(command).await
    }

    async fn cancel_envelope(&self, command: CancelEnvelope) -> Result<EnvelopeReply> {
        self.submit(command).await
    }

    async fn envelope(&self, id: &EnvelopeId) -> Result<EnvelopeView> {
        let (id, now) = (id.clone(), self.clock_now());
        self.read(move |db| read::envelope(db, &id, now)).await
    }

    async fn grabs(&self, id: &EnvelopeId, packet: u32, limit: usize) -> Result<Vec<GrabView>> {
        let id = id.clone();
        self.read(move |db| read::grabs(db, &id, packet, limit))
            .await
    }

    async fn due_envelopes(
        &self,
        partition: u32,
        retention: Duration,
        limit: usize,
    ) -> Result<Vec<EnvelopeId>> {
        if partition != columns::PARTITION {
            return Ok(Vec::new());
        }
        let now = self.clock_now();
        self.read(move |db| read::due(db, now, retention, limit))
            .await
    }

    async fn settle_envelope(&self, id: &EnvelopeId, retention: Duration) -> Result<Settled> {
        self.submit(SettleCommand {
            envelope: id.clone(),
            retention,
        })
        .await
    }

    async fn envelope_sums(&self) -> Result<EnvelopeTotals> {
        self.read(|db| {
            Ok(EnvelopeTotals {
                sums: sums::read(db)?,
                heads: vec![ledger_id(head(db)?)],
            })
        })
        .await
    }
}
