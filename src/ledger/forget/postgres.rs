//! Erasing from the ledger in PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;
use tokio_postgres::{Client, Transaction, error::SqlState, types::ToSql};

use super::{Change, Eraser, Reason, columns::WinChange};
use crate::ledger::{
    PostgresSink, PostgresUrl, SinkError,
    entry::{OWN_FORMAT, to_system_time},
    read::{
        EntryRow,
        postgres::rows::entry,
        sql::{ENTRY_COLUMNS, OPERATIONS},
    },
};

/// How long a search or a transaction may take.
const ANSWER_MAX: Duration = Duration::from_secs(300);
/// Needs the rights by which wins are changed, and changes none. Without it, entries that won
/// nothing would be erased before a missing right shows.
const CHECK_RIGHTS: &str = "UPDATE tombola.wins
    SET user_id = '', request_id = '', delivery_reference = '' WHERE false";

/// A connection of a role that may change the columns with clear values.
pub struct PostgresEraser {
    client: Client,
}

impl PostgresEraser {
    /// Connects to the tables, whichever store's they are.
    ///
    /// # Errors
    /// PostgreSQL is away, its tables are of another version, or the role may not read them.
    pub async fn open(url: &PostgresUrl) -> Result<Self, SinkError> {
        let client = PostgresSink::connect_to_write(url).await;
        Ok(Self {
            client: client.map_err(named)?,
        })
    }
}

#[async_trait]
impl Eraser for PostgresEraser {
    async fn find(&mut self, user: &str) -> Result<(Vec<EntryRow>, u64), SinkError> {
        let quoted = serde_json::Value::from(user).to_string();
        // Entries of kinds that name users in `people`; each part has an index.
        let naming = format!(
            "({OPERATIONS} AND kind = 'operated'
              OR envelope IS NOT NULL AND kind <> 'grab' AND kind = 'envelope_created')"
        );
        let found = format!(
            "SELECT {ENTRY_COLUMNS} FROM tombola.entries WHERE user_id = $1 AND format <> $3
             UNION ALL
             SELECT {ENTRY_COLUMNS} FROM tombola.entries
             WHERE {naming} AND format <> $3 AND user_id IS DISTINCT FROM $1
                 AND position($2 in people) > 0
             ORDER BY partition, sequence"
        );
        let in_bytes = format!(
            "SELECT (SELECT count(*) FROM tombola.entries WHERE user_id = $1 AND format = $3)
                 + (SELECT count(*) FROM tombola.entries
                    WHERE {naming} AND format = $3 AND user_id IS DISTINCT FROM $1
                        AND position(convert_to($2, 'UTF8') in body) > 0)"
        );
        let values: [&(dyn ToSql + Sync); 3] = [&user, &quoted, &OWN_FORMAT];
        let work = async {
            let rows = self.client.query(&found, &values).await?;
            let count = self.client.query_one(&in_bytes, &values).await?;
            Ok((
                rows.iter().map(entry).collect(),
                count.get::<_, i64>(0).cast_unsigned(),
            ))
        };
        bounded(work).await
    }

    async fn find_later(&mut self) -> Result<Vec<EntryRow>, SinkError> {
        // With `OFFSET 0` each pseudonym is looked up in the index `entries_by_user`. Without it,
        // PostgreSQL may read all entries and join them.
        let sql = format!(
            "SELECT {ENTRY_COLUMNS} FROM (
                 SELECT DISTINCT jsonb_array_elements_text(pseudonyms::jsonb) AS pseudonym
                 FROM tombola.erasures
             ) AS erased CROSS JOIN LATERAL (
                 SELECT {ENTRY_COLUMNS} FROM tombola.entries
                 WHERE user_id = erased.pseudonym AND user_id IS NOT NULL
                     AND kind IN ('delivered', 'revoked') AND format <> $1
                 OFFSET 0
             ) AS later
             ORDER BY partition, sequence"
        );
        let work = async {
            let rows = self.client.query(&sql, &[&OWN_FORMAT]).await?;
            Ok(rows.iter().map(entry).collect())
        };
        bounded(work).await
    }

    async fn count_wins(&mut self, user: &str) -> Result<u64, SinkError> {
        let sql = "SELECT count(*) FROM tombola.wins WHERE user_id = $1";
        let work = async { Ok(self.client.query_one(sql, &[&user]).await?) };
        Ok(bounded(work).await?.get::<_, i64>(0).cast_unsigned())
    }

    async fn count_references(&mut self, users: &[String]) -> Result<u64, SinkError> {
        let sql = "SELECT count(*) FROM tombola.wins
                   WHERE user_id = ANY ($1) AND delivery_reference <> ''";
        let work = async { Ok(self.client.query_one(sql, &[&users]).await?) };
        Ok(bounded(work).await?.get::<_, i64>(0).cast_unsigned())
    }

    async fn write(&mut self, changes: &[Change], reason: &Reason) -> Result<u64, SinkError> {
        bounded(write(&mut self.client, changes, reason)).await
    }
}

async fn bounded<T>(work: impl Future<Output = Result<T, SinkError>>) -> Result<T, SinkError> {
    let answer = timeout(ANSWER_MAX, work).await;
    let answer = answer.unwrap_or(Err(SinkError::TimedOut(ANSWER_MAX)));
    answer.map_err(named)
}

/// Names a right that the role lacks: no repetition helps until somebody grants it.
fn named(error: SinkError) -> SinkError {
    match error {
        SinkError::Postgres(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            SinkError::EraserLacksRight(error)
        }
        error => error,
    }
}

async fn write(client: &mut Client, changes: &[Change], reason: &Reason) -> Result<u64, SinkError> {
    let transaction = client.transaction().await?;
    transaction.execute(CHECK_RIGHTS, &[]).await?;
    let sql = "UPDATE tombola.entries SET user_id = $1, request_id = $2, people = $3
               WHERE partition = $4 AND sequence = $5 AND at = $6
                   AND user_id IS NOT DISTINCT FROM $7 AND request_id IS NOT DISTINCT FROM $8
                   AND people IS NOT DISTINCT FROM $9";
    let statement = transaction.prepare(sql).await?;
    let [mut entries, mut wins] = [0; 2];
    for change in changes {
        let [user, request, people] = &change.was;
        let values: [&(dyn ToSql + Sync); 9] = [
            &change.user,
            &change.request,
            &change.people,
            &change.id.partition.cast_signed(),
            &change.id.sequence.cast_signed(),
            &to_system_time(change.at),
            user,
            request,
            people,
        ];
        let changed = transaction.execute(&statement, &values).await?;
        entries += changed;
        if changed == 0 {
            continue; // it is read anew
        }
        if let Some(win) = &change.win {
            wins += write_wins(&transaction, change, win).await?;
        }
    }
    let pseudonyms = super::pseudonyms(changes);
    let sql = "INSERT INTO tombola.erasures (operator, reason, pseudonyms, entries, wins)
               VALUES ($1, $2, $3, $4, $5)";
    let values: [&(dyn ToSql + Sync); 5] = [
        &reason.operator,
        &reason.text,
        &pseudonyms,
        &entries.cast_signed(),
        &wins.cast_signed(),
    ];
    transaction.execute(sql, &values).await?;
    transaction.commit().await?;
    Ok(wins)
}

async fn write_wins(
    transaction: &Transaction<'_>,
    change: &Change,
    win: &WinChange,
) -> Result<u64, SinkError> {
    let partition = change.id.partition.cast_signed();
    match &win.request {
        Some(request) => {
            let sql = "UPDATE tombola.wins
                       SET user_id = $1, request_id = $2, delivery_reference = ''
                       WHERE partition = $3 AND sequence = $4";
            let values: [&(dyn ToSql + Sync); 4] = [
                &win.user,
                request,
                &partition,
                &change.id.sequence.cast_signed(),
            ];
            Ok(transaction.execute(sql, &values).await?)
        }
        // A win that was delivered after its user was erased has a reference again.
        None => {
            let sql = "UPDATE tombola.wins SET delivery_reference = ''
                       WHERE user_id = $1 AND partition = $2 AND delivery_reference <> ''";
            let values: [&(dyn ToSql + Sync); 2] = [&win.user, &partition];
            Ok(transaction.execute(sql, &values).await?)
        }
    }
}
