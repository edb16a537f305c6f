//! The tables in PostgreSQL, and how they change: first a migration *expands* the schema so that
//! the version before works with it too; a later one *contracts* it, raises `min_reader`, and so
//! shuts out programs that do not know the new form.

use refinery::{Migration, Runner};
use tokio_postgres::{Client, error::SqlState};

use super::super::SinkError;

/// Each migration's name, `V` and the schema version it leads to, and its text.
const MIGRATIONS: [(&str, &str); 9] = [
    (
        "V1__ledger",
        include_str!("../../migrations/V1__ledger.sql"),
    ),
    (
        "V2__numbers",
        include_str!("../../migrations/V2__numbers.sql"),
    ),
    (
        "V3__people",
        include_str!("../../migrations/V3__people.sql"),
    ),
    ("V4__lists", include_str!("../../migrations/V4__lists.sql")),
    (
        "V5__deliveries",
        include_str!("../../migrations/V5__deliveries.sql"),
    ),
    (
        "V6__chains",
        include_str!("../../migrations/V6__chains.sql"),
    ),
    (
        "V7__removed",
        include_str!("../../migrations/V7__removed.sql"),
    ),
    (
        "V8__activity",
        include_str!("../../migrations/V8__activity.sql"),
    ),
    (
        "V9__requests",
        include_str!("../../migrations/V9__requests.sql"),
    ),
];
/// The schema version that this program knows: its last migration.
const SCHEMA: i32 = MIGRATIONS.len() as i32;

/// Where the migrations that were made are listed.
const HISTORY: &str = "tombola.schema_history";

/// Makes the tables, or brings them to this version; true if anything was changed.
///
/// # Errors
/// A newer schema that this version does not understand, or a fault of PostgreSQL.
pub(super) async fn migrate(client: &mut Client) -> Result<bool, SinkError> {
    // Held until the connection ends: of two that migrate at once, one waits.
    client
        .batch_execute(
            "SET lock_timeout = '60s';
             SELECT pg_advisory_lock(hashtext('tombola.migrate'));
             CREATE SCHEMA IF NOT EXISTS tombola;",
        )
        .await?;
    let (before, min_reader) = versions(client).await?;
    refuse_newer(min_reader)?;
    let migrations = MIGRATIONS.iter();
    let migrations: Vec<_> = migrations
        .map(|(name, text)| Migration::unapplied(name, text))
        .collect::<Result<_, _>>()?;
    let mut runner = Runner::new(&migrations).set_abort_missing(before <= SCHEMA);
    runner.set_migration_table_name(HISTORY);
    let report = runner.run_async(client).await?;
    Ok(!report.applied_migrations().is_empty())
}

/// Checks that this program can work with the tables.
pub(super) async fn check(client: &Client) -> Result<(), SinkError> {
    let (found, min_reader) = versions(client).await?;
    refuse_newer(min_reader)?;
    if found < SCHEMA {
        return Err(SinkError::NotMigrated {
            found,
            needed: SCHEMA,
        });
    }
    Ok(())
}

fn refuse_newer(min_reader: i32) -> Result<(), SinkError> {
    if min_reader > SCHEMA {
        return Err(SinkError::NewerSchema {
            min_reader,
            known: SCHEMA,
        });
    }
    Ok(())
}

/// The schema's version and the lowest one that a program must know; zeros if there is no schema.
async fn versions(client: &Client) -> Result<(i32, i32), SinkError> {
    let found = client
        .query_one(
            "SELECT (SELECT max(version) FROM tombola.schema_history),
                    (SELECT value::integer FROM tombola.meta WHERE key = 'min_reader')",
            &[],
        )
        .await;
    match found {
        Ok(row) => Ok((
            row.get::<_, Option<i32>>(0).unwrap_or(0),
            row.get::<_, Option<i32>>(1).unwrap_or(0),
        )),
        Err(error) if is_absence(&error) => Ok((0, 0)),
        Err(error) => Err(error.into()),
    }
}

fn is_absence(error: &tokio_postgres::Error) -> bool {
    let absences = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
    error.code().is_some_and(|code| absences.contains(code))
}
