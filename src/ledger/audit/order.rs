//! The order of entries (P6): numbers follow each other, in each partition and in each campaign.

use std::collections::HashMap;

use super::findings::{Check, Findings};
use crate::{
    model::CampaignId,
    store::{Entry, Subject, entry::Body},
};

/// The last numbers of a partition.
#[derive(Debug, Default)]
pub(super) struct Order {
    sequence: u64,
    /// The last number among entries that are not about a campaign.
    other: Option<u64>,
    campaigns: HashMap<CampaignId, u64>,
}

impl Order {
    /// The number of the last entry.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The next entry of the partition. `orphaned` is the last entry before it that the store has
    /// lost, if there is one: a fork after it may begin further back.
    pub(super) fn take(&mut self, entry: &Entry, orphaned: Option<u64>, findings: &mut Findings) {
        let (last, sequence) = (self.sequence, entry.id.sequence);
        let before = orphaned.map_or(last, |orphaned| orphaned.max(last));
        let follows = match &entry.body {
            Body::Forked { base, .. } => *base == last && sequence > before,
            _ => sequence == last + 1,
        };
        if !follows {
            let text = if sequence <= last {
                format!("entry {sequence} comes after entry {last}")
            } else {
                format!("entry {sequence} follows entry {last}: what is between is missing")
            };
            findings.add(Check::Order, Some(entry.id), text);
        }
        self.sequence = sequence;
        self.take_number(entry, findings);
    }

    /// Numbers within a campaign, or among the other entries, begin with the first entry that has
    /// one.
    fn take_number(&mut self, entry: &Entry, findings: &mut Findings) {
        let last = match &entry.subject {
            Subject::Campaign(id) => self.campaigns.get(id).copied(),
            Subject::Envelope(_) | Subject::Partition => self.other,
        };
        let subject = || match &entry.subject {
            Subject::Campaign(id) => format!("campaign {id}"),
            Subject::Envelope(_) | Subject::Partition => {
                format!("the other entries of partition {}", entry.id.partition)
            }
        };
        match (last, entry.number) {
            (None, None) => return,
            (None, Some(_)) => {}
            (Some(last), Some(number)) if number == last + 1 => {}
            (Some(last), found) => {
                let found = found.map_or("no number".into(), |found| format!("number {found}"));
                findings.add(
                    Check::Order,
                    Some(entry.id),
                    format!("{}: {found} follows number {last}", subject()),
                );
            }
        }
        let Some(number) = entry.number else { return };
        match &entry.subject {
            Subject::Campaign(id) => match self.campaigns.get_mut(id) {
                Some(last) => *last = number,
                None => drop(self.campaigns.insert(id.clone(), number)),
            },
            Subject::Envelope(_) | Subject::Partition => self.other = Some(number),
        }
    }
}
