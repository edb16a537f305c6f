//! Forks and witnesses: how a service notices that the Redis under it has lost entries that were
//! acknowledged.
//!
//! When another server begins to serve a partition, that begins a *fork* (see
//! `lua/modules/store.lua`). Every script carries this service's *witnesses*: the forks under which
//! it has acknowledged entries, each with the number of the last one. The script compares them with
//! the partition, and halts the partition if acknowledged entries are missing. So a rollback is
//! noticed without a leader, as long as one service that acknowledged a lost entry still runs.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redis::Value;

use super::format::reply::{Parts, letter, number, text, unexpected};
use crate::{
    model::Moment,
    store::{LedgerId, Result, StoreError, Trouble},
};

/// How long a fork waits before it takes writes. Every running service probes each second, so each
/// has sent its witnesses by then.
pub const FORK_PAUSE: Duration = Duration::from_secs(2);
/// The random part of a fork's first number, see `number_of_fork` in `lua/modules/writing.lua`.
pub(super) fn random_part() -> u64 {
    rand::random_range(1..=1 << 20)
}

/// The last entry that this service has acknowledged under one fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Witness {
    replid: Arc<str>,
    number: u64,
}

/// What this service has acknowledged in a partition. Mostly one witness; two while replies from
/// two forks are still to come.
#[derive(Default)]
struct Acknowledged(Vec<Witness>);

impl Acknowledged {
    fn add(&mut self, witness: Witness) {
        let mut witnesses = self.0.iter_mut();
        match witnesses.find(|known| known.replid == witness.replid) {
            Some(known) => known.number = known.number.max(witness.number),
            None => self.0.push(witness),
        }
    }
}

/// What this service has acknowledged, by partition.
pub(super) struct Witnesses {
    by_partition: Vec<Mutex<Acknowledged>>,
    /// By partition: why it is halted, once the log says so.
    halted: Vec<Mutex<Option<String>>>,
}

impl Witnesses {
    /// A service that has acknowledged nothing yet.
    pub(super) fn new(partitions: usize) -> Self {
        Self {
            by_partition: (0..partitions).map(|_| Mutex::default()).collect(),
            halted: (0..partitions).map(|_| Mutex::default()).collect(),
        }
    }

    fn of(&self, partition: u32) -> std::sync::MutexGuard<'_, Acknowledged> {
        let acknowledged = &self.by_partition[partition as usize];
        acknowledged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next script carries.
    pub(super) fn get(&self, partition: u32) -> Vec<Witness> {
        self.of(partition).0.clone()
    }

    /// Takes in the reply of a script that carried these witnesses and was not refused. The history
    /// in which it ran has all their entries, so the last of them stands for the others. An entry
    /// that the script wrote stands for all of them. If it wrote nothing, the last one stays a
    /// witness of its own fork: should the present fork be lost before anything is acknowledged
    /// under it, then no acknowledged entry is lost.
    pub(super) fn learn(&self, partition: u32, carried: &[Witness], head: &Head) {
        let Some(replid) = &head.replid else {
            return; // most scripts that only read do not name their fork
        };
        let mut acknowledged = self.of(partition);
        let last = match head.written {
            0 => carried.iter().max_by_key(|witness| witness.number).cloned(),
            number => Some(Witness {
                replid: Arc::clone(replid),
                number,
            }),
        };
        acknowledged.0.retain(|witness| !carried.contains(witness));
        if let Some(last) = last {
            acknowledged.add(last);
        }
    }

    /// Notes that this service acknowledges an entry that an earlier call wrote, perhaps one of
    /// another service. Its own fork is not known, so it is witnessed under that of the reply in
    /// which it was read, whose history has it. Under one before, its number would seem to be lost.
    pub(super) fn repeat(&self, read: &Parts, entry: &LedgerId) {
        if let Some(fork) = &read.fork {
            self.add(entry.partition, Arc::clone(fork), entry.sequence);
        }
    }

    /// Notes that the store must have an entry: it was read under this fork, and is acknowledged or
    /// settled.
    pub(super) fn add(&self, partition: u32, replid: Arc<str>, number: u64) {
        self.of(partition).add(Witness { replid, number });
    }

    fn halt(&self, partition: u32) -> std::sync::MutexGuard<'_, Option<String>> {
        let halt = &self.halted[partition as usize];
        halt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes why the partition is halted; true if the log does not say so yet.
    pub(super) fn is_news(&self, partition: u32, why: &str) -> bool {
        self.halt(partition).replace(why.to_owned()).is_none()
    }

    /// Notes that the partition is not halted.
    pub(super) fn is_well(&self, partition: u32) {
        self.halt(partition).take();
    }

    /// The partitions that are halted.
    pub(super) fn halted(&self) -> Vec<Trouble> {
        let partitions = 0..u32::try_from(self.halted.len()).unwrap_or(u32::MAX);
        let halted = partitions.filter_map(|partition| {
            let error = StoreError::Halted(self.halt(partition).clone()?);
            Some(Trouble { partition, error })
        });
        halted.collect()
    }
}

/// The store's id and the mark of `tombola recover`, which works in halted partitions and witnesses
/// nothing.
pub(super) fn recovering_identity(store_id: &str) -> String {
    format!("{store_id}*")
}

/// A mark for a fork that has no replication id of its own: three random bytes, not 0.
pub(super) fn random_mark() -> u32 {
    rand::random_range(1..1 << 24)
}

/// The store's id and the witnesses, as scripts read them.
pub(super) fn identity(store_id: &str, witnesses: &[Witness]) -> String {
    let mut identity = String::with_capacity(store_id.len() + witnesses.len() * 64);
    identity.push_str(store_id);
    for Witness { replid, number } in witnesses {
        // Writing to memory does not fail.
        let _ = write!(identity, "{replid}:{number} ");
    }
    identity
}

/// The first part of a reply.
pub(super) struct Head {
    /// The store's clock.
    pub(super) now: Moment,
    /// Replication id of the fork, if the script names it.
    pub(super) replid: Option<Arc<str>>,
    /// Number of the last entry that the script has written; 0 for none.
    written: u64,
}

impl Head {
    /// Reads `now`, or `now replid written`.
    pub(super) fn read(value: Value) -> Result<Self> {
        let text = text(value)?;
        let mut words = text.split(' ');
        let mut word = |what| words.next().ok_or_else(|| unexpected(what));
        let now = word("moment")?.parse().map_err(|_| unexpected("moment"))?;
        let replid = word("fork").ok().map(Arc::from);
        let written = match &replid {
            Some(_) => word("number")?.parse().map_err(|_| unexpected("number"))?,
            None => 0,
        };
        Ok(Self {
            now: Moment::from_micros(now),
            replid,
            written,
        })
    }
}

/// Why a script has done nothing (see `lua/modules/store.lua`).
pub(super) enum Refused {
    /// The partition has another store's id, or none.
    Lost,
    /// Acknowledged entries are lost.
    Halted(Halt),
    /// Another server serves the partition: the fork must be recorded first.
    Forked,
    /// The fork opens after this time.
    Opens(Duration),
    /// The data are of this format, which is newer than this version's.
    Newer(u32),
}

impl Refused {
    /// Reads the part of a reply after its head; none if it is not a refusal.
    pub(super) fn read(parts: &mut Parts) -> Result<Option<Self>> {
        let Some(first) = parts.maybe_next() else {
            return Ok(None);
        };
        Ok(Some(match letter(&first) {
            Some(b'L') => Self::Lost,
            Some(b'H') => Self::Halted(Halt::parse(&text(parts.next()?)?)?),
            Some(b'K') => Self::Forked,
            Some(b'W') => Self::Opens(Duration::from_micros(number(parts.next()?)?)),
            Some(b'N') => Self::Newer(number(parts.next()?)?),
            _ => {
                parts.put_back(first);
                return Ok(None);
            }
        }))
    }
}

/// Why a partition is halted: a service has acknowledged an entry that is not in the store any
/// more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halt {
    /// Replication id of the fork under which the entry was acknowledged.
    pub replid: String,
    /// Number of the last entry that was acknowledged.
    pub acknowledged: u64,
    /// Number of the last entry of that fork in the store; none if the store has never been in that
    /// fork.
    pub kept: Option<u64>,
    /// When it was noticed.
    pub noticed_at: Moment,
    /// The text of the partition's field `halt`.
    pub(super) text: String,
}

impl Halt {
    /// Reads the field `halt` of a partition.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let [replid, acknowledged, kept, noticed_at] = words[..] else {
            return Err(unexpected("halt of four words"));
        };
        let number = |word: &str| word.parse().map_err(|_| unexpected("number"));
        Ok(Self {
            replid: replid.to_owned(),
            acknowledged: number(acknowledged)?,
            kept: (kept != "-").then(|| number(kept)).transpose()?,
            noticed_at: Moment::from_micros(number(noticed_at)?.cast_signed()),
            text: text.to_owned(),
        })
    }

    /// What is lost, in words.
    pub fn loss(&self) -> String {
        let last = self.acknowledged;
        match self.kept {
            Some(kept) => format!(
                "entries {} to {last} (at least) were acknowledged and are lost",
                kept + 1
            ),
            None => format!(
                "entry {last} was acknowledged under a fork ({}) that the store does not know: it \
                 and others are lost",
                self.replid
            ),
        }
    }
}

/// The error of every call to a halted partition.
pub(super) fn halted(partition: u32, halt: &Halt) -> StoreError {
    StoreError::Halted(format!(
        "partition {partition} is halted, since Redis was rolled back by a failover or a restored \
         backup: {}; restore the data that has them, or see `tombola recover`",
        halt.loss()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn head(replid: &str, written: u64) -> Head {
        let text = format!("17 {replid} {written}");
        Head::read(Value::BulkString(text.into())).unwrap()
    }

    /// A reply that names this fork.
    fn reply(fork: &str) -> Parts {
        let mut parts = Parts::of(Value::Array(Vec::new())).unwrap();
        parts.fork = Some(fork.into());
        parts
    }

    fn entry(sequence: u64) -> LedgerId {
        LedgerId {
            partition: 0,
            sequence,
        }
    }

    fn carried(witnesses: &Witnesses) -> String {
        identity("", &witnesses.get(0))
    }

    #[test]
    fn a_service_witnesses_the_last_entry_that_it_has_acknowledged() {
        let witnesses = Witnesses::new(1);
        witnesses.learn(0, &[], &head(A, 0));
        assert_eq!(carried(&witnesses), "");
        witnesses.learn(0, &[], &head(A, 7));
        witnesses.learn(0, &witnesses.get(0), &head(A, 0));
        assert_eq!(carried(&witnesses), format!("{A}:7 "));
        witnesses.repeat(&reply(A), &entry(9));
        assert_eq!(carried(&witnesses), format!("{A}:9 "));
    }

    #[test]
    fn an_entry_that_is_repeated_is_witnessed_under_the_fork_in_which_it_was_read() {
        let witnesses = Witnesses::new(1);
        witnesses.learn(0, &[], &head(B, 100));
        // A reply that was sent before the fork comes late.
        witnesses.learn(0, &[], &head(A, 0));
        witnesses.repeat(&reply(B), &entry(101));
        assert_eq!(carried(&witnesses), format!("{B}:101 "));
        witnesses.repeat(&reply(A), &entry(7));
        assert_eq!(carried(&witnesses), format!("{B}:101 {A}:7 "));
    }

    #[test]
    fn an_entry_is_witnessed_under_its_own_fork_until_another_one_is_acknowledged() {
        let witnesses = Witnesses::new(1);
        witnesses.learn(0, &[], &head(A, 7));
        // A probe under a new fork. If that fork is lost, the server that knows A alone has
        // everything that was acknowledged.
        witnesses.learn(0, &witnesses.get(0), &head(B, 0));
        assert_eq!(carried(&witnesses), format!("{A}:7 "));
        witnesses.learn(0, &witnesses.get(0), &head(B, 100));
        assert_eq!(carried(&witnesses), format!("{B}:100 "));
    }

    #[test]
    fn a_service_that_writes_nothing_does_not_collect_witnesses() {
        let witnesses = Witnesses::new(1);
        witnesses.add(0, A.into(), 7);
        witnesses.add(0, B.into(), 100);
        assert_eq!(carried(&witnesses), format!("{A}:7 {B}:100 "));
        witnesses.learn(0, &witnesses.get(0), &head(B, 0));
        assert_eq!(carried(&witnesses), format!("{B}:100 "));
    }

    #[test]
    fn a_late_reply_of_the_fork_before_is_not_taken_for_the_new_one_s() {
        let witnesses = Witnesses::new(1);
        witnesses.learn(0, &[], &head(A, 7));
        let sent = witnesses.get(0);
        witnesses.learn(0, &sent, &head(B, 100));
        // Another batch was sent to the server before, and its reply comes only now: nothing has
        // confirmed it under B.
        witnesses.learn(0, &sent, &head(A, 8));
        assert_eq!(carried(&witnesses), format!("{B}:100 {A}:8 "));
        witnesses.learn(0, &witnesses.get(0), &head(B, 101));
        assert_eq!(carried(&witnesses), format!("{B}:101 "));
    }

    #[test]
    fn a_head_that_is_cut_off_is_an_error() {
        let read = |text: &str| Head::read(Value::BulkString(text.into()));
        assert_eq!(read("17").unwrap().now, Moment::from_micros(17));
        for bad in ["", "x", "17 abc", "17 abc x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_halt_says_what_is_lost() {
        let halt = Halt::parse(&format!("{A} 12 7 5")).unwrap();
        assert_eq!(
            halt.loss(),
            "entries 8 to 12 (at least) were acknowledged and are lost"
        );
        assert_eq!(halt.noticed_at, Moment::from_micros(5));
        let halt = Halt::parse(&format!("{A} 12 - 5")).unwrap();
        assert!(halt.loss().contains(A), "{}", halt.loss());
        for bad in ["", "x", "a 1 2", "a 1 x 5"] {
            assert!(Halt::parse(bad).is_err(), "{bad}");
        }
    }
}
