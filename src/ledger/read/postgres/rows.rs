//! Rows of the tables, read.

use tokio_postgres::Row;

use crate::{
    ledger::{
        activity::{Counts, Hour},
        entry::from_system_time,
        read::{
            SettledTo, SettledWin,
            row::{self, EntryRow, VersionColumns},
        },
        removed::RemovedRow,
        wins::Win,
    },
    store::{LedgerId, SettledUpTo, view::DrawCounts},
};

/// A cursor and its partition.
pub(super) fn cursor(row: &Row) -> (u32, SettledTo) {
    let up_to = SettledUpTo {
        sequence: row.get::<_, i64>(1).cast_unsigned() - 1,
        fork: row.get(2),
    };
    let at = from_system_time(row.get(3));
    (unsigned(row, 0), SettledTo { up_to, at })
}

/// An entry, from [`crate::ledger::read::sql::ENTRY_COLUMNS`].
pub(in crate::ledger) fn entry(row: &Row) -> EntryRow {
    EntryRow {
        id: LedgerId {
            partition: unsigned(row, 0),
            sequence: row.get::<_, i64>(1).cast_unsigned(),
        },
        at: from_system_time(row.get(2)),
        campaign: row.get(3),
        envelope: row.get(4),
        format: row.get(5),
        body: row.get(6),
        number: row.get::<_, Option<i64>>(7).map(i64::cast_unsigned),
        fork: row.get::<_, Option<i32>>(8).unwrap_or(0).cast_unsigned(),
        user: row.get(9),
        request: row.get(10),
        people: row.get(11),
    }
}

/// A range of lost entries.
pub(super) fn lost(row: &Row) -> (u64, u64) {
    let number = |index| row.get::<_, i64>(index).cast_unsigned();
    (number(0), number(1))
}

/// A win, from [`crate::ledger::read::sql::WIN_COLUMNS`].
pub(super) fn win(row: &Row) -> SettledWin {
    let (release, delivery_at): (Option<_>, Option<_>) = (row.get(11), row.get(14));
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
        delivery: row::delivery(row.get(12), row.get(13), delivery_at.map(from_system_time)),
    }
}

/// What came of the draws of an hour.
pub(super) fn hour(row: &Row) -> Hour {
    let count = |column| row.get::<_, i64>(column).cast_unsigned();
    Hour {
        start: from_system_time(row.get(0)),
        counts: Counts {
            draws: count(1),
            wins: count(2),
            consolations: count(3),
        },
    }
}

/// Partitions and versions are far below 2^31.
fn unsigned(row: &Row, column: usize) -> u32 {
    row.get::<_, i32>(column).cast_unsigned()
}

/// A removed campaign and the definition of its last version, from
/// [`crate::ledger::read::sql::REMOVED_COLUMNS`].
pub(in crate::ledger) fn removed(row: &Row) -> (RemovedRow, Vec<u8>) {
    let count = |column| row.get::<_, i64>(column).cast_unsigned();
    let removed = RemovedRow {
        campaign: row.get(0),
        partition: unsigned(row, 1),
        version: unsigned(row, 2),
        entries: count(3),
        at: from_system_time(row.get(4)),
        nonce: row.get(5),
        commitment: row.get(6),
        users: count(7),
        draws: DrawCounts {
            wins: count(8),
            consolations: count(9),
            nothings: count(10),
        },
        record: row.get(11),
    };
    (removed, row.get(12))
}

/// A version of a removed campaign, from [`crate::ledger::read::sql::VERSION_COLUMNS`].
pub(super) fn version(row: &Row) -> VersionColumns {
    let at = from_system_time(row.get(1));
    (unsigned(row, 0), at, row.get(2), row.get(3))
}
