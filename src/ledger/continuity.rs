//! The comparison of what a store has with how far it is settled: nothing is settled after a gap,
//! or on top of entries that the store has lost or changed.
//!
//! It knows the cursor and the entries that were read, and neither reads nor writes.

use super::{
    contradiction::{Alarm, Contradiction},
    entry::{self, OWN_FORMAT},
    sink::Cursor,
};
use crate::store::{Unsettled, entry::Body};

/// Compares what the store has with the cursor: the last settled entry must be the same, and what
/// follows must have no gap but forks. Returns the first and the last of the settled entries that
/// the store has lost, if it went on without them.
pub(super) fn compare(
    cursor: Option<&Cursor>,
    read: &Unsettled,
) -> Result<Option<(u64, u64)>, Contradiction> {
    let settled = cursor.map_or(0, |cursor| cursor.up_to.sequence);
    let mut last = settled;
    let mut orphans = None;
    if let Some(cursor) = cursor {
        orphans = compare_settled(cursor, read)?;
    }
    for (index, entry) in read.entries.iter().enumerate() {
        let sequence = entry.id.sequence;
        let follows = match &entry.body {
            Body::Forked { base, .. } => {
                sequence > last && (*base == last || index == 0 && orphans.is_some())
            }
            _ => sequence == last + 1,
        };
        if !follows {
            let partition = entry.id.partition;
            return Err(Contradiction {
                alarm: Alarm::Gap,
                partition,
                sequence: settled,
                detail: format!(
                    "entry {sequence} of partition {partition} follows entry {last}: what is \
                     between was deleted, or settled into another place"
                ),
            });
        }
        last = sequence;
    }
    Ok(orphans)
}

/// Compares the last settled entry.
fn compare_settled(cursor: &Cursor, read: &Unsettled) -> Result<Option<(u64, u64)>, Contradiction> {
    let settled = cursor.up_to.sequence;
    let name = format!("entry {settled} of partition {}", cursor.partition);
    let contradiction = |alarm, detail| Contradiction {
        alarm,
        partition: cursor.partition,
        sequence: settled,
        detail,
    };
    let Some(entry) = &read.settled else {
        let base = match read.entries.first().map(|entry| &entry.body) {
            Some(Body::Forked { base, .. }) if *base < settled => *base,
            Some(_) => {
                let detail = format!(
                    "{name} is the last one that is settled, and the store has given it up: what \
                     follows it was settled into another place, or is missing here since the sink \
                     was restored"
                );
                return Err(contradiction(Alarm::Gap, detail));
            }
            None => {
                let detail = format!(
                    "{name} is settled and not in the store any more: the store was rolled back, \
                     restore the data that has it"
                );
                return Err(contradiction(Alarm::RolledBack, detail));
            }
        };
        return Ok(Some((base + 1, settled)));
    };
    if cursor.format == OWN_FORMAT && cursor.digest != entry::digest(entry) {
        let detail = format!(
            "{name} is settled with other contents than the store has: the store was rolled back \
             and has gone on, restore the data that has the settled one"
        );
        return Err(contradiction(Alarm::Changed, detail));
    }
    Ok(None)
}

/// The store goes on after an entry that is not settled: what it wrote before that is skipped by
/// the cursor, which is beyond.
pub(super) fn unsettled_base(partition: u32, base: u64, settled: u64) -> Contradiction {
    Contradiction {
        alarm: Alarm::RolledBack,
        partition,
        sequence: settled,
        detail: format!(
            "the store was rolled back and goes on after entry {base} of partition {partition}, \
             which is not settled, though entry {settled} is: restore the data that has both"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::Moment,
        store::{Entry, LedgerId, SettledUpTo, Subject},
    };

    fn written(sequence: u64, body: Body) -> Entry {
        Entry {
            id: LedgerId {
                partition: 0,
                sequence,
            },
            number: Some(sequence),
            fork: 0,
            at: Moment::EPOCH,
            subject: Subject::Partition,
            body,
        }
    }

    fn plain(sequence: u64) -> Entry {
        written(sequence, Body::Closed {})
    }

    fn forked(sequence: u64, base: u64) -> Entry {
        let replid = "a".repeat(40);
        written(
            sequence,
            Body::Forked {
                replid,
                base,
                mark: 1,
            },
        )
    }

    fn cursor(sequence: u64) -> Cursor {
        Cursor {
            partition: 0,
            up_to: SettledUpTo {
                fork: String::new(),
                sequence,
            },
            at: Moment::EPOCH,
            format: OWN_FORMAT,
            digest: entry::digest(&plain(sequence)).to_vec(),
            chain: None,
        }
    }

    fn compared(
        cursor: Option<Cursor>,
        settled: Option<Entry>,
        entries: &[Entry],
    ) -> Option<Option<(u64, u64)>> {
        let read = Unsettled {
            fork: String::new(),
            settled,
            entries: entries.to_vec(),
            has_more: false,
        };
        compare(cursor.as_ref(), &read).ok()
    }

    #[test]
    fn entries_follow_without_a_gap() {
        let fine = Some(None);
        assert_eq!(compared(None, None, &[]), fine);
        assert_eq!(compared(None, None, &[plain(1), plain(2)]), fine);
        assert_eq!(compared(None, None, &[plain(2)]), None);
        assert_eq!(compared(Some(cursor(4)), Some(plain(4)), &[]), fine);
        assert_eq!(compared(Some(cursor(4)), Some(plain(4)), &[plain(5)]), fine);
        assert_eq!(compared(Some(cursor(4)), Some(plain(4)), &[plain(6)]), None);
    }

    #[test]
    fn only_a_fork_that_begins_at_the_last_entry_may_jump() {
        let settled = || (Some(cursor(4)), Some(plain(4)));
        let with = |entries: &[Entry]| compared(settled().0, settled().1, entries);
        assert_eq!(with(&[forked(900, 4), plain(901)]), Some(None));
        assert_eq!(with(&[plain(5), forked(900, 5)]), Some(None));
        assert_eq!(with(&[forked(900, 5)]), None);
        assert_eq!(with(&[forked(900, 3)]), None);
        assert_eq!(with(&[plain(5), forked(900, 4)]), None);
    }

    #[test]
    fn a_store_that_lost_settled_entries_may_go_on_only_by_a_fork_before_them() {
        let lost = |entries: &[Entry]| compared(Some(cursor(4)), None, entries);
        assert_eq!(lost(&[]), None);
        assert_eq!(lost(&[plain(5)]), None);
        assert_eq!(lost(&[forked(900, 4)]), None);
        assert_eq!(lost(&[forked(900, 1), plain(901)]), Some(Some((2, 4))));
        let alarm = |entries: &[Entry]| {
            let read = Unsettled {
                fork: String::new(),
                settled: None,
                entries: entries.to_vec(),
                has_more: false,
            };
            compare(Some(&cursor(4)), &read).unwrap_err().alarm
        };
        assert_eq!(alarm(&[]), Alarm::RolledBack);
        // The sink was restored, and the store has given up what the sink had.
        assert_eq!(alarm(&[plain(9)]), Alarm::Gap);
    }

    #[test]
    fn a_settled_entry_with_other_contents_is_a_contradiction() {
        let other = || forked(4, 3);
        assert_eq!(compared(Some(cursor(4)), Some(other()), &[plain(5)]), None);
        let mut later = cursor(4);
        later.format = OWN_FORMAT + 1;
        assert_eq!(
            compared(Some(later), Some(other()), &[plain(5)]),
            Some(None)
        );
    }
}
