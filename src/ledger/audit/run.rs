//! Feeds an audit with everything that a sink has.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use tokio::task::{JoinHandle, spawn_blocking};

use super::{
    Audit, Check, Outcome, StoreSums,
    names::Names,
    source::{Source, Spans, StoredRow},
};
use crate::{
    ledger::{
        chain::Chain,
        entry::Unreadable,
        removed::RemovedRow,
        sink::{Cursor, SinkError},
        wins::{Win, draw_of, wins},
    },
    store::{Entry, LedgerId},
};

/// Entries that are read at a time.
const BATCH_ENTRIES: usize = 2_000;

/// Audits everything that is settled. `progress` is called with the number of entries so far.
///
/// # Errors
/// The sink cannot be read, or a temporary file cannot be written.
pub async fn run(
    source: &mut dyn Source,
    mut audit: Audit,
    mut progress: impl FnMut(u64),
) -> Result<Outcome, SinkError> {
    // First: all entries up to the head of such a campaign were settled when its row was written.
    for (row, definition) in source.removed().await? {
        take_removed(&mut audit, row, &definition);
    }
    let cursors = source.cursors().await?;
    audit.orphans = source.orphans().await?;
    let mut keeper = Keeper {
        audit,
        names: Names::default(),
        chain: None,
    };
    let mut read = 0;
    for (partition, cursor) in &cursors {
        keeper.chain = cursor.chain.map(|kept| Chain::begin(kept.first));
        let mut last = None::<LedgerId>;
        let mut booking = spawn_blocking(|| Ok(keeper));
        // The next batch is read while this one is booked.
        loop {
            let after = last.map_or(0, |last| last.sequence);
            let mut rows = source.entries(*partition, after, BATCH_ENTRIES).await?;
            if rows.len() == BATCH_ENTRIES {
                leave_last_number(&mut rows);
            }
            // What is settled while the audit runs is left to the next one.
            let rows: Vec<_> = rows
                .into_iter()
                .take_while(|row| row.id.sequence <= cursor.up_to.sequence)
                .collect();
            let Some(end) = rows.last().map(|row| row.id) else {
                break;
            };
            let won = source.wins(*partition, after + 1, end.sequence).await?;
            read += rows.len() as u64;
            last = Some(end);
            let (kept, cursor) = (booked(booking).await?, cursor.clone());
            booking = spawn_blocking(move || kept.take(&cursor, &rows, won));
            progress(read);
        }
        keeper = booked(booking).await?;
        check_end(&mut keeper.audit, cursor, last);
        let chain = keeper.chain.take();
        check_chain(&mut keeper.audit, cursor, chain);
    }
    let spans = source.spans().await?;
    // These are read after the rows, so they count what was settled meanwhile.
    let cursors = source.cursors().await?;
    check_spans(&mut keeper.audit, &spans, &cursors);
    let finished = spawn_blocking(|| keeper.audit.finish());
    booked(finished).await
}

/// What is kept from one batch to the next.
struct Keeper {
    audit: Audit,
    names: Names,
    /// The running digest of the partition.
    chain: Option<Chain>,
}

impl Keeper {
    /// Books a batch.
    fn take(mut self, cursor: &Cursor, rows: &[StoredRow], won: Vec<Win>) -> io::Result<Self> {
        for row in rows {
            add_to_chain(&mut self.audit, cursor, self.chain.as_mut(), row);
        }
        take_batch(&mut self.audit, &mut self.names, rows, won);
        self.audit.check_notes()?;
        Ok(self)
    }
}

/// What a thread has booked.
async fn booked<T>(booking: JoinHandle<io::Result<T>>) -> Result<T, SinkError> {
    match booking.await {
        Ok(booked) => booked.map_err(unwritable),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// A fault of the files for what memory does not hold.
fn unwritable(cause: io::Error) -> SinkError {
    SinkError::Directory {
        path: std::env::temp_dir(),
        cause,
    }
}

/// Leaves the last number of a full batch to the next batch. PostgreSQL can have a number in two
/// months. If a batch ended between these rows, the second one would never be read.
fn leave_last_number(rows: &mut Vec<StoredRow>) {
    let last = rows.last().map(|row| row.id.sequence);
    let before = rows.partition_point(|row| Some(row.id.sequence) < last);
    if before > 0 {
        rows.truncate(before);
    }
}

fn add_to_chain(audit: &mut Audit, cursor: &Cursor, chain: Option<&mut Chain>, row: &StoredRow) {
    let kept = cursor.chain.filter(|kept| kept.covers(row.id.sequence));
    match chain.filter(|_| kept.is_some()) {
        Some(chain) => chain.add(&row.link()),
        None => audit.unchained += 1,
    }
}

/// The running digest of the rows must be the one that was kept.
fn check_chain(audit: &mut Audit, cursor: &Cursor, found: Option<Chain>) {
    let settled = cursor.up_to.sequence;
    audit
        .chains
        .insert(cursor.partition, (cursor.chain, settled));
    if let Some(kept) = cursor.chain
        && found != Some(kept)
    {
        let text = format!(
            "the entries {} to {} of partition {} do not have the digest that was kept of them: \
             something of them was changed",
            kept.first, kept.last, cursor.partition
        );
        audit.note(Check::Sink, None, text);
    }
}

/// Lets the audit compare what is kept of a removed campaign, as it compares what a store says. If
/// the service said something of the campaign, that counts: it says the same, or still has it.
fn take_removed(audit: &mut Audit, row: RemovedRow, definition: &[u8]) {
    let name = row.campaign.clone();
    match row.decode(definition, Vec::new()) {
        Ok(removed) => {
            let id = removed.stats.view.campaign.id.clone();
            let sums = || StoreSums::of(&removed.stats);
            audit.stores.entry(id).or_insert_with(sums);
        }
        Err(cause) => {
            let text =
                format!("what is kept of removed campaign {name} does not read back: {cause}");
            audit.note(Check::Sink, None, text);
        }
    }
}

/// Books a batch, and compares the rows of wins with those that follow from the entries.
fn take_batch(audit: &mut Audit, names: &mut Names, rows: &[StoredRow], won: Vec<Win>) {
    let mut stored = BTreeMap::<u64, Vec<Win>>::new();
    for win in won {
        stored.entry(win.sequence).or_default().push(win);
    }
    for row in rows {
        let wins = stored.remove(&row.id.sequence).unwrap_or_default();
        if let Err(cause) = take_row(audit, names, row, &wins) {
            let text = format!("cannot be read: {cause}");
            audit.note(Check::Sink, Some(row.id), text);
        }
    }
    for (sequence, wins) in stored {
        let partition = wins.first().map_or(0, |win| win.partition);
        let id = LedgerId {
            partition,
            sequence,
        };
        audit.note(
            Check::Sink,
            Some(id),
            "a win is listed of an entry that is not there",
        );
    }
}

fn take_row(
    audit: &mut Audit,
    names: &mut Names,
    row: &StoredRow,
    wins: &[Win],
) -> Result<(), Unreadable> {
    let entry = row.entry()?;
    if entry.body.kind() != row.kind {
        let text = format!(
            "is `{}` by its bytes, and `{}` by its column",
            entry.body.kind(),
            row.kind
        );
        audit.note(Check::Sink, Some(row.id), text);
    }
    let looked = names.look(row, &entry, audit);
    audit.take(&entry);
    compare_wins(audit, row, &entry, wins);
    looked
}

fn compare_wins(audit: &mut Audit, row: &StoredRow, entry: &Entry, stored: &[Win]) {
    let expected = match (entry.subject.campaign(), draw_of(entry)) {
        (Some(id), Some(draw)) => match audit.definition(entry.id.partition, id, draw.version) {
            Some(campaign) => wins(entry, draw, &campaign),
            None => return, // an earlier version wrote no definitions
        },
        _ => Some(Vec::new()),
    };
    let Some(expected) = expected else {
        let text = "won a prize or from a pool that its version does not have";
        audit.note(Check::Sink, Some(entry.id), text);
        return;
    };
    let differs = expected.len() != stored.len()
        || expected
            .iter()
            .zip(stored)
            .any(|(expected, stored)| !is_row_of(row, expected, stored));
    if differs {
        let text = "the rows of its wins are not those that the entry says";
        audit.note(Check::Sink, Some(entry.id), text);
    }
}

/// Whether a row of a win is the one that follows from an entry. It has the clear ids of the
/// entry's row, or the pseudonyms once they are erased.
fn is_row_of(row: &StoredRow, expected: &Win, stored: &Win) -> bool {
    let is_either = |stored: &str, clear: Option<&str>, pseudonym: &str| {
        stored == pseudonym || Some(stored) == clear
    };
    let rest = Win {
        user: stored.user.clone(),
        request: stored.request.clone(),
        ..expected.clone()
    };
    rest == *stored
        && is_either(&stored.user, row.user.as_deref(), &expected.user)
        && is_either(&stored.request, row.request.as_deref(), &expected.request)
}

/// The last entry must be the one that the cursor names.
fn check_end(audit: &mut Audit, cursor: &Cursor, last: Option<LedgerId>) {
    let settled = cursor.up_to.sequence;
    let found = last.map_or(0, |last| last.sequence);
    if found != settled {
        let text = format!(
            "partition {} is settled up to entry {settled}, and the last entry is {found}",
            cursor.partition
        );
        audit.note(Check::Sink, None, text);
    }
}

/// No row may be where no entry is: before the first one, or after the one that the cursor names.
/// Readers would give it all the same.
fn check_spans(audit: &mut Audit, spans: &Spans, cursors: &BTreeMap<u32, Cursor>) {
    for (partition, (first, last)) in spans {
        let cursor = u32::try_from(*partition).ok();
        let cursor = cursor.and_then(|partition| cursors.get(&partition));
        let settled = cursor.map_or(0, |cursor| cursor.up_to.sequence);
        for number in BTreeSet::from([*first, *last]) {
            if u64::try_from(number).is_ok_and(|number| (1..=settled).contains(&number)) {
                continue;
            }
            let text = format!(
                "partition {partition} is settled up to entry {settled}, and a row of `entries` or \
                 `wins` has number {number}"
            );
            audit.note(Check::Sink, None, text);
        }
    }
}
