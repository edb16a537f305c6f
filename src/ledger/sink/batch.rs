//! What is written at once, and how far a partition is settled afterwards.

use crate::{
    chance::Salt,
    ledger::{
        activity,
        chain::{Chain, Link},
        deliveries::DeliveryChange,
        entry::{OWN_FORMAT, StoredEntry},
        wins::Win,
    },
    model::Moment,
    store::SettledUpTo,
};

/// How far a partition is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The partition.
    pub partition: u32,
    /// The last entry that is settled, and the fork under which it was read.
    pub up_to: SettledUpTo,
    /// When that entry was written.
    pub at: Moment,
    /// The form of which there is a digest.
    pub format: i16,
    /// SHA-256 of its bytes in this form.
    pub digest: Vec<u8>,
    /// The running digest of the entries; none if only versions without it have settled.
    pub chain: Option<Chain>,
}

impl Cursor {
    /// The running digest, if it goes up to the last entry: a version without it may have settled
    /// some after it.
    fn whole_chain(&self) -> Option<Chain> {
        self.chain.filter(|chain| chain.last == self.up_to.sequence)
    }
}

/// Entries of a partition that are written together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The partition.
    pub partition: u32,
    /// The fork under which they were read.
    pub fork: String,
    /// In order, at least one.
    pub entries: Vec<StoredEntry>,
    /// SHA-256 of the last one in the store's own form.
    pub digest: [u8; 32],
    /// Salts that the sink does not have, by campaign.
    pub salts: Vec<(String, Salt)>,
    /// What they won, in the order of the entries.
    pub wins: Vec<Win>,
    /// What became of wins, of this batch and of earlier ones, in order.
    pub deliveries: Vec<DeliveryChange>,
    /// What came of draws, by campaign and hour.
    pub activity: activity::Sums,
    /// Prizes of the versions that they brought into force.
    pub prizes: Vec<PrizeRow>,
    /// The first and the last of the settled entries that the store has lost.
    pub orphans: Option<(u64, u64)>,
}

impl Batch {
    /// The cursor once the batch is written; none for an empty one.
    pub fn cursor(&self, before: Option<&Cursor>) -> Option<Cursor> {
        let (first, last) = (self.entries.first()?, self.entries.last()?);
        let chain = before.and_then(Cursor::whole_chain);
        let mut chain = chain.unwrap_or_else(|| Chain::begin(first.sequence));
        for entry in &self.entries {
            chain.add(&Link::from(entry));
        }
        Some(Cursor {
            partition: self.partition,
            up_to: SettledUpTo {
                fork: self.fork.clone(),
                sequence: last.sequence,
            },
            at: last.at,
            format: OWN_FORMAT,
            digest: self.digest.to_vec(),
            chain: Some(chain),
        })
    }
}

/// A prize of a version of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrizeRow {
    /// The campaign's id.
    pub campaign: String,
    /// The campaign's version.
    pub version: u32,
    /// The prize's id.
    pub prize: String,
    /// For people.
    pub name: String,
    /// Units given to the campaign.
    pub stock: u64,
    /// The worth of a unit: currency, whole units of it, billionths of a unit.
    pub value: Option<(String, i64, i32)>,
}
