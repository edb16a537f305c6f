//! Erasing from the ledger in an embedded store's file, beside the service that has it open: its
//! writer waits while a transaction of another process is under way.

use std::{collections::BTreeSet, path::Path};

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};

use super::{Change, Eraser, Reason, columns::WinChange};
use crate::{
    ledger::{
        SinkError,
        entry::OWN_FORMAT,
        read::{
            EntryRow,
            sql::{ENTRY_COLUMNS, OPERATIONS, among, numbers},
            sqlite::entry,
        },
    },
    store::{
        LedgerId, StoreError,
        sqlite::{
            BUSY_PATIENCE, DATABASE_FILE, is_up_to_date,
            lookup::{self, Term},
            needs_later_version,
            search::Search,
        },
    },
};

/// Erased values are overwritten in the file, not only released.
const BEGIN: &str = "PRAGMA secure_delete = ON; PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 0;";

/// How many users are looked up in one search.
const SEARCHED_AT_ONCE: usize = 200;

/// A connection to the file.
pub struct SqliteEraser {
    db: Connection,
}

impl SqliteEraser {
    /// Opens the file in the directory of an embedded store's data.
    ///
    /// # Errors
    /// There is no such file, it is no such store, or it is of another version.
    pub fn open(directory: &Path) -> Result<Self, SinkError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || -> rusqlite::Result<Result<Connection, SinkError>> {
            let db = Connection::open_with_flags(directory.join(DATABASE_FILE), flags)?;
            db.busy_timeout(BUSY_PATIENCE)?;
            if !is_up_to_date(&db)? {
                return Ok(Err(SinkError::OlderFile));
            }
            if needs_later_version(&db)? {
                return Ok(Err(SinkError::LaterFile));
            }
            db.execute_batch(BEGIN)?;
            Ok(Ok(db))
        };
        let db = open().map_err(StoreError::from)??;
        Ok(Self { db })
    }

    fn read(&self, user: &str) -> rusqlite::Result<(Vec<EntryRow>, u64)> {
        let quoted = serde_json::Value::from(user).to_string();
        let mut rows = Vec::new();
        let found = numbers(&entries_of(&self.db, user)?);
        let of_user = format!("FROM {} WHERE user_id = $2", among("entries", 1));
        let sql = format!("SELECT {ENTRY_COLUMNS} {of_user} AND format <> $3");
        let mut statement = self.db.prepare(&sql)?;
        for row in statement.query_map(params![found, user, OWN_FORMAT], entry)? {
            rows.push(row?);
        }
        let sql = format!("SELECT count(*) {of_user} AND format = $3");
        let mut in_bytes: u64 =
            self.db
                .query_row(&sql, params![found, user, OWN_FORMAT], |row| row.get(0))?;
        // Entries of kinds that name users in `people`; each has an index.
        for naming in [
            format!("{OPERATIONS} AND kind = 'operated'"),
            "envelope IS NOT NULL AND kind = 'envelope_created'".to_owned(),
        ] {
            let others = format!("FROM entries WHERE {naming} AND user_id IS NOT ?1");
            let sql =
                format!("SELECT {ENTRY_COLUMNS} {others} AND format <> ?2 AND instr(people, ?3)");
            let mut statement = self.db.prepare(&sql)?;
            for row in statement.query_map(params![user, OWN_FORMAT, quoted], entry)? {
                rows.push(row?);
            }
            let sql = format!(
                "SELECT count(*) {others} AND format = ?2 AND instr(CAST(body AS TEXT), ?3)"
            );
            let values = params![user, OWN_FORMAT, quoted];
            in_bytes += self
                .db
                .query_row(&sql, values, |row| row.get::<_, u64>(0))?;
        }
        Ok((rows, in_bytes))
    }

    fn read_later(&self) -> rusqlite::Result<Vec<EntryRow>> {
        let sql = "SELECT DISTINCT value FROM erasures, json_each(erasures.pseudonyms)";
        let mut statement = self.db.prepare(sql)?;
        let pseudonyms = statement.query_map([], |row| row.get(0))?;
        let pseudonyms: Vec<String> = pseudonyms.collect::<rusqlite::Result<_>>()?;
        let sql = format!(
            "SELECT {ENTRY_COLUMNS} FROM {}
             WHERE kind IN ('delivered', 'revoked') AND format <> $2
                 AND user_id IN (SELECT value FROM json_each($3))",
            among("entries", 1)
        );
        let mut statement = self.db.prepare(&sql)?;
        let mut rows = Vec::new();
        for users in pseudonyms.chunks(SEARCHED_AT_ONCE) {
            let found = numbers(&entries_of_users(&self.db, users)?);
            let users = serde_json::json!(users).to_string();
            for row in statement.query_map(params![found, OWN_FORMAT, users], entry)? {
                rows.push(row?);
            }
        }
        Ok(rows)
    }

    fn references_of(&self, users: &[String]) -> rusqlite::Result<u64> {
        let sql = format!(
            "SELECT count(*) FROM {}
             WHERE delivery_reference <> '' AND user_id IN (SELECT value FROM json_each($2))",
            among("wins", 1)
        );
        let mut statement = self.db.prepare(&sql)?;
        let mut count = 0;
        for users in users.chunks(SEARCHED_AT_ONCE) {
            let found = numbers(&entries_of_users(&self.db, users)?);
            let users = serde_json::json!(users).to_string();
            count += statement.query_row(params![found, users], |row| row.get::<_, u64>(0))?;
        }
        Ok(count)
    }

    fn change(&mut self, changes: &[Change], reason: &Reason) -> rusqlite::Result<u64> {
        let transaction = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let sql = "UPDATE entries SET user_id = ?1, request_id = ?2, people = ?3
                   WHERE partition = ?4 AND sequence = ?5
                       AND user_id IS ?6 AND request_id IS ?7 AND people IS ?8";
        let (mut entries, mut wins, mut delivered) = (0, 0, BTreeSet::new());
        for change in changes {
            let [user, request, people] = &change.was;
            wins += lookup::change(&transaction, change.id.sequence, || {
                let changed = transaction.prepare_cached(sql)?.execute(params![
                    change.user,
                    change.request,
                    change.people,
                    change.id.partition,
                    change.id.sequence,
                    user,
                    request,
                    people,
                ])?;
                entries += changed;
                match &change.win {
                    _ if changed == 0 => Ok(0), // it is read anew
                    Some(WinChange {
                        user,
                        request: Some(request),
                    }) => write_wins(&transaction, change.id, user, request),
                    _ => Ok(0),
                }
            })? as u64;
            if let Some(WinChange {
                user,
                request: None,
            }) = &change.win
            {
                delivered.insert((user.as_str(), change.id.partition));
            }
        }
        for (user, partition) in delivered {
            wins += erase_references(&transaction, user, partition)? as u64;
        }
        let sql = "INSERT INTO erasures (erased_at, operator, reason, pseudonyms, entries, wins)
                   VALUES (CAST(unixepoch('subsec') * 1000000 AS INTEGER), ?1, ?2, ?3, ?4, ?5)";
        let pseudonyms = super::pseudonyms(changes);
        let values = params![reason.operator, reason.text, pseudonyms, entries, wins];
        transaction.execute(sql, values)?;
        transaction.commit()?;
        Ok(wins)
    }
}

#[async_trait]
impl Eraser for SqliteEraser {
    async fn find(&mut self, user: &str) -> Result<(Vec<EntryRow>, u64), SinkError> {
        Ok(self.read(user).map_err(StoreError::from)?)
    }

    async fn find_later(&mut self) -> Result<Vec<EntryRow>, SinkError> {
        Ok(self.read_later().map_err(StoreError::from)?)
    }

    async fn count_wins(&mut self, user: &str) -> Result<u64, SinkError> {
        let count = || {
            let found = numbers(&entries_of(&self.db, user)?);
            let of_user = format!("FROM {} WHERE user_id = $2", among("wins", 1));
            let sql = format!("SELECT count(*) {of_user}");
            self.db.query_row(&sql, [&found, user], |row| row.get(0))
        };
        Ok(count().map_err(StoreError::from)?)
    }

    async fn count_references(&mut self, users: &[String]) -> Result<u64, SinkError> {
        Ok(self.references_of(users).map_err(StoreError::from)?)
    }

    async fn write(&mut self, changes: &[Change], reason: &Reason) -> Result<u64, SinkError> {
        Ok(self.change(changes, reason).map_err(StoreError::from)?)
    }
}

/// The numbers of a user's entries, the oldest first, and perhaps of others with the same term.
fn entries_of(db: &Connection, user: &str) -> rusqlite::Result<Vec<u64>> {
    Search::new([Term::user(user)]).all(db)
}

/// The same of several users.
fn entries_of_users(db: &Connection, users: &[String]) -> rusqlite::Result<Vec<u64>> {
    Search::new(users.iter().map(|user| Term::user(user))).all(db)
}

/// Writes the pseudonyms of a user and of a request into the wins of a draw.
fn write_wins(
    db: &Connection,
    draw: LedgerId,
    user: &str,
    request: &str,
) -> rusqlite::Result<usize> {
    let sql = "UPDATE wins SET user_id = ?1, request_id = ?2, delivery_reference = ''
               WHERE partition = ?3 AND sequence = ?4";
    let values = params![user, request, draw.partition, draw.sequence];
    db.prepare_cached(sql)?.execute(values)
}

/// A win that was delivered after its user was erased has a reference again.
fn erase_references(db: &Connection, user: &str, partition: u32) -> rusqlite::Result<usize> {
    let sql = "UPDATE wins SET delivery_reference = ''
               WHERE user_id = ?1 AND partition = ?2 AND delivery_reference <> ''
                   AND sequence IN (SELECT value FROM json_each(?3))";
    let found = numbers(&entries_of(db, user)?);
    db.prepare_cached(sql)?
        .execute(params![user, partition, found])
}
