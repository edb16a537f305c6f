//! The order of the ledger's entries (P6).

use std::collections::BTreeMap;

use tombola::store::{Entry, entry::Body};

/// The sequence has no gaps except those of forks, and time never steps back (P6).
pub fn check_sequence(entries: &[Entry]) {
    for part in entries.chunk_by(|a, b| a.id.partition == b.id.partition) {
        let mut last = 0;
        for entry in part {
            let sequence = entry.id.sequence;
            if let Body::Forked { base, .. } = &entry.body {
                assert_eq!(*base, last, "a fork names the last entry before it");
                assert!(sequence > last + (1 << 20), "a fork jumps far");
            } else {
                assert_eq!(sequence, last + 1, "the ledger has no gap");
            }
            last = sequence;
        }
        let in_order = part.is_sorted_by_key(|entry| entry.at);
        assert!(in_order, "the ledger's time never steps back");
    }
}

/// The numbers of a campaign's entries have no gap, nor have those of the other entries of a
/// partition; only entries of an earlier version, which come first, have none. Each entry is of the
/// fork that was recorded last (P6).
pub fn check_numbers(entries: &[Entry]) {
    let mut last = BTreeMap::new();
    let mut forks = BTreeMap::new();
    for entry in entries {
        let partition = entry.id.partition;
        if let Body::Forked { mark, .. } = &entry.body {
            forks.insert(partition, *mark);
        }
        let fork = forks.get(&partition).copied().unwrap_or(0);
        assert_eq!(entry.fork, fork, "{entry:?}");
        let last = last
            .entry((partition, entry.subject.campaign()))
            .or_insert(0);
        let number = entry.number.unwrap_or(0);
        assert_eq!(number, *last + u64::from(number > 0), "{entry:?}");
        *last = number;
    }
}
