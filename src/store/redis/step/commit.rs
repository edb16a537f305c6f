//! A call of `commit.lua`: the conditions that must still hold (guards), and what is then written.

use std::{collections::HashMap, time::Duration};

use crate::model::{CampaignId, EnvelopeId, Moment, RequestId};
use crate::store::redis::format::keys::{CampaignKeys, EnvelopeKeys, Key, PartitionKeys};

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hash,
    Set,
    SortedSet,
    Stream,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Stream => "stream",
        }
    }
}

/// The mark of a step that does not depend on the fork.
const ANY_FORK: &[u8] = b"*";

/// A call that is being put together. Keys are named by their index, from 1.
pub(crate) struct Commit {
    keys: Vec<Key>,
    kinds: Vec<Kind>,
    index_of: HashMap<Key, usize>,
    head: Vec<Vec<u8>>,
    /// How long what was read may be used, if that is less than for all commits.
    holds: Option<Duration>,
    guards: Vec<Vec<u8>>,
    guard_count: usize,
    entries: Vec<Vec<u8>>,
    request: Option<(Vec<u8>, Vec<u8>)>,
    counts: Vec<Vec<u8>>,
    sums_key: usize,
    sums: Vec<Vec<u8>>,
    writes: Vec<Vec<u8>>,
    write_count: usize,
}

impl Commit {
    /// The index of the partition's hash.
    pub(crate) const PARTITION: usize = 1;
    /// The index of the campaign's hash, or of the envelope's.
    pub(crate) const CAMPAIGN: usize = 3;

    /// A step of a campaign that was read at `read_at`, under the fork with this mark; none if
    /// there was nothing to read.
    pub(crate) fn new(
        partition: &PartitionKeys,
        campaign: &CampaignKeys,
        id: &CampaignId,
        revision: &str,
        read_at: Moment,
        fork: Option<u32>,
    ) -> Self {
        let head = vec![
            fork.map_or(ANY_FORK.into(), number),
            b"c".to_vec(),
            id.as_str().into(),
            revision.into(),
            number(read_at.as_micros()),
        ];
        let mut commit = Self::with(head, None, partition);
        commit.key(Kind::Hash, campaign.campaign.clone());
        commit.key(Kind::Hash, campaign.operations.clone());
        commit
    }

    /// A step of an envelope that was read at `read_at`; what was read may be used for `holds` at
    /// most, if that is given.
    pub(crate) fn of_envelope(
        partition: &PartitionKeys,
        envelope: &EnvelopeKeys,
        id: &EnvelopeId,
        revision: &str,
        read_at: Moment,
        holds: Option<Duration>,
    ) -> Self {
        let head = vec![
            ANY_FORK.into(), // what is derived for an envelope does not depend on the fork
            b"e".to_vec(),
            id.as_str().into(),
            revision.into(),
            number(read_at.as_micros()),
        ];
        let mut commit = Self::with(head, holds, partition);
        commit.key(Kind::Hash, envelope.envelope.clone());
        commit.keys.push(envelope.envelope.clone());
        commit.kinds.push(Kind::Hash);
        commit
    }

    fn with(head: Vec<Vec<u8>>, holds: Option<Duration>, partition: &PartitionKeys) -> Self {
        let mut commit = Self {
            keys: Vec::new(),
            kinds: Vec::new(),
            index_of: HashMap::new(),
            head,
            holds,
            guards: Vec::new(),
            guard_count: 0,
            entries: Vec::new(),
            request: None,
            counts: Vec::new(),
            sums_key: 1,
            sums: Vec::new(),
            writes: Vec::new(),
            write_count: 0,
        };
        commit.key(Kind::Hash, partition.partition.clone());
        commit.key(Kind::Stream, partition.ledger.clone());
        commit
    }

    /// The index of a key, which must have this type or not exist.
    pub(crate) fn key(&mut self, kind: Kind, key: Key) -> usize {
        if let Some(&index) = self.index_of.get(&key) {
            return index;
        }
        self.keys.push(key.clone());
        self.kinds.push(kind);
        self.index_of.insert(key, self.keys.len());
        self.keys.len()
    }

    /// These units must be in a queue.
    pub(crate) fn expect_units(&mut self, key: usize, members: impl Iterator<Item = Vec<u8>>) {
        let members: Vec<_> = members.collect();
        self.guard("units", key);
        self.guards.push(number(members.len()));
        self.guards.extend(members);
    }

    /// A field must have this value.
    pub(crate) fn expect_field(&mut self, key: usize, field: &[u8], value: &[u8]) {
        self.guard("field", key);
        self.guards.extend([field.to_vec(), value.to_vec()]);
    }

    /// A field must not exist.
    pub(crate) fn expect_absent(&mut self, key: usize, field: &[u8]) {
        self.guard("absent", key);
        self.guards.push(field.to_vec());
    }

    /// A key must not exist.
    pub(crate) fn expect_gone(&mut self, key: usize) {
        self.guard("gone", key);
    }

    /// A sorted set must not have this member.
    pub(crate) fn expect_unlisted(&mut self, key: usize, member: &[u8]) {
        self.guard("unlisted", key);
        self.guards.push(member.to_vec());
    }

    /// A counter of the campaign must equal the units in this queue plus `others`.
    pub(crate) fn expect_count(&mut self, key: usize, counter: String, others: i64) {
        self.guard("count", key);
        self.guards.extend([counter.into(), number(others)]);
    }

    /// A field's number must be at most this.
    pub(crate) fn expect_most(&mut self, key: usize, field: &str, most: u64) {
        self.guard("most", key);
        self.guards.extend([field.into(), number(most)]);
    }

    /// The partition's data must be of this format or a later one.
    pub(crate) fn expect_format(&mut self, format: u32) {
        self.guard("format", Self::PARTITION);
        self.guards.push(number(format));
    }

    fn guard(&mut self, kind: &str, key: usize) {
        self.guard_count += 1;
        self.guards.extend([kind.into(), number(key)]);
    }

    /// Adds an entry of the ledger, as JSON.
    pub(crate) fn entry(&mut self, body: Vec<u8>) {
        self.entries.push(body);
    }

    /// Remembers that the last entry answers a request.
    pub(crate) fn request(&mut self, request: &RequestId, body: &[u8]) {
        self.request = Some((request.as_str().into(), [b" ", body].concat()));
    }

    /// Writes the number of the last entry into a field.
    pub(crate) fn sequence_into(&mut self, field: &str) {
        self.request = Some((field.into(), Vec::new()));
    }

    /// Adds to a sum under this key, which is that of all sums.
    pub(crate) fn sum(&mut self, key: usize, name: String, change: i64) {
        self.sums_key = key;
        self.sums.extend([name.into(), number(change)]);
    }

    /// Adds to a counter of the campaign.
    pub(crate) fn count(&mut self, name: String, change: i64) {
        self.counts.extend([name.into(), number(change)]);
    }

    /// Adds a command of Redis on a key.
    pub(crate) fn write(
        &mut self,
        command: &str,
        key: usize,
        args: impl IntoIterator<Item = Vec<u8>>,
    ) {
        self.write_count += 1;
        self.writes.extend([command.into(), number(key)]);
        let length = self.writes.len();
        self.writes.push(Vec::new());
        self.writes.extend(args);
        self.writes[length] = number(self.writes.len() - length - 1);
    }

    /// Keys and arguments of the script; what was read may be used for `read_holds` at most.
    pub(crate) fn into_parts(self, read_holds: Duration) -> (Vec<Key>, Vec<Vec<u8>>) {
        let mut args = self.head;
        let holds = self.holds.map_or(read_holds, |holds| holds.min(read_holds));
        args.push(number(holds.as_micros()));
        args.push(number(self.kinds.len()));
        args.extend(self.kinds.iter().map(|kind| kind.name().into()));
        args.push(number(self.guard_count));
        args.extend(self.guards);
        args.push(number(self.counts.len() / 2));
        args.extend(self.counts);
        args.extend([number(self.sums.len() / 2), number(self.sums_key)]);
        args.extend(self.sums);
        args.push(number(self.entries.len()));
        args.extend(self.entries);
        let (request, body) = self.request.unwrap_or_default();
        args.extend([request, body]);
        args.push(number(self.write_count));
        args.extend(self.writes);
        (self.keys, args)
    }
}

fn number(value: impl ToString) -> Vec<u8> {
    value.to_string().into()
}
