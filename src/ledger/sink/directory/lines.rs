//! The lines: entries, cursors, salts and contradictions as JSON objects.

use serde::{Deserialize, Serialize};

use crate::{
    chance::{Salt, hex, unhex},
    ledger::{
        chain::Chain,
        contradiction::Contradiction,
        entry::StoredEntry,
        sink::{Batch, Cursor},
        wins::Win,
    },
    model::Moment,
    store::SettledUpTo,
};

/// The first line of each file.
#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    /// The store's id.
    pub(super) store: String,
    /// The form of the lines.
    pub(super) lines: u32,
    /// How far each partition was settled when the file was begun.
    pub(super) cursors: Vec<CursorLine>,
}

/// The form of the lines that this version writes.
pub(super) const LINES: u32 = 1;

/// The last line of a batch.
#[derive(Serialize, Deserialize)]
pub(super) struct CursorLine {
    /// The partition.
    pub(super) cursor: u32,
    next_sequence: u64,
    fork: String,
    at: i64,
    format: i16,
    digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chain: Option<ChainPart>,
    /// The first and the last of the settled entries that the store has lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    orphans: Option<(u64, u64)>,
}

/// The running digest of entries.
#[derive(Serialize, Deserialize)]
struct ChainPart {
    first: u64,
    last: u64,
    digest: String,
}

impl ChainPart {
    fn of(chain: &Chain) -> Self {
        Self {
            first: chain.first,
            last: chain.last,
            digest: hex(&chain.digest),
        }
    }

    fn chain(&self) -> Option<Chain> {
        Some(Chain {
            first: self.first,
            last: self.last,
            digest: unhex(&self.digest)?.try_into().ok()?,
        })
    }
}

impl CursorLine {
    pub(super) fn of(cursor: &Cursor, orphans: Option<(u64, u64)>) -> Self {
        Self {
            cursor: cursor.partition,
            next_sequence: cursor.up_to.sequence + 1,
            fork: cursor.up_to.fork.clone(),
            at: cursor.at.as_micros(),
            format: cursor.format,
            digest: hex(&cursor.digest),
            chain: cursor.chain.as_ref().map(ChainPart::of),
            orphans,
        }
    }

    /// The cursor; none if its number or its digest is none.
    pub(super) fn cursor(&self) -> Option<Cursor> {
        Some(Cursor {
            partition: self.cursor,
            up_to: SettledUpTo {
                sequence: self.next_sequence.checked_sub(1)?,
                fork: self.fork.clone(),
            },
            at: Moment::from_micros(self.at),
            format: self.format,
            digest: unhex(&self.digest)?,
            chain: self.chain.as_ref().and_then(ChainPart::chain),
        })
    }
}

/// A line of the file of salts.
#[derive(Serialize, Deserialize)]
pub(super) struct SaltLine {
    pub(super) partition: u32,
    pub(super) campaign: String,
    salt: String,
}

impl SaltLine {
    pub(super) fn of(partition: u32, campaign: &str, salt: &Salt) -> Self {
        Self {
            partition,
            campaign: campaign.to_owned(),
            salt: hex(&salt.0),
        }
    }

    pub(super) fn salt(&self) -> Option<Salt> {
        unhex(&self.salt)?.try_into().ok().map(Salt)
    }
}

/// The columns of an entry; its body follows them.
#[derive(Serialize)]
struct EntryLine<'a> {
    partition: u32,
    sequence: u64,
    at: i64,
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    campaign: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    envelope: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    people: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    fork: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wins: Vec<WinPart<'a>>,
    format: i16,
}

/// A unit that the entry's draw won.
#[derive(Serialize)]
struct WinPart<'a> {
    number: i16,
    version: u32,
    pool: &'a str,
    prize: &'a str,
    unit_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    release_at: Option<i64>,
}

impl<'a> WinPart<'a> {
    fn of(win: &'a Win) -> Self {
        Self {
            number: win.number,
            version: win.version,
            pool: &win.pool,
            prize: &win.prize,
            unit_id: &win.unit,
            release_at: win.release.map(Moment::as_micros),
        }
    }
}

/// The lines of a batch with the cursor as the last one.
pub(super) fn batch(batch: &Batch, after: &Cursor) -> Vec<u8> {
    let mut lines = Vec::new();
    let mut wins = batch.wins.iter().peekable();
    for entry in &batch.entries {
        let mut own = Vec::new();
        while let Some(win) = wins.next_if(|win| win.sequence == entry.sequence) {
            own.push(WinPart::of(win));
        }
        push_entry(&mut lines, entry, own);
    }
    lines.extend(line(&CursorLine::of(after, batch.orphans)));
    lines
}

/// Adds an entry. Its bytes, which are JSON without line breaks, stand in the line as they are.
fn push_entry(lines: &mut Vec<u8>, entry: &StoredEntry, wins: Vec<WinPart<'_>>) {
    let mut columns = line(&EntryLine {
        partition: entry.partition,
        sequence: entry.sequence,
        at: entry.at.as_micros(),
        kind: entry.kind,
        campaign: entry.campaign.as_deref(),
        envelope: entry.envelope.as_deref(),
        user_id: entry.user.as_deref(),
        request_id: entry.request.as_deref(),
        people: entry.people.as_deref(),
        number: entry.number,
        fork: entry.fork,
        wins,
        format: entry.format,
    });
    columns.truncate(columns.len() - b"}\n".len());
    lines.extend(columns);
    lines.extend(b",\"body\":");
    lines.extend(&entry.body);
    lines.extend(b"}\n");
}

/// The line of a contradiction.
pub(super) fn quarantine(found: &Contradiction) -> Vec<u8> {
    line(&serde_json::json!({
        "partition": found.partition,
        "sequence": found.sequence,
        "seen_at": Moment::from_timestamp(jiff::Timestamp::now()).as_micros(),
        "alarm": found.alarm.name(),
        "detail": found.detail,
    }))
}

/// A value as a line.
pub(super) fn line<T: Serialize>(value: &T) -> Vec<u8> {
    // Only maps with keys that are not text fail, and there are none.
    let mut line = serde_json::to_vec(value).expect("a line can be written as JSON");
    line.push(b'\n');
    line
}
