//! Parts of a store that do not do their work. The others go on.

use std::fmt;

use super::error::StoreError;

/// What a partition does, from well to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartitionState {
    /// It answers and takes writes.
    Serving,
    /// It does not answer, or takes no writes for now.
    Unavailable,
    /// Its data contradict themselves.
    Damaged,
    /// Acknowledged entries are lost, and an operator has to decide.
    Halted,
}

impl PartitionState {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Serving,
        Self::Unavailable,
        Self::Damaged,
        Self::Halted,
    ];

    /// The state of a partition that answers with this error.
    pub fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Halted(_) => Self::Halted,
            StoreError::Corrupt { .. } => Self::Damaged,
            StoreError::Unavailable { .. } | StoreError::Overloaded | StoreError::Refused(_) => {
                Self::Unavailable
            }
        }
    }

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Unavailable => "unavailable",
            Self::Damaged => "damaged",
            Self::Halted => "halted",
        }
    }
}

/// A partition that does not do its work. Its text names the partition and says what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// Which one.
    pub partition: u32,
    /// What it answers.
    pub error: StoreError,
}

impl Trouble {
    /// What the partition does.
    pub fn state(&self) -> PartitionState {
        PartitionState::of(&self.error)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, error } = self;
        match self.state() {
            // The text begins with the partition.
            PartitionState::Halted => write!(f, "{error}"),
            PartitionState::Damaged => write!(
                f,
                "partition {partition} is damaged: {error}; restore the data of that key"
            ),
            PartitionState::Serving | PartitionState::Unavailable => write!(
                f,
                "partition {partition} does not answer: {error}; see that its Redis works, then it \
                 goes on by itself"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Executed;

    #[test]
    fn a_trouble_names_its_partition_and_what_to_do() {
        let text = |error| {
            Trouble {
                partition: 7,
                error,
            }
            .to_string()
        };
        let damaged = text(StoreError::corrupt("t{7}:ledger ends with entry 0"));
        assert!(damaged.starts_with("partition 7 is damaged"), "{damaged}");
        assert!(damaged.contains("restore"), "{damaged}");
        let away = text(StoreError::Unavailable {
            executed: Executed::No,
            detail: "connection refused".into(),
        });
        assert!(away.starts_with("partition 7 does not answer"), "{away}");
        assert!(away.contains("connection refused"), "{away}");
        let halted = text(StoreError::Halted("partition 7 is halted: recover".into()));
        assert_eq!(halted, "partition 7 is halted: recover");
    }
}
