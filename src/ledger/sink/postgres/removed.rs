//! Campaigns whose data leave the store.

use tokio_postgres::{Client, types::ToSql};

use super::write::{bigint, int};
use crate::ledger::{
    entry::to_system_time,
    removed::{RemovedRow, VersionRow},
    sink::SinkError,
};

/// The number of a closed campaign's last entry. Entries that the store has lost do not count.
pub(super) async fn last_number(client: &Client, campaign: &str) -> Result<Option<u64>, SinkError> {
    let sql = "SELECT number FROM tombola.entries AS entries
               WHERE campaign = $1 AND kind <> 'draw' AND NOT EXISTS (
                   SELECT 1 FROM tombola.orphans AS orphans
                   WHERE orphans.partition = entries.partition
                       AND entries.sequence BETWEEN first_sequence AND last_sequence)
               ORDER BY sequence DESC LIMIT 1";
    let row = client.query_opt(sql, &[&campaign]).await?;
    let number = row.and_then(|row| row.get::<_, Option<i64>>(0));
    Ok(number.map(i64::cast_unsigned))
}

/// Writes a campaign's row and those of its versions, in one transaction.
pub(super) async fn keep(
    client: &mut Client,
    row: &RemovedRow,
    versions: &[VersionRow],
) -> Result<(), SinkError> {
    let transaction = client.transaction().await?;
    let sql = "INSERT INTO tombola.removed_campaigns (campaign, partition, version, entries, at,
                   nonce, commitment, users, wins, consolations, nothings, record)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
               ON CONFLICT (campaign) DO UPDATE SET partition = excluded.partition,
                   version = excluded.version, entries = excluded.entries, at = excluded.at,
                   nonce = excluded.nonce, commitment = excluded.commitment,
                   users = excluded.users, wins = excluded.wins,
                   consolations = excluded.consolations, nothings = excluded.nothings,
                   record = excluded.record";
    let values: [&(dyn ToSql + Sync); 12] = [
        &row.campaign,
        &int(row.partition),
        &int(row.version),
        &bigint(row.entries),
        &to_system_time(row.at),
        &row.nonce,
        &row.commitment,
        &bigint(row.users),
        &bigint(row.draws.wins),
        &bigint(row.draws.consolations),
        &bigint(row.draws.nothings),
        &row.record,
    ];
    transaction.execute(sql, &values).await?;
    for version in versions {
        let sql = "INSERT INTO tombola.removed_versions (campaign, version, at, operator, reason,
                       definition)
                   VALUES ($1, $2, $3, $4, $5, $6)
                   ON CONFLICT (campaign, version) DO UPDATE SET at = excluded.at,
                       operator = excluded.operator, reason = excluded.reason,
                       definition = excluded.definition";
        let info = &version.info;
        // The one character that PostgreSQL's texts cannot have.
        let (operator, reason) = (info.operator.as_str(), info.reason.replace('\0', ""));
        let values: [&(dyn ToSql + Sync); 6] = [
            &row.campaign,
            &int(info.version),
            &to_system_time(info.at),
            &operator,
            &reason,
            &version.definition,
        ];
        transaction.execute(sql, &values).await?;
    }
    Ok(transaction.commit().await?)
}
