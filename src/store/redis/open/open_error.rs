//! Why a store on Redis was not opened or made, in words that say what to do next.

use thiserror::Error;

use super::options::Expected;
use crate::store::redis::{
    format::version::FORMAT,
    link::{fault::Fault, fault_kind::FaultKind, findings::CheckError, pool::SetupError},
};
use crate::{model::Moment, store::StoreError};

/// Why a store on Redis was not opened. Nothing was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The connections cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Redis cannot be used as it is set.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// Redis cannot be reached or used.
    #[error("{}", fault_text(.url, .fault))]
    Fault {
        /// Where, without its password.
        url: String,
        /// Why.
        fault: StoreError,
        /// It may pass by itself.
        may_pass: bool,
    },
    /// The data are of a format that cannot be upgraded.
    #[error(
        "the data in Redis are of format {found}, which this version of tombola cannot read: run \
         the version that made them, or make a new store with another --redis-prefix"
    )]
    Format {
        /// Of the store.
        found: u32,
    },
    /// The data are of an older format, which has to be upgraded first.
    #[error(
        "the data in Redis are of format {found}, and this version of tombola needs format \
         {FORMAT}: stop all services of older versions, then run `tombola upgrade --finish` once; \
         nothing is lost by it, but older versions cannot use the data any more"
    )]
    OlderFormat {
        /// Of the store.
        found: u32,
    },
    /// The data are of a newer format.
    #[error(
        "the data in Redis are of format {found}, and this version of tombola reads only up to \
         format {FORMAT}: run the newer version that upgraded them"
    )]
    NewerFormat {
        /// Of the store.
        found: u32,
    },
    /// The number of partitions is another one.
    #[error(
        "the store in Redis has {found} partitions, not {given}: the number is fixed when a store \
         is made, so start with --partitions {found}"
    )]
    Partitions {
        /// Of the store.
        found: u32,
        /// What was asked for.
        given: u32,
    },
    /// The master key is not the one that the store was made with.
    #[error(
        "the master key is not the one that the store in Redis was made with: the seeds of \
         its campaigns could not be revealed; use the key file that all other services of this \
         store use"
    )]
    WrongKey,
    /// The store was made on a test clock and is opened on the real one, or the other way round.
    #[error("{}", test_clock_text(*.0))]
    TestClock(bool),
    /// There is no store to open.
    #[error(
        "Redis holds no store under the prefix `{prefix}`: if there was one, its data are lost, so \
         restore them; else make one with `tombola init`"
    )]
    NoStore {
        /// The prefix.
        prefix: String,
    },
    /// A store was begun and not finished.
    #[error(
        "the store {id} in Redis is not whole, as `tombola init` was stopped in its middle: run it \
         again, it goes on"
    )]
    Unfinished {
        /// Of the store.
        id: String,
    },
    /// Some partitions are there, others are not.
    #[error(
        "the store {id} in Redis has lost {lost} of its {partitions} partitions: a node was \
         restarted without its data; restore them, then start again; to give the store up, make a \
         new one beside what is left of it with `tombola init --redis-prefix ANOTHER`"
    )]
    Lost {
        /// Of the store.
        id: String,
        /// Partitions that are not there.
        lost: usize,
        /// All partitions.
        partitions: u32,
    },
    /// Another store than the one that is expected, or none.
    #[error("{}", other_store_text(.found.as_deref(), .expected))]
    OtherStore {
        /// What is there.
        found: Option<String>,
        /// What should be.
        expected: Expected,
    },
    /// The store that is to be given up is there.
    #[error(
        "the store {0} is whole, so there is nothing to begin anew: serve from it; for another \
         store beside it choose another --redis-prefix and leave --begin-anew out"
    )]
    NotLost(String),
    /// The prefix is used by someone else.
    #[error(
        "there are keys in Redis that begin with `{prefix}{{`, like `{key}`, but no tombola store: \
         they are someone else's, or what was left of a store; restore it, choose another \
         --redis-prefix, or remove them"
    )]
    NotOurs {
        /// The prefix.
        prefix: String,
        /// One of the keys.
        key: String,
    },
    /// The real time is far behind that of the last entry.
    #[error("{}", clock_text(*.now, *.last, .partitions))]
    ClockBehind {
        /// The clock.
        now: Moment,
        /// The last entry of all.
        last: Moment,
        /// Those that were written so much later.
        partitions: Vec<u32>,
    },
}

impl OpenError {
    /// A call to the Redis at `url` failed.
    pub(crate) fn fault(url: String, fault: Fault) -> Self {
        Self::Fault {
            url,
            may_pass: may_pass(fault.kind),
            fault: fault.into(),
        }
    }

    /// Redis is not there, or cannot do its work now: the same may succeed later.
    pub fn is_absence(&self) -> bool {
        match self {
            Self::Fault { fault, .. } => matches!(fault, StoreError::Unavailable { .. }),
            Self::Check(CheckError::Fault(_)) => true,
            _ => false,
        }
    }

    /// It ends by itself, once Redis is started, has loaded its data or has a master: worth waiting
    /// for.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Fault { may_pass, .. } => *may_pass,
            Self::Check(CheckError::Fault(fault)) => may_pass(fault.kind),
            _ => false,
        }
    }
}

/// Whether time alone may help. A wrong password or a missing right does not become right by
/// itself.
fn may_pass(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::Unreachable
            | FaultKind::Lost
            | FaultKind::TimedOut
            | FaultKind::NoConnectionFree
            | FaultKind::NoMaster
            | FaultKind::Loading
            | FaultKind::ReadOnly
            | FaultKind::NoReplicas
            | FaultKind::ClusterDown
            | FaultKind::Busy
    )
}

/// There is no request yet that could be retried.
fn fault_text(url: &str, fault: &StoreError) -> String {
    match fault {
        StoreError::Unavailable { detail, .. } => detail.clone(),
        StoreError::Corrupt { detail, .. } => {
            format!("the store in Redis cannot be read: {detail}")
        }
        other => format!("Redis at {url} cannot be used: {other}"),
    }
}

fn test_clock_text(data_is_test: bool) -> &'static str {
    if data_is_test {
        "the store in Redis was made on a TEST clock: go on with --clock-start, or choose another \
         --redis-prefix"
    } else {
        "the store in Redis is real, a TEST clock would spoil it: choose another --redis-prefix, \
         or leave --clock-start out"
    }
}

fn other_store_text(found: Option<&str>, Expected { id, source }: &Expected) -> String {
    match found {
        Some(found) => format!(
            "Redis holds the store {found}, but {source} expects {id}: check --redis-url and \
             --redis-prefix; if {id} was given up for {found}, start with --store-id {found}"
        ),
        None => format!(
            "Redis holds no store, but {source} expects {id}: its data are lost, or --redis-url or \
             --redis-prefix is wrong; restore the data, or give them up with `tombola init \
             --begin-anew {id}`"
        ),
    }
}

fn clock_text(now: Moment, last: Moment, partitions: &[u32]) -> String {
    let numbers: Vec<_> = partitions.iter().map(u32::to_string).collect();
    let noun = if numbers.len() == 1 {
        "partition"
    } else {
        "partitions"
    };
    format!(
        "the clock shows {now}, but the data of {noun} {} were last written at {last}: set the \
         clocks of this machine and of Redis right; if they are right now and that of Redis was \
         ahead before, start again after {last}",
        numbers.join(", ")
    )
}
