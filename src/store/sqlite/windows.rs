//! Reading the windows that are kept as rows.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};

use super::columns::{from_json, moment};
use crate::{
    model::{Moment, PoolNo},
    store::{Result, rules::Window},
};

/// The windows of a pool that have not ended, or that have an open fill or a recall to come.
pub(super) fn load_live(
    db: &Connection,
    campaign: i64,
    pool: PoolNo,
    now: Moment,
) -> Result<BTreeMap<Moment, Window>> {
    // By itself, SQLite would look through all windows that have ended.
    let mut statement = db.prepare_cached(
        "SELECT start, record FROM windows WHERE campaign = ?1 AND pool = ?2 AND finish > ?3
         UNION ALL
         SELECT start, record FROM windows INDEXED BY open_windows
         WHERE campaign = ?1 AND pool = ?2 AND finish <= ?3 AND is_open = 1",
    )?;
    let rows = statement.query_map(params![campaign, pool.0, now.as_micros()], window_columns)?;
    rows.map(|columns| read_window(&columns?)).collect()
}

/// Columns of a window: start, record.
pub(super) fn window_columns(row: &Row<'_>) -> rusqlite::Result<(Moment, String)> {
    Ok((moment(row, 0)?, row.get(1)?))
}

/// Makes a window of its columns.
pub(super) fn read_window((start, record): &(Moment, String)) -> Result<(Moment, Window)> {
    Ok((*start, from_json(record)?))
}
