//! Store and sink contradict each other: nothing more of the partition is settled until someone has
//! looked. The sink keeps each contradiction in its table `quarantine`.

use thiserror::Error;

/// The name of a contradiction, for logs, alerts and the column `alarm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// Entries are missing between the last settled one and what the store has.
    Gap,
    /// The store has lost the last settled entry.
    RolledBack,
    /// The store has other contents under the number of the last settled entry.
    Changed,
    /// An entry won a prize that its campaign's version does not have.
    UnknownPrize,
}

impl Alarm {
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gap => "LEDGER_GAP",
            Self::RolledBack => "LEDGER_ROLLED_BACK",
            Self::Changed => "LEDGER_CHANGED",
            Self::UnknownPrize => "LEDGER_UNKNOWN_PRIZE",
        }
    }
}

/// A contradiction of a partition.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}: store and sink contradict each other: {detail}", .alarm.name())]
pub struct Contradiction {
    /// Its kind.
    pub alarm: Alarm,
    /// The partition.
    pub partition: u32,
    /// The last settled entry; 0 if nothing is settled.
    pub sequence: u64,
    /// For people.
    pub detail: String,
}
