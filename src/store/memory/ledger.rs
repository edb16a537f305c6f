//! The ledger: every entry, from the first one on; or, in a simulation, none.

use std::{collections::HashMap, sync::Arc};

use crate::{
    model::{CampaignId, Moment},
    store::{
        Entry, LedgerId, Subject,
        entry::{Body, DrawEntry},
    },
};

/// The one partition of a store in memory.
pub(super) const PARTITION: u32 = 0;

/// An entry; the one of a draw is shared with the memory of draws and with answers.
pub(super) struct Record {
    number: u64,
    pub(super) at: Moment,
    pub(super) subject: Subject,
    pub(super) what: What,
}

/// The body of an entry.
pub(super) enum What {
    Draw(Arc<DrawEntry>),
    Other(Box<Body>),
}

/// All entries in order.
#[derive(Default)]
pub(super) struct Ledger {
    records: Vec<Record>,
    /// The number of the last entry, if entries are numbered and not kept.
    unkept: Option<u64>,
    /// Entries by campaign; of none: those of envelopes.
    counts: HashMap<Option<CampaignId>, u64>,
}

impl Ledger {
    /// A ledger that numbers entries and keeps none.
    pub(super) fn forgetful() -> Self {
        Self {
            unkept: Some(0),
            ..Self::default()
        }
    }

    /// Appends an entry.
    pub(super) fn append(&mut self, at: Moment, subject: Subject, what: What) -> LedgerId {
        if let Some(last) = &mut self.unkept {
            *last += 1;
            return id(*last);
        }
        let count = self.counts.entry(subject.campaign().cloned()).or_default();
        *count += 1;
        let number = *count;
        self.records.push(Record {
            number,
            at,
            subject,
            what,
        });
        id(self.last())
    }

    /// The number of a campaign's last entry.
    pub(super) fn entries_of(&self, campaign: &CampaignId) -> u64 {
        let count = self.counts.get(&Some(campaign.clone()));
        count.copied().unwrap_or(0)
    }

    /// Whether entries are kept.
    pub(super) fn is_kept(&self) -> bool {
        self.unkept.is_none()
    }

    /// The number of the last entry.
    pub(super) fn last(&self) -> u64 {
        self.unkept.unwrap_or(self.records.len() as u64)
    }

    /// The entry of this number.
    pub(super) fn get(&self, sequence: u64) -> Option<&Record> {
        let index = usize::try_from(sequence.checked_sub(1)?).ok()?;
        self.records.get(index)
    }

    /// Entries after this number, at most `limit`.
    pub(super) fn after(&self, sequence: u64, limit: usize) -> Vec<Entry> {
        let numbered = (sequence + 1..).map_while(|sequence| Some((sequence, self.get(sequence)?)));
        let entries = numbered.take(limit);
        entries
            .map(|(sequence, record)| record.entry(sequence))
            .collect()
    }
}

impl Record {
    fn entry(&self, sequence: u64) -> Entry {
        Entry {
            id: id(sequence),
            number: Some(self.number),
            fork: 0,
            at: self.at,
            subject: self.subject.clone(),
            body: match &self.what {
                What::Draw(draw) => Body::Draw(DrawEntry::clone(draw)),
                What::Other(body) => Body::clone(body),
            },
        }
    }
}

/// The name of the entry of this number.
pub(super) fn id(sequence: u64) -> LedgerId {
    LedgerId {
        partition: PARTITION,
        sequence,
    }
}
