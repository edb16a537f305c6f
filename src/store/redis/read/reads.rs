//! Reads of draws, blocked users, ids of campaigns, and the ledger; and two tasks of the whole
//! store: the probe, and forgetting old requests.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use redis::Value;
use tokio::{task::JoinSet, time::timeout};

use crate::store::redis::{
    core::{Attempt, Core, Kept},
    envelopes::decode_grabs,
    format::{
        asked,
        keys::{BUCKETS, IdDigest, Key, PartitionKeys, USER_HASHES, request_field},
        record,
        reply::{self, Parts, letter, unexpected},
        scripts,
    },
    step::campaign::from_json,
};
use crate::{
    model::{CampaignId, EnvelopeId, Moment, RequestId, UserId},
    store::{
        CampaignView, DrawAnswer, Entry, Executed, LEDGER_PAGE_BYTES, LedgerId, Refusal, Result,
        StoreError, Subject, Trouble, Unread, entry::Body,
    },
    trace,
};

/// The most buckets that one script searches for old draws. No draw is made while a script runs.
const FORGET_BUCKETS: u32 = 256;
/// Once one partition has answered a probe, the others have this long: a probe does not wait for a
/// node that hangs.
const PROBE_SLACK: Duration = Duration::from_secs(1);
/// The number of partitions whose probe also waits for replicas to confirm: enough to have one on
/// every server.
const PROBES_KEPT: u32 = 16;
/// How often a probe is tried while its partition forks.
const PROBE_ROUNDS_MAX: usize = 4;

/// The error of a partition that has not answered in time.
fn silent() -> StoreError {
    StoreError::Unavailable {
        executed: Executed::No,
        detail: "no answer in time".into(),
    }
}

impl Core {
    /// The time of a campaign's partition.
    pub(crate) async fn time(&self, id: &CampaignId) -> Result<Moment> {
        self.probe_partition(self.partition(id)).await
    }

    /// Probes all partitions at once; returns the latest of their times, and notes those that fail.
    /// Fails if none of them works: a partition that is halted or damaged, or whose node is away or
    /// hangs, stops only its own campaigns. Also fails while the durability level is not kept, as
    /// no draw is made then.
    pub(crate) async fn probe(self: &Arc<Self>) -> Result<Moment> {
        let mut asked = JoinSet::new();
        for partition in &self.partitions {
            let (core, partition) = (Arc::clone(self), Arc::clone(partition));
            asked.spawn(async move { (partition.number, core.probe_partition(&partition).await) });
        }
        let mut answers: Vec<Option<Result<Moment>>> = vec![None; self.partitions.len()];
        let mut latest: Option<Moment> = None;
        loop {
            let next = match latest {
                Some(_) => timeout(PROBE_SLACK, asked.join_next())
                    .await
                    .unwrap_or(None),
                None => asked.join_next().await,
            };
            let Some(answered) = next else { break };
            // A task that panicked has not answered.
            if let Ok((number, answer)) = answered {
                latest = latest.max(answer.as_ref().ok().copied());
                answers[number as usize] = Some(answer);
            }
        }
        let failed = (0..).zip(answers).filter_map(|(partition, answer)| {
            let error = answer.unwrap_or_else(|| Err(silent())).err()?;
            Some(Trouble { partition, error })
        });
        let troubles: Vec<_> = failed.collect();
        if troubles.is_empty() {
            self.has_logged_loss.store(false, Ordering::Relaxed);
        }
        let worst = troubles.iter().max_by_key(|trouble| trouble.state());
        let worst = worst.map(|trouble| trouble.error.clone());
        *self.troubles.lock().unwrap_or_else(PoisonError::into_inner) = troubles;
        let now = latest.ok_or_else(|| worst.unwrap_or_else(|| unexpected("partition")))?;
        self.level.admit().map(|()| now)
    }

    /// Checks that a partition exists, is whole, and takes writes, by writing to it; returns its
    /// time. Records a fork, but does not wait for it to open: draws do.
    async fn probe_partition(&self, partition: &PartitionKeys) -> Result<Moment> {
        let typed = [
            (&partition.campaigns, "zset"),
            (&partition.due_campaigns, "zset"),
            (&partition.closed_campaigns, "zset"),
            (&partition.removed_campaigns, "hash"),
            (&partition.open_envelopes, "zset"),
            (&partition.settled_envelopes, "zset"),
            (&partition.envelope_sums, "hash"),
        ];
        let mut keys = vec![partition.partition.clone(), partition.ledger.clone()];
        keys.extend(typed.iter().map(|(key, _)| Key::clone(key)));
        let (keys, args) = (keys.into(), typed.map(|(_, kind)| kind).into());
        let kept = if partition.number < PROBES_KEPT {
            Kept::Yes
        } else {
            Kept::No
        };
        for _ in 0..PROBE_ROUNDS_MAX {
            let attempt = self
                .attempt(partition, &scripts::PROBE, &keys, &args, kept)
                .await;
            let (now, attempt) = attempt.map_err(|error| error.with_executed(Executed::No))?;
            match attempt {
                Attempt::Done(mut parts) => {
                    self.witnesses.is_well(partition.number);
                    return match parts.maybe_next() {
                        Some(flaw) => Err(StoreError::corrupt(reply::text(flaw)?)),
                        None => Ok(now),
                    };
                }
                Attempt::Opens(_) => return Ok(now),
                Attempt::Forked => self.record_fork(partition).await?,
            }
        }
        Err(unexpected("fork"))
    }

    /// The first part of a reply after its head; an error if it says that the campaign is missing.
    pub(crate) fn first(&self, parts: &mut Parts) -> Result<Value> {
        let first = parts.next()?;
        match letter(&first) {
            Some(b'M') => Err(Refusal::CampaignNotFound.into()),
            _ => Ok(first),
        }
    }

    /// The answer of a remembered draw.
    pub(crate) async fn find_draw(
        &self,
        id: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<DrawAnswer> {
        let partition = self.partition(id);
        let (digest, request_field) = (IdDigest::user(user), request_field(user, request));
        let campaign = partition.campaign(id);
        let keys = [
            partition.partition.clone(),
            campaign.campaign.clone(),
            campaign.users(digest.hash()),
            campaign.older(digest.bucket),
            campaign.long,
        ];
        let args = [digest.field.as_slice(), request_field.as_slice()];
        let (now, mut parts) = self
            .ask_kept(partition, &scripts::FIND, &keys, &args)
            .await?;
        let first = self.first(&mut parts);
        let stored = reply::maybe_bytes(self.explained(id, first).await?)?;
        let stored = stored.map(|bytes| record::decode_record(&bytes));
        let latest = stored.transpose()?.and_then(|stored| stored.latest);
        let found = match latest.filter(|latest| latest.request == request_field) {
            Some(latest) => Some(latest.packed),
            None => reply::maybe_bytes(parts.next()?)?,
        };
        let remembered = record::decode_remembered(&found.ok_or(Refusal::DrawNotFound)?)?;
        if remembered.is_grant() {
            return Err(Refusal::DrawNotFound.into());
        }
        let (at, sequence) = (remembered.at, remembered.sequence);
        if at < now - self.request_memory {
            return Err(Refusal::DrawNotFound.into());
        }
        let ledger = LedgerId {
            partition: partition.number,
            sequence,
        };
        self.witnesses.repeat(&parts, &ledger);
        let campaign = self.definition(id, remembered.version).await;
        let campaign = campaign.map_err(StoreError::of_recorded_version)?;
        let entry = remembered.into_entry(user.clone(), request.clone(), String::new());
        entry.check(&campaign)?;
        Ok(DrawAnswer::replayed(Arc::new(entry), ledger, at, campaign))
    }

    /// Those of these users who are blocked (with `is_blocked`), or who are not.
    pub(crate) async fn users_blocked(
        &self,
        id: &CampaignId,
        users: &[UserId],
        is_blocked: bool,
    ) -> Result<Vec<UserId>> {
        let mut command = redis::cmd("SMISMEMBER");
        command.arg(self.partition(id).campaign(id).blocked);
        for user in users {
            command.arg(&IdDigest::user(user).field);
        }
        let found = reply::list(self.ask_command(&command).await?)?;
        let mut matching = Vec::new();
        for (user, found) in users.iter().zip(found) {
            if (reply::number::<u8>(found)? == 1) == is_blocked {
                matching.push(user.clone());
            }
        }
        Ok(matching)
    }

    /// Ids of a partition's campaigns, in order, after one of them.
    pub(crate) async fn campaign_ids(
        &self,
        partition: u32,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<CampaignId>> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(Vec::new());
        };
        let all = [keys.partition.clone(), keys.campaigns.clone()];
        let from = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
        let args = vec![from.into_bytes(), limit.to_string().into_bytes()];
        let (_, mut parts) = self.ask(keys, &scripts::CAMPAIGNS, &all, args).await?;
        let ids = reply::list(self.first(&mut parts)?)?.into_iter();
        ids.map(|id| campaign_id(&reply::text(id)?)).collect()
    }

    /// Ids of campaigns of all partitions, in order, after one of them, at most `limit`; and the
    /// partitions that cannot be read. All are asked at once, so those that are away cost no more
    /// time than one of them. Fails if none can be read.
    pub(crate) async fn readable_ids(
        self: &Arc<Self>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<CampaignId>, Vec<Unread>)> {
        let mut asked = JoinSet::new();
        for partition in self.partitions.iter().map(|keys| keys.number) {
            let (core, after) = (Arc::clone(self), after.map(str::to_owned));
            asked.spawn(trace::inherit(async move {
                let ids = core.campaign_ids(partition, after.as_deref(), limit);
                (partition, ids.await)
            }));
        }
        let (mut ids, mut unread) = (Vec::new(), Vec::new());
        while let Some(answer) = asked.join_next().await {
            let (partition, found) = answer.map_err(|_| unexpected("answer"))?;
            match found {
                Ok(found) => ids.extend(found),
                Err(error) => unread.push(Unread {
                    partition,
                    campaign: None,
                    error,
                }),
            }
        }
        unread.sort_unstable_by_key(|unread| unread.partition);
        if unread.len() == self.partitions.len() {
            return Err(unread.swap_remove(0).error);
        }
        ids.sort_unstable();
        ids.truncate(limit);
        Ok((ids, unread))
    }

    /// A campaign.
    pub(crate) async fn view(&self, id: &CampaignId) -> Result<CampaignView> {
        let (_, fields, layout) = self.read(id).await?;
        fields.view(Arc::clone(&layout.campaign))
    }

    /// Campaigns in the order of their ids, some at a time: what a list waits for is mostly the
    /// network.
    pub(crate) async fn views(
        self: &Arc<Self>,
        ids: Vec<CampaignId>,
    ) -> Vec<(CampaignId, Result<CampaignView>)> {
        let mut reads = JoinSet::new();
        for id in ids {
            let core = Arc::clone(self);
            reads.spawn(trace::inherit(async move {
                let turn = Arc::clone(&core.list_turns).acquire_owned().await;
                // A read that has begun ends even if the list is dropped: to break it off would
                // close its connection.
                let own = id.clone();
                let read = tokio::spawn(trace::inherit(async move {
                    let view = core.view(&own).await;
                    drop(turn);
                    view
                }));
                let view = read.await.unwrap_or_else(|_| Err(unexpected("campaign")));
                (id, view)
            }));
        }
        let mut views = reads.join_all().await;
        views.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        views
    }

    /// Forgets all old draws of each partition. Goes on after a failure, and returns the first one
    /// at the end: a partition that is halted or away does not keep the others from forgetting.
    pub(crate) async fn forget(&self) -> Result<()> {
        let mut outcome = Ok(());
        for partition in &self.partitions {
            outcome = outcome.and(self.forget_in(partition).await);
        }
        outcome
    }

    /// Follows the round, which other services may move on, until it ends.
    async fn forget_in(&self, partition: &PartitionKeys) -> Result<()> {
        let mut buckets = FORGET_BUCKETS;
        let mut at = self.forget_from(partition, None, buckets).await?;
        while let Some(from) = at {
            let next = self.forget_from(partition, Some(&from), buckets).await?;
            // Twice as many as were searched: no call has many keys that it does not come to.
            if let Some((campaign, number)) = &next
                && *campaign == from.0
                && from.1 >= u32::from(USER_HASHES)
            {
                let searched = number.saturating_sub(from.1);
                let twice = searched.saturating_mul(2);
                buckets = twice.clamp(FORGET_BUCKETS / 32, FORGET_BUCKETS);
            }
            at = next;
        }
        Ok(())
    }

    /// Forgets old draws in some hashes of a campaign, or in some of this many buckets; returns the
    /// one to go on with. A call without a place to go on from asks how far the round is.
    async fn forget_from(
        &self,
        partition: &PartitionKeys,
        from: Option<&(CampaignId, u32)>,
        buckets: u32,
    ) -> Result<Option<(CampaignId, u32)>> {
        let mut keys: Vec<Key> = vec![partition.partition.clone(), partition.campaigns.clone()];
        let mut args = vec![self.request_memory.as_micros().to_string()];
        if let Some((campaign, number)) = from {
            let campaign_keys = partition.campaign(campaign);
            let hashes = u32::from(USER_HASHES);
            match number.checked_sub(hashes) {
                None => keys.extend((*number..hashes).map(|hash| campaign_keys.users(hash as u8))),
                Some(bucket) => {
                    let until = BUCKETS.min(bucket.saturating_add(buckets));
                    keys.extend((bucket..until).map(|bucket| campaign_keys.older(bucket as u16)));
                }
            }
            keys.insert(2, campaign_keys.long);
            args.push(campaign.to_string());
            args.extend([*number, hashes, hashes + BUCKETS].map(|number| number.to_string()));
        }
        // No confirmation is needed: what a failover brings back is forgotten again.
        let (_, mut parts) = self.ask(partition, &scripts::FORGET, keys, args).await?;
        let number = reply::number(parts.next()?)?;
        let campaign = reply::text(parts.next()?)?;
        if campaign.is_empty() {
            return Ok(None);
        }
        Ok(Some((campaign_id(&campaign)?, number)))
    }

    /// Entries of a partition's ledger after `sequence`.
    pub(crate) async fn ledger(
        &self,
        partition: u32,
        sequence: u64,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(Vec::new());
        };
        let all = [keys.partition.clone(), keys.ledger.clone()];
        let args = [sequence, limit as u64, LEDGER_PAGE_BYTES as u64];
        let args = args.map(|number| number.to_string());
        let (_, mut parts) = self.ask(keys, &scripts::LEDGER, &all, args).await?;
        let mut entries = Vec::new();
        for item in reply::list(self.first(&mut parts)?)? {
            read_item(partition, item, &mut entries)?;
        }
        entries.retain(|entry| entry.id.sequence > sequence);
        entries.truncate(limit);
        Ok(entries)
    }
}

/// Reads an item of the stream, whose id is the number of its last entry.
pub(in crate::store::redis) fn read_item(
    partition: u32,
    item: Value,
    entries: &mut Vec<Entry>,
) -> Result<()> {
    let mut item = Parts::of(item)?;
    let id = reply::text(item.next()?)?;
    let last = id
        .split('-')
        .next()
        .and_then(|number| number.parse::<u64>().ok());
    let last = last.ok_or_else(|| unexpected("sequence number"))?;
    let mut fields = Parts::of(item.next()?)?;
    let (mut subject, mut at, mut version, mut count) = (None, None, 0, 0u64);
    let (mut number, mut fork) = (None, 0);
    let (mut parts, mut answers) = (Vec::new(), Vec::new());
    let (mut grabbers, mut packets) = (Vec::new(), Vec::new());
    let mut bodies = Vec::new();
    while let Some(name) = fields.maybe_next() {
        let value = fields.next()?;
        match reply::text(name)?.as_str() {
            "c" => subject = Some(Subject::Campaign(campaign_id(&reply::text(value)?)?)),
            "e" => subject = Some(Subject::Envelope(envelope_id(&reply::text(value)?)?)),
            "t" => at = Some(reply::moment(value)?),
            "v" => version = reply::number(value)?,
            "n" => count = reply::number(value)?,
            "i" => number = Some(reply::number::<u64>(value)?),
            "f" => fork = reply::number(value)?,
            "j" => bodies.push(from_json::<Body>(&reply::bytes(value)?)?),
            "d" => parts = reply::bytes(value)?,
            "a" => answers = reply::bytes(value)?,
            "g" => grabbers = reply::bytes(value)?,
            "p" => packets = reply::bytes(value)?,
            other => {
                return Err(StoreError::corrupt(format!(
                    "an item of the ledger has a field `{other}`"
                )));
            }
        }
    }
    bodies.extend(asked::decode_draws(&parts, &answers, version)?);
    bodies.extend(decode_grabs(&grabbers, &packets)?);
    if bodies.len() as u64 != count || count > last {
        return Err(StoreError::corrupt(format!(
            "item {id} of the ledger does not have the {count} entries that it states"
        )));
    }
    if let [Body::Forked { .. } | Body::Recovered { .. }] = bodies.as_slice() {
        subject = Some(Subject::Partition);
    }
    let subject = subject.ok_or_else(|| unexpected("campaign or envelope"))?;
    let at = at.ok_or_else(|| unexpected("moment"))?;
    let before = number.map(|number| number.checked_sub(count));
    let before = before.map(|before| before.ok_or_else(|| unexpected("number in the campaign")));
    let before = before.transpose()?;
    for (index, body) in (1..).zip(bodies) {
        let sequence = last - count + index;
        let id = LedgerId {
            partition,
            sequence,
        };
        entries.push(Entry {
            id,
            number: before.map(|before| before + index),
            fork,
            at,
            subject: subject.clone(),
            body,
        });
    }
    Ok(())
}

fn campaign_id(id: &str) -> Result<CampaignId> {
    CampaignId::parse("campaign", id).map_err(|problem| StoreError::corrupt(problem.message))
}

fn envelope_id(id: &str) -> Result<EnvelopeId> {
    EnvelopeId::parse("envelope", id).map_err(|problem| StoreError::corrupt(problem.message))
}
