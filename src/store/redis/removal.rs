//! The end of a campaign's data.
//!
//! The tombstone is a field of `campaigns:removed`. While there is something left of the campaign,
//! `removal:ID` says how far its removal is, and what its keys are derived from.

use std::time::Duration;

use async_trait::async_trait;
use redis::Value;

use super::{
    RedisStore,
    core::Core,
    format::{
        keys::{
            BUCKETS, CampaignKeys, GROUP_BLOCKS, IdDigest, Key, PartitionKeys, Slots, USER_HASHES,
        },
        reply::{self, letter},
        scripts,
        version::FULL_ENTRIES_FORMAT,
    },
    step::{
        campaign::{from_json, to_json},
        commit::{Commit, Kind},
        load::Loaded,
    },
};
use crate::{
    model::{CampaignId, Moment, PoolNo, PrizeNo},
    store::{
        ClosedCampaign, DueCampaign, Lifecycle, RemovalFence, RemovalStore, Result, StoreError,
        codes::BLOCK_CODES, removal::REMOVED_FIELDS_MAX,
    },
};

/// The most keys that one step looks at.
const KEYS_MAX: u32 = 2048;

#[async_trait]
impl RemovalStore for RedisStore {
    async fn closed_campaigns(
        &self,
        partition: u32,
        keep: Duration,
        after: Option<&ClosedCampaign>,
        limit: usize,
    ) -> Result<Vec<ClosedCampaign>> {
        let Some(keys) = self.core.partitions.get(partition as usize) else {
            return Ok(Vec::new());
        };
        let keep = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        let after = after.map(|after| DueCampaign {
            due: after.since,
            id: after.id.clone(),
        });
        let key = &keys.closed_campaigns;
        let listed = self.core.listed(keys, key, -keep, after.as_ref(), limit);
        let closed = listed.await?.into_iter().map(|listed| ClosedCampaign {
            since: listed.due,
            id: listed.id,
        });
        Ok(closed.collect())
    }

    async fn begin_removal(&self, id: &CampaignId, fence: &RemovalFence) -> Result<bool> {
        let _turn = self.turn(id).lock().await;
        self.core.begin_removal(id, fence).await
    }

    async fn remove_some(&self, id: &CampaignId) -> Result<bool> {
        self.core.remove_some(id).await
    }
}

impl Core {
    async fn begin_removal(&self, id: &CampaignId, fence: &RemovalFence) -> Result<bool> {
        let loaded = self.load(id, &[]).await?;
        let is_closed = loaded.state.view.lifecycle == Lifecycle::Closed;
        let knows_tombstones = loaded.fields.number::<u32>("format")? >= FULL_ENTRIES_FORMAT;
        let is_as_fenced = loaded.fields.counter("entries")? == fence.entries;
        if !(is_closed && knows_tombstones && is_as_fenced) {
            return Ok(false);
        }
        let partition = self.partition(id);
        if self.is_remembered(partition, id, loaded.state.now).await? {
            return Ok(false);
        }
        let (all, args) = loaded
            .tombstone(partition, &fence.fork)
            .into_parts(self.read_holds());
        let (_, mut parts) = self.run(partition, &scripts::COMMIT, &all, args).await?;
        let answer = parts.next().map_err(StoreError::after_write)?;
        if letter(&answer) == Some(b'S') {
            return Ok(false);
        }
        self.layouts.forget(id);
        Ok(true)
    }

    /// Whether a service may still be asked for a draw of a closed campaign again. Each service
    /// has a request memory of its own, and forgets by the longest.
    async fn is_remembered(
        &self,
        partition: &PartitionKeys,
        id: &CampaignId,
        now: Moment,
    ) -> Result<bool> {
        let mut command = redis::cmd("HMGET");
        command.arg(&partition.partition);
        command.arg(&["memory", "memory_before"]);
        let memories = reply::list(self.ask_command(&command).await?)?.into_iter();
        let memories = memories.filter(|memory| *memory != Value::Nil);
        let memories = memories.map(reply::number::<f64>);
        let longest = memories.collect::<Result<Vec<f64>>>()?;
        let own = self.request_memory.as_micros() as f64;
        let longest = longest.into_iter().fold(own, f64::max);
        let mut command = redis::cmd("ZSCORE");
        command.arg(&partition.closed_campaigns).arg(id.as_str());
        let since = match self.ask_command(&command).await? {
            Value::Nil => return Ok(true), // it is not known since when it is closed
            since => reply::number::<f64>(since)?,
        };
        Ok(now.as_micros() as f64 - since < longest)
    }

    async fn remove_some(&self, id: &CampaignId) -> Result<bool> {
        let partition = self.partition(id);
        let mut command = redis::cmd("HMGET");
        command
            .arg(partition.removal(id))
            .arg(&["next", "slots", "codes"]);
        let mut found = reply::list(self.ask_command(&command).await?)?.into_iter();
        let (Some(next), Some(slots), Some(codes)) = (found.next(), found.next(), found.next())
        else {
            return Err(reply::unexpected("removal"));
        };
        if next == Value::Nil {
            return Ok(false);
        }
        let next: u32 = reply::number(next)?;
        let slots: Slots = from_json(&reply::bytes(slots)?)?;
        let codes = reply::maybe_bytes(codes)?;
        let codes: Vec<CodeGroups> = codes.map_or(Ok(Vec::new()), |codes| from_json(&codes))?;
        let campaign = LeavingKeys::new(partition, id, &slots, &codes);
        let until = campaign.count().min(next.saturating_add(KEYS_MAX));
        let mut keys: Vec<Key> = vec![
            partition.partition.clone(),
            partition.removal(id),
            partition.closed_campaigns.clone(),
            partition.salts.clone(),
        ];
        keys.extend((next..until).map(|number| campaign.key(number)));
        let numbers = [next, campaign.count(), REMOVED_FIELDS_MAX as u32];
        let mut args = vec![id.to_string()];
        args.extend(numbers.map(|number| number.to_string()));
        // No confirmation is needed: what a failover brings back is removed again.
        let (_, mut parts) = self.ask(partition, &scripts::REMOVE, keys, args).await?;
        Ok(reply::number::<u8>(parts.next()?)? == 1)
    }
}

impl Loaded {
    /// The step that writes the tombstone, on condition that nothing has changed since the campaign
    /// was read, and that the partition is still in this fork.
    fn tombstone(&self, partition: &PartitionKeys, fork: &str) -> Commit {
        let state = &self.state;
        let (id, end) = (&state.view.campaign.id, state.view.campaign.end);
        let keys = partition.campaign(id);
        let mark = Some(state.fork);
        let mut commit = Commit::new(partition, &keys, id, self.revision(), state.now, mark);
        let name = id.as_str().as_bytes().to_vec();
        commit.expect_field(Commit::PARTITION, b"replid", fork.as_bytes());
        let removed = commit.key(Kind::Hash, partition.removed_campaigns.clone());
        let digest = IdDigest::campaign(id);
        let end = end.as_micros().to_string().into_bytes();
        commit.write("HSET", removed, [digest.field.to_vec(), end]);
        let removal = commit.key(Kind::Hash, partition.removal(id));
        let slots = self.layout.as_ref().map(|layout| &layout.slots);
        let mut fields = vec![
            b"next".to_vec(),
            b"0".to_vec(),
            b"slots".to_vec(),
            to_json(&slots.cloned().unwrap_or_default()),
        ];
        let codes = self.code_groups();
        if !codes.is_empty() {
            fields.extend([b"codes".to_vec(), to_json(&codes)]);
        }
        commit.write("HSET", removal, fields);
        let campaigns = commit.key(Kind::SortedSet, partition.campaigns.clone());
        commit.write("ZREM", campaigns, [name.clone()]);
        let due = commit.key(Kind::SortedSet, partition.due_campaigns.clone());
        commit.write("ZREM", due, [name.clone()]);
        let closed = commit.key(Kind::SortedSet, partition.closed_campaigns.clone());
        let leaving = Moment::EPOCH.as_micros().to_string().into_bytes();
        commit.write("ZADD", closed, [leaving, name]);
        let proposals = commit.key(Kind::SortedSet, partition.proposals.clone());
        commit.write("ZREM", proposals, [id.as_str().into()]);
        commit.write("UNLINK", Commit::CAMPAIGN, []);
        commit
    }
}

/// A prize, and the number of groups that its codes are in.
type CodeGroups = (PrizeNo, u64);

impl Loaded {
    /// Every prize that has codes.
    fn code_groups(&self) -> Vec<CodeGroups> {
        let prizes = self.state.view.campaign.prizes_with_codes();
        let groups = prizes.map(|prize| {
            let codes = self.state.stock[usize::from(prize.0)].given;
            (prize, codes.div_ceil(BLOCK_CODES * GROUP_BLOCKS))
        });
        groups.collect()
    }
}

/// The keys of a campaign that has a tombstone. They are numbered in the order in which they are
/// removed; a later version may add keys at the end only.
struct LeavingKeys {
    pools: Vec<Key>,
    campaign: CampaignKeys,
    rest: Vec<Key>,
}

impl LeavingKeys {
    fn new(
        partition: &PartitionKeys,
        id: &CampaignId,
        slots: &Slots,
        codes: &[CodeGroups],
    ) -> Self {
        let pools = (0..).map(PoolNo).zip(slots);
        let pools = pools.flat_map(|(no, slots)| {
            let pool = partition.pool(id, no, true, slots);
            let queues = pool.queues.into_iter().map(|queue| queue.key);
            queues.chain([pool.ends, pool.windows, pool.wins])
        });
        let campaign = partition.campaign(id);
        let rest = [
            &campaign.long,
            &campaign.operations,
            &campaign.deliveries,
            &campaign.blocked,
            &campaign.blocks,
            &campaign.versions,
        ];
        let named = &campaign;
        let codes = codes
            .iter()
            .flat_map(|&(prize, groups)| (0..groups).map(move |group| named.codes(prize, group)));
        let rest = rest.into_iter().cloned().chain(codes);
        let rest = rest.chain([campaign.proposals.clone()]);
        Self {
            pools: pools.collect(),
            rest: rest.collect(),
            campaign,
        }
    }

    /// How many they are. Most of them do not exist.
    fn count(&self) -> u32 {
        let (pools, rest) = (self.pools.len() as u32, self.rest.len() as u32);
        pools + u32::from(USER_HASHES) + BUCKETS + rest
    }

    /// The key of a number below [`Self::count`].
    fn key(&self, number: u32) -> Key {
        let pools = self.pools.len() as u32;
        if number < pools {
            return self.pools[number as usize].clone();
        }
        let number = number - pools;
        if number < u32::from(USER_HASHES) {
            return self.campaign.users(number as u8);
        }
        let number = number - u32::from(USER_HASHES);
        if number < BUCKETS {
            return self.campaign.older(number as u16);
        }
        self.rest[(number - BUCKETS) as usize].clone()
    }
}
