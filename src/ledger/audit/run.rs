//! Feeds an audit with everything that a sink has.

use std::collections::BTreeMap;

use super::{
    Audit, Check, Outcome,
    source::{Source, StoredRow},
};
use crate::{
    ledger::{
        sink::{Cursor, SinkError},
        wins::{Win, draw_of, wins},
    },
    store::{Entry, LedgerId},
};

/// Entries that are read at a time.
const BATCH_ENTRIES: usize = 5_000;

/// Audits everything that is settled. `progress` is called with the number of entries so far.
///
/// # Errors
/// The sink cannot be read.
pub async fn run(
    source: &mut dyn Source,
    mut audit: Audit,
    mut progress: impl FnMut(u64),
) -> Result<Outcome, SinkError> {
    let cursors = source.cursors().await?;
    audit.orphans = source.orphans().await?;
    let mut read = 0;
    for (partition, cursor) in &cursors {
        let mut last = None;
        loop {
            let after = last.as_ref().map_or(0, |row: &StoredRow| row.id.sequence);
            let rows = source.entries(*partition, after, BATCH_ENTRIES).await?;
            // What is settled while the audit runs is left to the next one.
            let rows: Vec<_> = rows
                .into_iter()
                .take_while(|row| row.id.sequence <= cursor.up_to.sequence)
                .collect();
            let Some(end) = rows.last().cloned() else {
                break;
            };
            let (first, last_number) = (after + 1, end.id.sequence);
            let won = source.wins(*partition, first, last_number).await?;
            read += rows.len() as u64;
            take_batch(&mut audit, &rows, won);
            last = Some(end);
            progress(read);
        }
        check_end(&mut audit, cursor, last.as_ref());
    }
    Ok(audit.finish())
}

/// Books a batch, and compares the rows of wins with those that follow from the entries.
fn take_batch(audit: &mut Audit, rows: &[StoredRow], won: Vec<Win>) {
    let mut stored = BTreeMap::<u64, Vec<Win>>::new();
    for win in won {
        stored.entry(win.sequence).or_default().push(win);
    }
    for row in rows {
        let entry = match row.entry() {
            Ok(entry) => entry,
            Err(cause) => {
                audit.note(
                    Check::Sink,
                    Some(row.id),
                    format!("cannot be read: {cause}"),
                );
                continue;
            }
        };
        if entry.body.kind() != row.kind {
            let text = format!(
                "is `{}` by its bytes, and `{}` by its column",
                entry.body.kind(),
                row.kind
            );
            audit.note(Check::Sink, Some(row.id), text);
        }
        audit.take(&entry);
        compare_wins(
            audit,
            &entry,
            stored.remove(&row.id.sequence).unwrap_or_default(),
        );
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

fn compare_wins(audit: &mut Audit, entry: &Entry, stored: Vec<Win>) {
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
            .zip(&stored)
            .any(|(expected, stored)| !same_win(expected, stored));
    if differs {
        let text = "the rows of its wins are not those that the entry says";
        audit.note(Check::Sink, Some(entry.id), text);
    }
}

/// Whether both are the same win, apart from the ids of people: an entry may have pseudonyms.
fn same_win(one: &Win, other: &Win) -> bool {
    let anonymous = |win: &Win| Win {
        user: String::new(),
        request: String::new(),
        ..win.clone()
    };
    anonymous(one) == anonymous(other)
}

/// The last entry must be the one that the cursor names.
fn check_end(audit: &mut Audit, cursor: &Cursor, last: Option<&StoredRow>) {
    let settled = cursor.up_to.sequence;
    let found = last.map_or(0, |row| row.id.sequence);
    if found != settled {
        let text = format!(
            "partition {} is settled up to entry {settled}, and the last entry is {found}",
            cursor.partition
        );
        audit.note(Check::Sink, None, text);
    }
}
