//! How a step finds, creates and saves envelopes.

use rusqlite::params;

use super::row::{EnvelopeRow, load, remove};
use crate::{
    model::{EnvelopeId, Moment},
    store::{
        Refusal, Result, StoreError,
        envelope::WaitingPacket,
        rules::envelope::{EnvelopeChanges, EnvelopeState, SumsChange},
        sqlite::{columns::to_json, step::Step},
    },
};

impl Step<'_> {
    /// Takes an envelope out of the core, if there is such a one; [`Self::put_envelope`] brings it
    /// back. A step that fails with a fault need not: the rollback forgets all.
    pub(super) fn find_envelope(&mut self, id: &EnvelopeId) -> Result<Option<EnvelopeRow>> {
        match self.core.envelopes.rows.take(id) {
            Some(row) => Ok(Some(row)),
            None => load(self.db, id),
        }
    }

    /// Brings an envelope back.
    pub(super) fn put_envelope(&mut self, row: EnvelopeRow) {
        let id = row.state.record.envelope.id.clone();
        self.core.envelopes.rows.put(id, row);
    }

    /// Runs `work` on an envelope that is not being removed.
    pub(super) fn with_envelope<T>(
        &mut self,
        id: &EnvelopeId,
        work: impl FnOnce(&mut Self, &mut EnvelopeRow) -> Result<T>,
    ) -> Result<T> {
        let about = |error: StoreError| error.about(format_args!("envelope {id}"));
        let found = self.find_envelope(id).map_err(about)?;
        let mut row = found.ok_or(Refusal::EnvelopeNotFound)?;
        let outcome = if row.state.is_removed() {
            Err(Refusal::EnvelopeNotFound.into())
        } else {
            work(self, &mut row)
        };
        self.put_envelope(row);
        outcome.map_err(about)
    }

    /// Changes a currency's sums.
    pub(super) fn add_to_sums(&mut self, currency: &str, change: SumsChange) -> Result<()> {
        self.core.envelopes.sums.add(self.db, currency, change)
    }

    /// Writes a new envelope with what its rule has done besides.
    pub(super) fn create_envelope(&mut self, mut state: EnvelopeState) -> Result<EnvelopeRow> {
        let changes = std::mem::take(&mut state.changes);
        let created_sequence = self.append_changes(&state, &changes)?;
        let created_sequence = created_sequence
            .ok_or_else(|| StoreError::corrupt("an envelope was created without an entry"))?;
        let envelope = &state.record.envelope;
        self.db
            .prepare_cached(
                "INSERT INTO envelopes (id, currency, total_minor, record, packets_grabbed, \
                 grabbed_minor, created_sequence,
                 refund_due) VALUES (?1, ?2, ?3, ?4, 0, 0, ?5, ?6)",
            )?
            .execute(params![
                envelope.id.as_str(),
                envelope.currency,
                envelope.total_minor,
                to_json(&state.record),
                created_sequence,
                state.refund_due_at().map(Moment::as_micros),
            ])?;
        let no = self.db.last_insert_rowid();
        let mut insert = self
            .db
            .prepare_cached("INSERT INTO envelope_users (envelope, user) VALUES (?1, ?2)")?;
        for user in changes.allowed_in.iter() {
            insert.execute(params![no, user.as_str()])?;
        }
        self.put_packets(no, &changes.packets_in)?;
        Ok(EnvelopeRow {
            no,
            state,
            created_sequence,
            refund_sequence: None,
            is_changed: false,
        })
    }

    /// Writes what a rule has made of an envelope.
    pub(super) fn save_envelope(&mut self, row: &mut EnvelopeRow) -> Result<()> {
        let changes = std::mem::take(&mut row.state.changes);
        let sequence = self.append_changes(&row.state, &changes)?;
        row.refund_sequence = row.refund_sequence.or(sequence);
        self.db
            .prepare_cached("UPDATE envelopes SET record = ?2, refund_sequence = ?3 WHERE no = ?1")?
            .execute(params![
                row.no,
                to_json(&row.state.record),
                row.refund_sequence
            ])?;
        row.save_counts(self.db)?;
        if changes.packets_out {
            self.db
                .prepare_cached("DELETE FROM packets WHERE envelope = ?1")?
                .execute([row.no])?;
        }
        self.put_packets(row.no, &changes.packets_in)?;
        changes
            .removal
            .map_or(Ok(()), |removal| remove(self.db, row.no, removal))
    }

    fn put_packets(&self, envelope: i64, packets: &[WaitingPacket]) -> Result<()> {
        let mut insert = self.db.prepare_cached(
            "INSERT INTO packets (envelope, number, amount_minor, release) VALUES (?1, ?2, ?3, ?4)",
        )?;
        for packet in packets {
            insert.execute(params![
                envelope,
                packet.number,
                packet.amount_minor,
                packet.release.as_micros()
            ])?;
        }
        Ok(())
    }

    /// Writes a rule's entry, if it has one, and its part of the sums.
    fn append_changes(
        &mut self,
        state: &EnvelopeState,
        changes: &EnvelopeChanges,
    ) -> Result<Option<u64>> {
        let envelope = &state.record.envelope;
        self.add_to_sums(&envelope.currency, changes.sums)?;
        let Some(entry) = &changes.entry else {
            return Ok(None);
        };
        let ledger = self.append_of_envelope(&envelope.id, entry)?;
        Ok(Some(ledger.sequence))
    }
}
