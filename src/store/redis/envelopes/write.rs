//! Writes what a rule has decided on an envelope that exists, in one call of `commit.lua`, on
//! condition that what the rule read has not changed.
//!
//! Every step but a grab changes `revision`, and every grab changes `grabbed`. Every write is made
//! on condition that `revision` is unchanged; a refund or a removal, which depends on the grabs,
//! also on condition that `grabbed` is. So a packet that is grabbed before the refund is written
//! makes the refund begin again. After the refund, the grab script finds in `gate` that no packet
//! is left. A decision that was made before the expiry is not written after it.

use std::{ops::Range, sync::Arc, time::Duration};

use super::{codec, load::Loaded};
use crate::store::redis::{
    core::Core,
    format::{
        keys::{EnvelopeKeys, IdDigest, Key, PartitionKeys},
        reply::{self, letter},
        scripts,
    },
    step::{
        campaign::to_json,
        commit::{Commit, Kind},
        write::next_revision,
    },
};
use crate::{
    model::Moment,
    store::{Result, StoreError, rules::envelope::EnvelopeChanges},
};

/// The most buckets of grabs that one script removes, each with its bucket for long ids.
const BUCKETS_REMOVED: u32 = 128;

impl Core {
    /// If a step removes more buckets than one script should, removes most of them before the step.
    /// First it writes that the envelope does not exist any more. False if something has changed
    /// since the envelope was read.
    pub(super) async fn remove_ahead(
        &self,
        partition: &Arc<PartitionKeys>,
        loaded: &mut Loaded,
        was_removed: bool,
        now: Moment,
    ) -> Result<bool> {
        let mut gone = loaded.buckets_gone();
        if gone.end - gone.start <= BUCKETS_REMOVED {
            return Ok(true);
        }
        if !was_removed {
            let mut marked = loaded.marked_as_removed();
            if !self.write_envelope(partition, &mut marked, now).await? {
                return Ok(false);
            }
            loaded.revision = next_revision(&marked.revision)?;
        }
        while gone.end - gone.start > BUCKETS_REMOVED {
            let next = gone.start + BUCKETS_REMOVED;
            let mut commit = loaded.begin_commit(partition, now);
            let keys = partition.envelope(&loaded.state.record.envelope.id);
            unlink_buckets(&mut commit, &keys, gone.start..next);
            if self.run_commit(partition, commit).await?.is_none() {
                return Ok(false);
            }
            gone.start = next;
        }
        loaded.removed_ahead = gone.start;
        Ok(true)
    }

    /// Runs the commit script; its reply, or none if something has changed.
    async fn run_commit(
        &self,
        partition: &PartitionKeys,
        commit: Commit,
    ) -> Result<Option<redis::Value>> {
        let (all, args) = commit.into_parts(self.read_holds());
        let (_, mut parts) = self.run(partition, &scripts::COMMIT, &all, args).await?;
        let answer = parts.next().map_err(StoreError::after_write)?;
        Ok((letter(&answer) != Some(b'S')).then_some(answer))
    }

    /// Writes what a rule has decided at `now`; false if something has changed since it was read.
    pub(super) async fn write_envelope(
        &self,
        partition: &Arc<PartitionKeys>,
        loaded: &mut Loaded,
        now: Moment,
    ) -> Result<bool> {
        let commit = loaded.commit(partition, now)?;
        let Some(answer) = self.run_commit(partition, commit).await? else {
            return Ok(false);
        };
        if loaded.state.changes.entry.is_some() {
            let sequence = reply::number(answer).map_err(StoreError::after_write)?;
            loaded.refund_sequence = Some(sequence);
        }
        if loaded.state.is_removed() {
            self.envelopes.forget(&loaded.state.record.envelope.id);
        }
        Ok(true)
    }
}

impl Loaded {
    /// A call for a step that was decided at `now`, on condition that no other step came since.
    fn begin_commit(&self, partition: &PartitionKeys, now: Moment) -> Commit {
        let record = &self.state.record;
        let keys = partition.envelope(&record.envelope.id);
        let last = record.expiry - Duration::from_micros(1);
        let holds = (now < record.expiry).then(|| last.since(now));
        Commit::of_envelope(
            partition,
            &keys,
            &record.envelope.id,
            &self.revision,
            now,
            holds,
        )
    }

    /// The same, but that nothing is removed yet.
    fn marked_as_removed(&self) -> Self {
        let mut state = self.state.clone();
        state.record.removed = Some(0);
        state.changes = EnvelopeChanges::default();
        Self {
            state,
            revision: self.revision.clone(),
            counts: self.counts.clone(),
            created_sequence: self.created_sequence,
            refund_sequence: self.refund_sequence,
            removed_ahead: 0,
        }
    }

    /// Buckets of grabs that this step removes. Grabs lie by user, so it is that part of the
    /// buckets which the grabs removed are of all grabs.
    fn buckets_gone(&self) -> Range<u32> {
        let Some(removal) = self.state.changes.removal else {
            return 0..0;
        };
        let buckets = u64::from(codec::grab_buckets(self.state.record.envelope.packets));
        let grabs = u64::from(self.state.grabbed.packets.max(1));
        let bucket = |packets: u32| {
            let bucket = u64::from(packets) * buckets / grabs;
            u32::try_from(bucket).unwrap_or(u32::MAX)
        };
        let gone = bucket(removal.grabs_after)..bucket(removal.grabs_until);
        gone.start.max(self.removed_ahead)..gone.end
    }

    /// The call that writes everything, with its conditions.
    fn commit(&self, partition: &PartitionKeys, now: Moment) -> Result<Commit> {
        let (record, changes) = (&self.state.record, &self.state.changes);
        let envelope = &record.envelope;
        let keys = partition.envelope(&envelope.id);
        let mut commit = self.begin_commit(partition, now);
        let goes_by_grabs = changes.packets_out || changes.removal.is_some();
        match &self.counts {
            Some(counts) if goes_by_grabs => {
                commit.expect_field(Commit::CAMPAIGN, b"grabbed", counts);
            }
            None if goes_by_grabs => commit.expect_absent(Commit::CAMPAIGN, b"grabbed"),
            _ => {}
        }
        if let Some(body) = &changes.entry {
            commit.entry(to_json(body));
            commit.sequence_into("refunded");
        }
        self.write_sums(&mut commit, partition);
        let fields = [
            b"revision".to_vec(),
            next_revision(&self.revision)?.into(),
            b"record".to_vec(),
            to_json(record),
            b"gate".to_vec(),
            codec::encode_gate(&self.state),
        ];
        commit.write("HSET", Commit::CAMPAIGN, fields);
        self.write_rows(&mut commit, &keys);
        self.write_due(&mut commit, partition);
        if changes.removal.is_some_and(|removal| removal.is_last) {
            let digest = IdDigest::envelope(&envelope.id);
            let removed = commit.key(Kind::Hash, partition.removed_envelopes(digest));
            commit.write("HSET", removed, [digest.field.to_vec(), Vec::new()]);
            commit.write("DEL", Commit::CAMPAIGN, []);
        }
        Ok(commit)
    }

    fn write_sums(&self, commit: &mut Commit, partition: &PartitionKeys) {
        let sums = &self.state.changes.sums;
        let key = commit.key(Kind::Hash, partition.envelope_sums.clone());
        for (name, change) in [
            ("envelopes", sums.envelopes),
            ("open", sums.open),
            ("created", sums.created_minor),
            ("grabbed", sums.grabbed_minor),
            ("waiting", sums.waiting_minor),
            ("refunded", sums.refunded_minor),
        ] {
            if change != 0 {
                let currency = &self.state.record.envelope.currency;
                commit.sum(key, format!("{currency}:{name}"), change);
            }
        }
    }

    /// Writes packets, and what is removed.
    fn write_rows(&self, commit: &mut Commit, keys: &EnvelopeKeys) {
        let (record, changes) = (&self.state.record, &self.state.changes);
        if !changes.packets_in.is_empty() || changes.packets_out {
            let packets = commit.key(Kind::SortedSet, keys.packets.clone());
            if changes.packets_out {
                commit.write("UNLINK", packets, []);
            }
            if !changes.packets_in.is_empty() {
                let scored = changes.packets_in.iter().flat_map(|packet| {
                    let score = codec::score(&record.envelope, packet);
                    [score.to_string().into_bytes(), codec::encode_packet(packet)]
                });
                commit.write("ZADD", packets, scored);
            }
        }
        let Some(removal) = changes.removal else {
            return;
        };
        unlink_buckets(commit, keys, self.buckets_gone());
        if removal.is_last {
            unlink(commit, keys.allowed.clone());
        }
    }

    /// Writes by which the envelope is found when something is due of it.
    fn write_due(&self, commit: &mut Commit, partition: &PartitionKeys) {
        let id = self.state.record.envelope.id.as_str().as_bytes().to_vec();
        let open = commit.key(Kind::SortedSet, partition.open_envelopes.clone());
        let settled = commit.key(Kind::SortedSet, partition.settled_envelopes.clone());
        let scored = |at: Moment| [at.as_micros().to_string().into_bytes(), id.clone()];
        let settled_at = match self.state.record.removed {
            Some(_) => Some(Moment::EPOCH),
            None => self.state.settled_at(),
        };
        match (self.state.changes.removal, settled_at) {
            (Some(removal), _) if removal.is_last => commit.write("ZREM", settled, [id]),
            (_, Some(at)) => {
                commit.write("ZREM", open, [id.clone()]);
                commit.write("ZADD", settled, scored(at));
            }
            (_, None) => {}
        }
    }
}

/// Removes buckets of grabs.
fn unlink_buckets(commit: &mut Commit, keys: &EnvelopeKeys, buckets: Range<u32>) {
    for bucket in buckets {
        unlink(commit, keys.grabs(bucket, false));
        unlink(commit, keys.grabs(bucket, true));
    }
}

/// Removes a hash of ours; what is large is freed beside the commands.
fn unlink(commit: &mut Commit, key: Key) {
    let key = commit.key(Kind::Hash, key);
    commit.write("UNLINK", key, []);
}
