//! Rows of the table `users`: the record of each user, and the requests that are remembered.
//!
//! The latest request of a user is remembered in the row of the user's record: most users draw once
//! or twice, so most have one row. Requests before it have rows of their own.

use rusqlite::{Connection, OptionalExtension as _, Row as DbRow, params};

use crate::model::{RequestId, UserId};

/// The key of a row, in the order of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) campaign: i64,
    /// The first bytes of the name as numbers, so that most comparisons need no more than the key
    /// itself: hundreds of thousands of keys do not fit into a processor's caches with their names.
    prefix: [u64; 2],
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
        let number = |from: usize| {
            let mut bytes = [0; 8];
            for (byte, of_name) in bytes.iter_mut().zip(name.bytes().skip(from)) {
                *byte = of_name;
            }
            u64::from_be_bytes(bytes)
        };
        Self {
            campaign,
            prefix: [number(0), number(8)],
            name,
        }
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
    /// A request before the user's latest, or any that was made before version 20 of the schema:
    /// the number of the ledger entry that answers it. If the request is forgotten, it may be the
    /// latest too, and the table may have a later one under the same key.
    Remembered(u64),
}

/// The latest request of a user that is remembered. It may be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Latest {
    pub(super) request: Box<str>,
    /// The number of the ledger entry that answers it.
    pub(super) sequence: u64,
}

/// The columns of a user's row: the record, and the latest request.
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
    pub(super) latest: Option<Latest>,
}

impl Columns {
    /// Reads them from here on; the last two are the latest request and its number.
    pub(super) fn read(row: &DbRow<'_>, from: usize) -> rusqlite::Result<Self> {
        let request: Option<Box<str>> = row.get(from + 8)?;
        let latest = match request.filter(|request| !request.is_empty()) {
            Some(request) => Some(Latest {
                request,
                sequence: row.get(from + 9)?,
            }),
            None => None,
        };
        Ok(Self {
            day: row.get(from)?,
            free_today: row.get(from + 1)?,
            paid_today: row.get(from + 2)?,
            draws: row.get(from + 3)?,
            bonus_used: row.get(from + 4)?,
            wins: row.get(from + 5)?,
            bonus: row.get(from + 6)?,
            more: row.get(from + 7)?,
            latest,
        })
    }
}

/// A user's row; none for a user never seen. `waiting` is it if it is not in the table yet.
pub(super) fn user_row(
    db: &Connection,
    waiting: Option<Row>,
    key: &Key,
) -> rusqlite::Result<Option<Box<Columns>>> {
    if let Some(Row::Record(columns)) = waiting {
        return Ok(Some(columns));
    }
    let (user, _) = key.parts();
    let sql = "SELECT day, free_today, paid_today, draws, bonus_used, wins, bonus, more,
                      latest, sequence
               FROM users WHERE campaign = ?1 AND user = ?2 AND request = ''";
    let mut statement = db.prepare_cached(sql)?;
    let found = statement.query_row(params![key.campaign, user], |row| Columns::read(row, 0));
    Ok(found.optional()?.map(Box::new))
}

/// The number of the entry that answers a request, unless it is forgotten. `user` is the user's
/// row: without one there was no draw. `waiting` is the request's own row, if it is not in the
/// table yet. It is looked up after the user's: a request that is no longer the latest has its own
/// row from the same commit on.
pub(super) fn answering(
    db: &Connection,
    user: &Columns,
    waiting: Option<Row>,
    key: &Key,
) -> rusqlite::Result<Option<u64>> {
    let (_, request) = key.parts();
    if let Some(latest) = &user.latest
        && *latest.request == *request
    {
        let is_kept = latest.sequence > forgotten(db)?;
        return Ok(is_kept.then_some(latest.sequence));
    }
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

/// Writes a row to the table, or removes a request that is forgotten.
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
            db.prepare_cached(
                "UPDATE users SET latest = NULL, sequence = NULL
                 WHERE campaign = ?1 AND user = ?2 AND request = '' AND latest = ?3
                  AND sequence <= ?4",
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
            let is_kept = |latest: &&Latest| latest.sequence > forgotten;
            let latest = record.latest.as_ref().filter(is_kept);
            db.prepare_cached(
                "INSERT OR REPLACE INTO users
                 (campaign, user, request, day, free_today, paid_today, draws, bonus_used, wins,
                  bonus, more, latest, sequence)
                 VALUES (?1, ?2, '', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
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
                record.more,
                latest.map(|latest| &*latest.request),
                latest.map(|latest| latest.sequence),
            ])?;
        }
    }
    Ok(())
}
