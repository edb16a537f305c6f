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
    let rows = statement.query_and_then(params![campaign, pool.0, now.as_micros()], read_window)?;
    rows.collect()
}

/// Makes a window of its row: start, record.
pub(super) fn read_window(row: &Row<'_>) -> Result<(Moment, Window)> {
    let record: String = row.get(1)?;
    Ok((moment(row, 0)?, from_json(&record)?))
}
