//! The running digest of a partition's settled entries, so that an audit finds any changed byte,
//! and any entry that was removed, added or moved. `docs/ledger-format.md` describes it.
//!
//! Each step is SHA-256 of the digest before and of everything of the entry that is never erased.

use sha2::{Digest as _, Sha256};

use super::entry::StoredEntry;
use crate::model::Moment;

/// A digest over all entries of a partition from one number to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The first entry in it: 1, or the first one after entries that a version without chains has
    /// settled.
    pub first: u64,
    /// The last entry in it.
    pub last: u64,
    /// SHA-256.
    pub digest: [u8; 32],
}

/// What the digest covers of an entry: its bytes, and the columns beside them that stay.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// The partition.
    pub partition: u32,
    /// The entry's number in its partition.
    pub sequence: u64,
    /// When it was written.
    pub at: Moment,
    /// What happened.
    pub kind: &'a str,
    /// The campaign that it is about.
    pub campaign: Option<&'a str>,
    /// The envelope that it is about.
    pub envelope: Option<&'a str>,
    /// Its number in its campaign.
    pub number: Option<u64>,
    /// Mark of the store's fork.
    pub fork: u32,
    /// The form of its bytes.
    pub format: i16,
    /// Its bytes.
    pub body: &'a [u8],
}

impl Chain {
    /// An empty chain whose first entry has this number.
    pub fn begin(first: u64) -> Self {
        Self {
            first,
            last: first.saturating_sub(1),
            digest: [0; 32],
        }
    }

    /// Adds the next entry. The digest covers the list of the digest before and the entry's
    /// columns; each part follows its length as 8 bytes, little-endian. Numbers are decimal, and
    /// what an entry does not have is empty.
    pub fn add(&mut self, link: &Link<'_>) {
        let number = link.number.map(|number| number.to_string());
        let mut sha = Sha256::new();
        for part in [
            &self.digest[..],
            link.partition.to_string().as_bytes(),
            link.sequence.to_string().as_bytes(),
            link.at.as_micros().to_string().as_bytes(),
            link.kind.as_bytes(),
            link.campaign.unwrap_or_default().as_bytes(),
            link.envelope.unwrap_or_default().as_bytes(),
            number.as_deref().unwrap_or_default().as_bytes(),
            link.fork.to_string().as_bytes(),
            link.format.to_string().as_bytes(),
            link.body,
        ] {
            sha.update((part.len() as u64).to_le_bytes());
            sha.update(part);
        }
        self.digest = sha.finalize().into();
        self.last = link.sequence;
    }

    /// Whether an entry is one of those that the digest covers.
    pub fn covers(&self, sequence: u64) -> bool {
        (self.first..=self.last).contains(&sequence)
    }
}

impl<'a> From<&'a StoredEntry> for Link<'a> {
    fn from(entry: &'a StoredEntry) -> Self {
        Self {
            partition: entry.partition,
            sequence: entry.sequence,
            at: entry.at,
            kind: entry.kind,
            campaign: entry.campaign.as_deref(),
            envelope: entry.envelope.as_deref(),
            number: entry.number,
            fork: entry.fork,
            format: entry.format,
            body: &entry.body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::hex;

    fn link(sequence: u64) -> Link<'static> {
        Link {
            partition: 2,
            sequence,
            at: Moment::from_micros(1_795_960_801_000_001),
            kind: "draw",
            campaign: Some("spring"),
            envelope: None,
            number: Some(5),
            fork: 0,
            format: 2,
            body: b"{}",
        }
    }

    #[test]
    fn the_digest_never_changes() {
        let mut chain = Chain::begin(7);
        chain.add(&link(7));
        chain.add(&link(8));
        assert_eq!((chain.first, chain.last), (7, 8));
        assert_eq!(
            hex(&chain.digest),
            "da6a4678aa0815f8d42cb5d419b4377cf8f245ecfc2b09764e4482e5f62128c5"
        );
    }

    #[test]
    fn every_column_counts() {
        let digest = |link: Link<'_>| {
            let mut chain = Chain::begin(7);
            chain.add(&link);
            chain.digest
        };
        let base = link(7);
        let changed = [
            Link {
                partition: 3,
                ..base
            },
            link(8),
            Link {
                at: Moment::EPOCH,
                ..base
            },
            Link {
                kind: "grab",
                ..base
            },
            Link {
                campaign: Some("sprin"),
                ..base
            },
            Link {
                campaign: None,
                envelope: Some("spring"),
                ..base
            },
            Link {
                number: None,
                ..base
            },
            Link { fork: 1, ..base },
            Link { format: 1, ..base },
            Link {
                body: b"[]",
                ..base
            },
        ];
        for other in changed {
            assert_ne!(digest(other), digest(base), "{other:?}");
        }
    }
}
