//! An envelope's row, and those that the writer keeps in memory between steps.

use rusqlite::{Connection, params};
use sha2::{Digest as _, Sha256};

use super::sums::Sums;
use crate::{
    model::{EnvelopeId, Moment},
    store::{
        EnvelopeView, Result,
        envelope::GrabCounts,
        rules::envelope::{EnvelopeChanges, EnvelopeState, Removal},
        sqlite::{
            columns::{from_json, ledger_id},
            kept::Kept,
        },
    },
};

/// What the writer keeps of envelopes.
#[derive(Default)]
pub(in crate::store::sqlite) struct Envelopes {
    pub(super) rows: Kept<EnvelopeId, EnvelopeRow>,
    pub(super) sums: Sums,
}

/// An envelope as the writer has it.
pub(super) struct EnvelopeRow {
    pub(super) no: i64,
    pub(super) state: EnvelopeState,
    /// Ledger entries of its creation and its refund.
    pub(super) created_sequence: u64,
    pub(super) refund_sequence: Option<u64>,
    /// Grabs have changed it since it was written.
    pub(super) is_changed: bool,
}

impl Envelopes {
    /// After a rollback: nothing in memory counts.
    pub(in crate::store::sqlite) fn forget(&mut self) {
        self.rows.clear();
        self.sums.forget();
    }

    /// Before a commit: writes what grabs have changed.
    pub(in crate::store::sqlite) fn flush(&mut self, db: &Connection) -> Result<()> {
        for row in self.rows.new_values().filter(|row| row.is_changed) {
            row.save_counts(db)?;
        }
        self.sums.flush(db)
    }

    /// After a commit: memory stays bounded.
    pub(in crate::store::sqlite) fn tidy(&mut self) {
        self.rows.tidy();
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
    pub(super) fn save_counts(&mut self, db: &Connection) -> Result<()> {
        let settled = match self.state.record.removed {
            Some(_) => Some(Moment::EPOCH),
            None => self.state.settled_at(),
        };
        let grabbed = &self.state.grabbed;
        db.prepare_cached(
            "UPDATE envelopes SET packets_grabbed = ?2, grabbed_minor = ?3, last_grab = ?4, \
             refund_due = ?5, settled = ?6
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

/// Reads an envelope, also one that is being removed.
pub(super) fn load(db: &Connection, id: &EnvelopeId) -> Result<Option<EnvelopeRow>> {
    let mut statement = db.prepare_cached(
        "SELECT record, no, packets_grabbed, grabbed_minor, last_grab, created_sequence, \
         refund_sequence
         FROM envelopes WHERE id = ?1",
    )?;
    let mut rows = statement.query_and_then([id.as_str()], |row| -> Result<EnvelopeRow> {
        let state = EnvelopeState {
            record: from_json(&row.get::<_, String>(0)?)?,
            grabbed: GrabCounts {
                packets: row.get(2)?,
                amount_minor: row.get(3)?,
                last: row.get::<_, Option<i64>>(4)?.map(Moment::from_micros),
            },
            changes: EnvelopeChanges::default(),
        };
        state.check()?;
        Ok(EnvelopeRow {
            no: row.get(1)?,
            state,
            created_sequence: row.get(5)?,
            refund_sequence: row.get(6)?,
            is_changed: false,
        })
    })?;
    rows.next().transpose()
}

/// Removes rows; with the last ones the envelope itself, of which only the digest of its id
/// remains.
pub(super) fn remove(db: &Connection, no: i64, removal: Removal) -> Result<()> {
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
