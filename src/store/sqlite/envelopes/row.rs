//! An envelope's row, and those that the writer keeps in memory between steps.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, params};
use sha2::{Digest as _, Sha256};

use super::sums::Sums;
use crate::{
    model::{EnvelopeId, Moment},
    store::{
        EnvelopeView, LedgerId, Refusal, Result, StoreError,
        envelope::GrabCounts,
        rules::envelope::{EnvelopeChanges, EnvelopeState, Removal, SumsChange},
        sqlite::step::{PARTITION, Step, from_json, to_json},
    },
};

/// The most envelopes kept in memory between batches.
const KEPT_MAX: usize = 4096;

/// What the writer keeps of envelopes. All of it can be read back from the database at any time.
#[derive(Default)]
pub(in crate::store::sqlite) struct Envelopes {
    rows: HashMap<EnvelopeId, EnvelopeRow>,
    sums: Sums,
}

/// An envelope as the writer has it.
pub(super) struct EnvelopeRow {
    pub(super) no: i64,
    pub(super) state: EnvelopeState,
    /// Ledger entries of its creation and its refund.
    created_sequence: u64,
    refund_sequence: Option<u64>,
    /// Grabs have changed it since it was written.
    is_changed: bool,
}

impl Envelopes {
    /// After a rollback: nothing in memory counts.
    pub(in crate::store::sqlite) fn forget(&mut self) {
        self.rows.clear();
        self.sums.forget();
    }

    /// Before a commit: writes what grabs have changed.
    pub(in crate::store::sqlite) fn flush(&mut self, db: &Connection) -> Result<()> {
        for row in self.rows.values_mut().filter(|row| row.is_changed) {
            row.save_counts(db)?;
        }
        self.sums.flush(db)
    }

    /// After a commit: memory stays bounded, whatever the number of envelopes.
    pub(in crate::store::sqlite) fn tidy(&mut self) {
        if self.rows.len() > KEPT_MAX {
            self.rows.clear();
        }
    }
}

impl Step<'_> {
    /// Takes an envelope out of the core, if there is such a one; [`Self::put_envelope`] brings it
    /// back. A step that fails with a fault need not: the rollback forgets all.
    pub(super) fn find_envelope(&mut self, id: &EnvelopeId) -> Result<Option<EnvelopeRow>> {
        match self.core.envelopes.rows.remove(id) {
            Some(row) => Ok(Some(row)),
            None => load(self.db, id),
        }
    }

    /// Brings an envelope back.
    pub(super) fn put_envelope(&mut self, row: EnvelopeRow) {
        let id = row.state.record.envelope.id.clone();
        self.core.envelopes.rows.insert(id, row);
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
                "INSERT INTO envelopes (id, currency, total_minor, record, packets_grabbed, grabbed_minor, created_sequence,
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
        let mut insert = self.db.prepare_cached(
            "INSERT INTO packets (envelope, number, amount_minor, release) VALUES (?1, ?2, ?3, ?4)",
        )?;
        for packet in &changes.packets_in {
            insert.execute(params![
                row.no,
                packet.number,
                packet.amount_minor,
                packet.release.as_micros()
            ])?;
        }
        changes
            .removal
            .map_or(Ok(()), |removal| remove(self.db, row.no, removal))
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

impl EnvelopeRow {
    /// Grabs have changed it: it is written with the batch.
    pub(super) fn touch(&mut self) {
        self.is_changed = true;
    }

    /// As readers see it.
    pub(super) fn view(&self, now: Moment) -> Result<EnvelopeView> {
        let refund = self.refund_sequence.map(ledger_id);
        self.state
            .view(now, ledger_id(self.created_sequence), refund)
    }

    /// Writes the counts and, by which it is found when it is due, the moments that follow from
    /// them.
    fn save_counts(&mut self, db: &Connection) -> Result<()> {
        let settled = match self.state.record.removed {
            Some(_) => Some(Moment::EPOCH),
            None => self.state.settled_at(),
        };
        let grabbed = &self.state.grabbed;
        db.prepare_cached(
            "UPDATE envelopes SET packets_grabbed = ?2, grabbed_minor = ?3, last_grab = ?4, refund_due = ?5, settled = ?6
             WHERE no = ?1",
        )?
        .execute(params![
            self.no,
            grabbed.packets,
            grabbed.amount_minor,
            grabbed.last.map(Moment::as_micros),
            self.state.refund_due_at().map(Moment::as_micros),
            settled.map(Moment::as_micros),
        ])?;
        self.is_changed = false;
        Ok(())
    }
}

fn ledger_id(sequence: u64) -> LedgerId {
    LedgerId {
        partition: PARTITION,
        sequence,
    }
}

/// Reads an envelope, also one that is being removed.
pub(super) fn load(db: &Connection, id: &EnvelopeId) -> Result<Option<EnvelopeRow>> {
    let found = db
        .prepare_cached(
            "SELECT record, no, packets_grabbed, grabbed_minor, last_grab, created_sequence, refund_sequence
             FROM envelopes WHERE id = ?1",
        )?
        .query_row([id.as_str()], columns)
        .optional()?;
    let Some((record, counts, no, created_sequence, refund_sequence)) = found else {
        return Ok(None);
    };
    let state = EnvelopeState {
        record: from_json(&record)?,
        grabbed: counts,
        changes: EnvelopeChanges::default(),
    };
    state.check()?;
    Ok(Some(EnvelopeRow {
        no,
        state,
        created_sequence,
        refund_sequence,
        is_changed: false,
    }))
}

type Columns = (String, GrabCounts, i64, u64, Option<u64>);

fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    let counts = GrabCounts {
        packets: row.get(2)?,
        amount_minor: row.get(3)?,
        last: row.get::<_, Option<i64>>(4)?.map(Moment::from_micros),
    };
    Ok((row.get(0)?, counts, row.get(1)?, row.get(5)?, row.get(6)?))
}

/// Removes rows; with the last ones the envelope itself, of which only the digest of its id
/// remains.
fn remove(db: &Connection, no: i64, removal: Removal) -> Result<()> {
    db.prepare_cached("DELETE FROM grabs WHERE envelope = ?1 AND packet > ?2 AND packet <= ?3")?
        .execute(params![no, removal.grabs_after, removal.grabs_until])?;
    db.prepare_cached(
        "DELETE FROM envelope_users WHERE envelope = ?1 AND user IN
         (SELECT user FROM envelope_users WHERE envelope = ?1 LIMIT ?2)",
    )?
    .execute(params![no, removal.allowed_users])?;
    if removal.is_last {
        let id: String = db
            .prepare_cached("DELETE FROM envelopes WHERE no = ?1 RETURNING id")?
            .query_row([no], |row| row.get(0))?;
        db.prepare_cached("INSERT OR IGNORE INTO removed_envelopes (digest) VALUES (?1)")?
            .execute([digest(&id)])?;
    }
    Ok(())
}

/// An envelope of this id was removed.
pub(super) fn was_removed(db: &Connection, id: &EnvelopeId) -> Result<bool> {
    Ok(db
        .prepare_cached("SELECT 1 FROM removed_envelopes WHERE digest = ?1")?
        .exists([digest(id.as_str())])?)
}

fn digest(id: &str) -> Vec<u8> {
    Sha256::digest(id)[..16].to_vec()
}
