//! Campaigns whose data leave the store.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::{
    ledger::removed::{RemovedRow, VersionRow},
    store::Result,
};

/// The number of a closed campaign's last entry.
pub(super) fn last_number(db: &Connection, campaign: &str) -> Result<Option<u64>> {
    let sql = "SELECT number FROM entries WHERE campaign = ?1 AND kind <> 'draw'
               ORDER BY sequence DESC LIMIT 1";
    let mut statement = db.prepare_cached(sql)?;
    let number = statement.query_row([campaign], |row| row.get::<_, Option<u64>>(0));
    Ok(number.optional()?.flatten())
}

/// Writes a campaign's row and those of its versions.
pub(super) fn keep(db: &Connection, row: &RemovedRow, versions: &[VersionRow]) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO removed_campaigns (campaign, partition, version, entries, at,
                   nonce, commitment, users, wins, consolations, nothings, record)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    db.prepare_cached(sql)?.execute(params![
        row.campaign,
        row.partition,
        row.version,
        row.entries,
        row.at.as_micros(),
        row.nonce,
        row.commitment,
        row.users,
        row.draws.wins,
        row.draws.consolations,
        row.draws.nothings,
        row.record,
    ])?;
    for version in versions {
        let sql =
            "INSERT OR REPLACE INTO removed_versions (campaign, version, at, operator, reason,
                       definition)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let info = &version.info;
        db.prepare_cached(sql)?.execute(params![
            row.campaign,
            info.version,
            info.at.as_micros(),
            info.operator.as_str(),
            info.reason,
            version.definition,
        ])?;
    }
    Ok(())
}
