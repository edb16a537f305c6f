//! Rows of the tables, read.

use tokio_postgres::Row;

use crate::{
    ledger::{
        entry::{Unreadable, decode, from_system_time},
        read::{Delivery, ReadError, SettledTo, SettledWin},
        wins::Win,
    },
    model::{CampaignId, EnvelopeId},
    store::{Entry, LedgerId, SettledUpTo, Subject},
};

/// The columns that [`entry`] reads.
pub(super) const ENTRY_COLUMNS: &str =
    "SELECT partition, sequence, at, campaign, envelope, format, body, number, fork";

/// The columns that [`win`] reads.
pub(super) const WIN_COLUMNS: &str =
    "SELECT partition, sequence, number, at, campaign, version, user_id, request_id, pool, prize,
         unit_id, release_at";

/// A cursor and its partition.
pub(super) fn cursor(row: &Row) -> (u32, SettledTo) {
    let up_to = SettledUpTo {
        sequence: row.get::<_, i64>(1).cast_unsigned() - 1,
        fork: row.get(2),
    };
    let at = from_system_time(row.get(3));
    (unsigned(row, 0), SettledTo { up_to, at })
}

/// An entry.
pub(super) fn entry(row: &Row) -> Result<Entry, ReadError> {
    let id = LedgerId {
        partition: unsigned(row, 0),
        sequence: row.get::<_, i64>(1).cast_unsigned(),
    };
    let unreadable = |cause| ReadError::Unreadable { id, cause };
    Ok(Entry {
        id,
        number: row.get::<_, Option<i64>>(7).map(i64::cast_unsigned),
        fork: row.get::<_, Option<i32>>(8).unwrap_or(0).cast_unsigned(),
        at: from_system_time(row.get(2)),
        subject: subject(row.get(3), row.get(4)).map_err(unreadable)?,
        body: decode(row.get(5), row.get(6)).map_err(unreadable)?,
    })
}

fn subject(campaign: Option<&str>, envelope: Option<&str>) -> Result<Subject, Unreadable> {
    let subject = match (campaign, envelope) {
        (Some(id), _) => CampaignId::parse("campaign", id).map(Subject::Campaign),
        (None, Some(id)) => EnvelopeId::parse("envelope", id).map(Subject::Envelope),
        (None, None) => Ok(Subject::Partition),
    };
    subject.map_err(|problem| Unreadable::Id(problem.message))
}

/// A win.
pub(super) fn win(row: &Row) -> SettledWin {
    let release: Option<_> = row.get(11);
    let win = Win {
        partition: unsigned(row, 0),
        sequence: row.get::<_, i64>(1).cast_unsigned(),
        number: row.get(2),
        at: from_system_time(row.get(3)),
        campaign: row.get(4),
        version: unsigned(row, 5),
        user: row.get(6),
        request: row.get(7),
        pool: row.get(8),
        prize: row.get(9),
        unit: row.get(10),
        release: release.map(from_system_time),
    };
    SettledWin {
        win,
        delivery: Delivery::default(),
    }
}

/// Partitions and versions are far below 2^31.
fn unsigned(row: &Row, column: usize) -> u32 {
    row.get::<_, i32>(column).cast_unsigned()
}
