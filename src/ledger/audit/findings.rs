//! What an audit found wrong: all of it counted, the first of each promise kept, by entry.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::store::LedgerId;

/// Findings of a promise that are kept with their texts.
const SHOWN_MAX: usize = 20;

/// What an audit checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// P1: a unit leaves its pool once, and only if it was put there. A packet has one user.
    Units,
    /// P2: nothing vanishes. Units and amounts add up, in the entries and in the store.
    Sums,
    /// P5: no draw was made beyond a limit.
    Limits,
    /// P6: entries are complete and in order.
    Order,
    /// P7: no unit is won before its release.
    Release,
    /// What users get of personal pools and of guarantees follows from the seed, their draws and
    /// nothing else.
    Chance,
    /// Every change that needed the approval of another identity has it.
    Approval,
    /// The sink keeps what was settled: nothing was changed, removed or added since.
    Sink,
}

impl Check {
    /// All checks, in the order of a report.
    pub const ALL: [Self; 8] = [
        Self::Units,
        Self::Sums,
        Self::Limits,
        Self::Order,
        Self::Release,
        Self::Chance,
        Self::Approval,
        Self::Sink,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Units => "units",
            Self::Sums => "sums",
            Self::Limits => "limits",
            Self::Order => "order",
            Self::Release => "release",
            Self::Chance => "chance",
            Self::Approval => "approval",
            Self::Sink => "sink",
        }
    }

    /// What holds if nothing is found.
    pub fn promise(self) -> &'static str {
        match self {
            Self::Units => "every unit and every packet has at most one winner",
            Self::Sums => "every unit and every amount is accounted for",
            Self::Limits => "no limit was exceeded",
            Self::Order => "the entries are complete and in order",
            Self::Release => "no unit was won before its release",
            Self::Chance => {
                "guarantees are kept, and draws of personal pools follow from the seed where it \
                 is known"
            }
            Self::Approval => "every change that needs an approval has one",
            Self::Sink => "what was settled is unchanged",
        }
    }
}

/// Something that does not add up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which promise is broken.
    pub check: Check,
    /// The partition of the entry at which it was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// The number of that entry in its partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// What was seen, and of which campaign or envelope.
    pub text: String,
}

/// What was found so far.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    shown: BTreeMap<Check, Vec<Finding>>,
    counts: BTreeMap<Check, u64>,
}

impl Findings {
    /// Adds a finding; `at` is the entry at which it was seen.
    pub fn add(&mut self, check: Check, at: Option<LedgerId>, text: impl Into<String>) {
        *self.counts.entry(check).or_default() += 1;
        let shown = self.shown.entry(check).or_default();
        let (partition, sequence) = at.map(|id| (id.partition, id.sequence)).unzip();
        // Those without an entry come first.
        let index = shown
            .partition_point(|other| (other.partition, other.sequence) <= (partition, sequence));
        if index < SHOWN_MAX {
            shown.truncate(SHOWN_MAX - 1);
            let finding = Finding {
                check,
                partition,
                sequence,
                text: text.into(),
            };
            shown.insert(index, finding);
        }
    }

    /// How many there are of a check.
    pub fn count(&self, check: Check) -> u64 {
        self.counts.get(&check).copied().unwrap_or_default()
    }

    /// The first ones of each check, in the order of [`Check::ALL`].
    pub fn shown(&self) -> impl Iterator<Item = &Finding> {
        self.shown.values().flatten()
    }
}
