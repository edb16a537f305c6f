//! Rows of the table `users`: the record of each user, and the requests that are remembered.

use rusqlite::{Connection, OptionalExtension as _, Row as DbRow, params};

use crate::model::{RequestId, UserId};

/// The key of a row, in the order of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) campaign: i64,
    /// The user and the request, with a zero byte between, which no id contains. The request is
    /// empty for the user's record.
    name: Box<str>,
}

impl Key {
    /// The key of a user's record.
    pub(super) fn record(campaign: i64, user: &UserId) -> Self {
        Self::new(campaign, user.as_str(), "")
    }

    /// The key of a request that is remembered.
    pub(super) fn request(campaign: i64, (user, request): (&UserId, &RequestId)) -> Self {
        Self::new(campaign, user.as_str(), request.as_str())
    }

    pub(super) fn new(campaign: i64, user: &str, request: &str) -> Self {
        let name = [user, "\0", request].concat().into_boxed_str();
        Self { campaign, name }
    }

    /// The user and the request.
    pub(super) fn parts(&self) -> (&str, &str) {
        self.name.split_once('\0').unwrap_or((&self.name, ""))
    }
}

/// A row without its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// A user's record.
    Record(Box<Columns>),
    /// A request: the number of the ledger entry that answers it. If the request is forgotten, the
    /// table may have a later one under the same key.
    Remembered(u64),
}

/// The columns of a user's record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) day: Option<i32>,
    pub(super) free_today: u32,
    pub(super) paid_today: u32,
    pub(super) draws: u64,
    pub(super) bonus_used: u64,
    pub(super) wins: u64,
    pub(super) bonus: Option<Box<str>>,
    pub(super) more: Option<Box<str>>,
}

impl Columns {
    /// Reads them from here on.
    pub(super) fn read(row: &DbRow<'_>, from: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            day: row.get(from)?,
            free_today: row.get(from + 1)?,
            paid_today: row.get(from + 2)?,
            draws: row.get(from + 3)?,
            bonus_used: row.get(from + 4)?,
            wins: row.get(from + 5)?,
            bonus: row.get(from + 6)?,
            more: row.get(from + 7)?,
        })
    }
}

/// The number of the entry that answers a request, unless it is forgotten. `waiting` is the
/// request's row if it is not in the table yet.
pub(super) fn answering(
    db: &Connection,
    waiting: Option<Row>,
    key: &Key,
) -> rusqlite::Result<Option<u64>> {
    if let Some(Row::Remembered(sequence)) = waiting
        && sequence > forgotten(db)?
    {
        return Ok(Some(sequence));
    }
    let (user, request) = key.parts();
    let sql = "SELECT sequence FROM users WHERE campaign = ?1 AND user = ?2 AND request = ?3";
    let mut statement = db.prepare_cached(sql)?;
    let found = statement.query_row(params![key.campaign, user, request], |row| row.get(0));
    match found.optional()? {
        Some(sequence) if sequence > forgotten(db)? => Ok(Some(sequence)),
        _ => Ok(None),
    }
}

/// The number of the entry up to which requests are forgotten.
pub(super) fn forgotten(db: &Connection) -> rusqlite::Result<u64> {
    let sql =
        "SELECT COALESCE((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'forgotten'), 0)";
    db.prepare_cached(sql)?.query_row([], |row| row.get(0))
}

/// Writes a row to the table, or deletes a request that is forgotten.
pub(super) fn write_row(
    db: &Connection,
    key: &Key,
    row: &Row,
    forgotten: u64,
) -> rusqlite::Result<()> {
    let (user, request) = key.parts();
    match row {
        Row::Remembered(sequence) if *sequence <= forgotten => {
            db.prepare_cached(
                "DELETE FROM users
                 WHERE campaign = ?1 AND user = ?2 AND request = ?3 AND sequence <= ?4",
            )?
            .execute(params![key.campaign, user, request, forgotten])?;
        }
        Row::Remembered(sequence) => {
            db.prepare_cached(
                "INSERT OR REPLACE INTO users (campaign, user, request, sequence)
                 VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![key.campaign, user, request, sequence])?;
        }
        Row::Record(record) => {
            db.prepare_cached(
                "INSERT OR REPLACE INTO users
                 (campaign, user, request, day, free_today, paid_today, draws, bonus_used, wins,
                  bonus, more)
                 VALUES (?1, ?2, '', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                key.campaign,
                user,
                record.day,
                record.free_today,
                record.paid_today,
                record.draws,
                record.bonus_used,
                record.wins,
                record.bonus,
                record.more
            ])?;
        }
    }
    Ok(())
}
