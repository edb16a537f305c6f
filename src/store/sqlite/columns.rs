//! Values, ledger entries and definitions as columns hold them.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params, types::FromSql};

use crate::{
    model::{Campaign, CampaignId, EnvelopeId, Moment, convert},
    store::{LedgerId, Refusal, Result, StoreError, Subject, entry::Entry},
};

/// The one partition of an embedded store.
pub(super) const PARTITION: u32 = 0;

/// Reads one entry of the ledger.
pub(super) fn entry(db: &Connection, sequence: u64) -> Result<Option<Entry>> {
    let found = db
        .prepare_cached(
            "SELECT sequence, at, body, (SELECT id FROM campaigns WHERE no = campaign), envelope, \
             number, fork FROM ledger
             WHERE sequence = ?1",
        )?
        .query_row([sequence], entry_columns)
        .optional()?;
    found.map(read_entry).transpose()
}

/// Columns of an entry: sequence, moment, body, campaign id, envelope id, number, mark of the fork.
pub(super) type EntryColumns = (
    u64,
    Moment,
    String,
    Option<String>,
    Option<String>,
    Option<u64>,
    u32,
);

/// Reads the columns of an entry.
pub(super) fn entry_columns(row: &Row<'_>) -> rusqlite::Result<EntryColumns> {
    Ok((
        row.get(0)?,
        moment(row, 1)?,
        row.get(2)?,
        row.get(3)?,
        row.get(4)?,
        row.get(5)?,
        row.get(6)?,
    ))
}

/// The mark of the current fork; 0 unless a backup was restored.
pub(super) fn fork_mark(db: &Connection) -> rusqlite::Result<u32> {
    let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'fork'";
    let found = db.prepare_cached(sql)?.query_row([], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(0))
}

/// The name of an entry.
pub(super) fn ledger_id(sequence: u64) -> LedgerId {
    LedgerId {
        partition: PARTITION,
        sequence,
    }
}

/// Makes an entry of its columns.
pub(super) fn read_entry(columns: EntryColumns) -> Result<Entry> {
    let (sequence, at, body, campaign, envelope, number, fork) = columns;
    let subject = match (campaign, envelope) {
        (_, Some(id)) => EnvelopeId::parse("envelope", &id).map(Subject::Envelope),
        (Some(id), None) => CampaignId::parse("campaign", &id).map(Subject::Campaign),
        (None, None) => Ok(Subject::Partition),
    };
    Ok(Entry {
        id: ledger_id(sequence),
        number,
        fork,
        at,
        subject: subject.map_err(|problem| StoreError::corrupt(problem.message))?,
        body: from_json(&body)?,
    })
}

/// A version's definition.
pub(super) fn definition(db: &Connection, campaign: i64, version: u32) -> Result<Arc<Campaign>> {
    let bytes: Vec<u8> = db
        .prepare_cached("SELECT definition FROM versions WHERE campaign = ?1 AND version = ?2")?
        .query_row(params![campaign, version], |row| row.get(0))
        .optional()?
        .ok_or(Refusal::VersionNotFound(version))?;
    let campaign =
        convert::decode(&bytes).map_err(|problems| StoreError::corrupt(problems.to_string()))?;
    Ok(Arc::new(campaign))
}

/// A moment column.
pub(super) fn moment(row: &Row<'_>, column: usize) -> rusqlite::Result<Moment> {
    row.get(column).map(Moment::from_micros)
}

/// A value as the text of a JSON column.
pub(super) fn to_json<T: serde::Serialize>(value: &T) -> String {
    // Only maps with keys that are not text fail, and there are none.
    serde_json::to_string(value).expect("what is stored can be written as JSON")
}

/// The value of a JSON column.
pub(super) fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::corrupt(format!("a stored text does not read back: {error}")))
}

/// A single value of a query that always has a row.
pub(super) fn scalar<T: FromSql>(
    db: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<T> {
    Ok(db
        .prepare_cached(sql)?
        .query_row(params, |row| row.get(0))?)
}
