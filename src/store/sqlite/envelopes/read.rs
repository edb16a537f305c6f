//! Reads, each in a transaction of its own.

use std::time::Duration;

use rusqlite::{Connection, params};

use super::{grab::packet, row};
use crate::{
    model::{EnvelopeId, Moment, UserId},
    store::{EnvelopeView, GrabView, Refusal, Result, StoreError},
};

/// An envelope as it stands.
pub(super) fn envelope(db: &Connection, id: &EnvelopeId, now: Moment) -> Result<EnvelopeView> {
    match row::load(db, id)? {
        Some(row) if !row.state.is_removed() => row.view(now),
        _ => Err(Refusal::EnvelopeNotFound.into()),
    }
}

/// Who has which packet, those after `after`.
pub(super) fn grabs(
    db: &Connection,
    id: &EnvelopeId,
    after: u32,
    limit: usize,
) -> Result<Vec<GrabView>> {
    let row = row::load(db, id)?.filter(|row| !row.state.is_removed());
    let no = row.ok_or(Refusal::EnvelopeNotFound)?.no;
    let mut statement = db.prepare_cached(
        "SELECT user, packet, amount_minor, at, sequence FROM grabs WHERE envelope = ?1 AND packet \
         > ?2
         ORDER BY packet LIMIT ?3",
    )?;
    let rows = statement.query_and_then(params![no, after, limit], |row| -> Result<GrabView> {
        let user = UserId::parse("user", &row.get::<_, String>(0)?);
        Ok(GrabView {
            user: user.map_err(|problem| StoreError::corrupt(problem.message))?,
            packet: packet(row, 1)?,
        })
    })?;
    rows.collect()
}

/// Envelopes whose refund, or whose removal, is due.
pub(super) fn due(
    db: &Connection,
    now: Moment,
    retention: Duration,
    limit: usize,
) -> Result<Vec<EnvelopeId>> {
    let mut ids = Vec::new();
    for (sql, until) in [
        (
            "SELECT id FROM envelopes WHERE refund_due <= ?1 ORDER BY refund_due LIMIT ?2",
            now,
        ),
        (
            "SELECT id FROM envelopes WHERE settled <= ?1 ORDER BY settled LIMIT ?2",
            now - retention,
        ),
    ] {
        let mut statement = db.prepare_cached(sql)?;
        let rows = statement.query_map(params![until.as_micros(), limit - ids.len()], |row| {
            row.get::<_, String>(0)
        })?;
        for id in rows {
            let id = EnvelopeId::parse("envelope", &id?);
            ids.push(id.map_err(|problem| StoreError::corrupt(problem.message))?);
        }
    }
    Ok(ids)
}
