//! Proposals of changes. They are in one hash of each campaign, which need not exist: the field
//! `list` has all of them as JSON, and the field of each id the definition that it proposes. A step
//! writes on condition that `list` is as it was read. The hash expires when nobody needs it any
//! more.

use std::sync::Arc;

use async_trait::async_trait;
use redis::Value;

use super::{
    campaign::{decode, from_json, to_json},
    commit::{Commit, Kind},
    decide::{ROUNDS_MAX, approval_fingerprint, contended},
};
use crate::store::redis::{
    RedisStore,
    core::Core,
    format::{
        keys::{IdDigest, PartitionKeys},
        reply::{self, letter},
        scripts,
        version::GUARANTEES_FORMAT,
    },
};
use crate::{
    model::{Campaign, CampaignId, Moment, convert},
    store::{
        ApproveCommand, Change, Operated, ProposalBase, ProposalId, ProposalReply, ProposalStore,
        Proposals, ProposeCommand, Proposed, Refusal, RejectCommand, Result, Store as _,
        StoreError, rules,
    },
};

/// The field of the list.
const LIST: &str = "list";

/// The proposals of a campaign, as they were read and as a rule has left them.
pub(crate) struct KeptProposals {
    /// The field as it was read.
    stored: Option<Vec<u8>>,
    before: Proposals,
    list: Proposals,
    /// The campaign's version for which the rule has decided.
    pub(crate) version: u32,
    /// The definition of a new one.
    definition: Option<(ProposalId, Vec<u8>)>,
}

impl KeptProposals {
    /// Adds the conditions and writes of a step.
    pub(crate) fn write(
        &self,
        commit: &mut Commit,
        partition: &PartitionKeys,
        id: &CampaignId,
        now: Moment,
    ) {
        commit.expect_format(GUARANTEES_FORMAT);
        let key = commit.key(Kind::Hash, partition.campaign(id).proposals);
        match &self.stored {
            Some(stored) => commit.expect_field(key, LIST.as_bytes(), stored),
            None => commit.expect_absent(key, LIST.as_bytes()),
        }
        let mut fields = vec![LIST.into(), to_json(&self.list)];
        if let Some((id, definition)) = &self.definition {
            fields.extend([id.as_str().into(), definition.clone()]);
        }
        commit.write("HSET", key, fields);
        let gone = self.before.0.iter().map(|known| &known.id);
        let gone: Vec<Vec<u8>> = gone
            .filter(|id| self.list.get(id).is_none())
            .map(|id| id.as_str().into())
            .collect();
        if !gone.is_empty() {
            commit.write("HDEL", key, gone);
        }
        let kept_for = rules::kept_for(&self.list, now).as_millis();
        commit.write("PEXPIRE", key, [kept_for.to_string().into()]);
        let index = commit.key(Kind::SortedSet, partition.proposals.clone());
        let until = self.list.kept_until().as_micros().to_string();
        commit.write("ZADD", index, [until.into(), id.as_str().into()]);
        let now = now.as_micros().to_string().into();
        commit.write("ZREMRANGEBYSCORE", index, [b"-inf".to_vec(), now]);
    }
}

/// What a campaign is, of which a proposal is read.
struct Base {
    base: ProposalBase,
    now: Moment,
    revision: String,
    /// None if there is no campaign.
    fork: Option<u32>,
}

impl Core {
    /// Reads the proposals of a campaign.
    async fn kept_proposals(&self, id: &CampaignId, version: u32) -> Result<KeptProposals> {
        let mut command = redis::cmd("HGET");
        command
            .arg(self.partition(id).campaign(id).proposals)
            .arg(LIST);
        let stored = reply::maybe_bytes(self.ask_command(&command).await?)?;
        let list = stored.as_deref().map(from_json).transpose()?;
        let list: Proposals = list.unwrap_or_default();
        Ok(KeptProposals {
            stored,
            before: list.clone(),
            list,
            version,
            definition: None,
        })
    }

    async fn proposal_base(&self, id: &CampaignId) -> Result<Base> {
        match self.load(id, &[]).await {
            Ok(loaded) => Ok(Base {
                base: ProposalBase::of(&loaded.state.view),
                now: loaded.state.now,
                fork: Some(loaded.state.fork),
                revision: loaded.revision,
            }),
            Err(StoreError::Refused(Refusal::CampaignNotFound)) => Ok(Base {
                base: ProposalBase::default(),
                now: self.time(id).await?,
                fork: None,
                revision: String::new(),
            }),
            Err(error) => Err(error),
        }
    }

    /// Writes proposals and nothing else; false if something has changed since they were read.
    async fn write_proposals(
        &self,
        id: &CampaignId,
        base: &Base,
        kept: &KeptProposals,
    ) -> Result<bool> {
        let partition = self.partition(id);
        let keys = partition.campaign(id);
        let (revision, now) = (&base.revision, base.now);
        let mut commit = Commit::new(partition, &keys, id, revision, now, base.fork);
        let removed = commit.key(Kind::Hash, partition.removed_campaigns.clone());
        commit.expect_absent(removed, &IdDigest::campaign(id).field);
        kept.write(&mut commit, partition, id, now);
        let (all, args) = commit.into_parts();
        let (_, mut parts) = self.run(partition, &scripts::COMMIT, &all, args).await?;
        let answer = parts.next().map_err(StoreError::after_write)?;
        match letter(&answer) {
            Some(b'S') => Ok(false),
            Some(b'O') => Err(Refusal::UpgradeNeeded.into()),
            _ => Ok(true),
        }
    }

    /// A reply that repeats an earlier one is as durable as that was.
    async fn confirm_proposals(&self, id: &CampaignId) -> Result<()> {
        let partition = self.partition(id);
        let confirmed = self.connections.confirm(partition.partition.as_ref());
        Ok(confirmed.await?)
    }

    async fn try_propose(&self, command: &ProposeCommand) -> Result<Option<ProposalReply>> {
        let id = &command.campaign;
        let base = self.proposal_base(id).await?;
        let mut kept = self.kept_proposals(id, base.base.version).await?;
        let reply = rules::propose(&mut kept.list, command, base.base, base.now)?;
        if reply.replayed {
            self.confirm_proposals(id).await?;
            return Ok(Some(reply));
        }
        if let Proposed::Version(campaign) = &command.proposed {
            let definition = convert::encode(campaign);
            kept.definition = Some((reply.proposal.id.clone(), definition));
        }
        let is_written = self.write_proposals(id, &base, &kept).await?;
        Ok(is_written.then_some(reply))
    }

    async fn try_reject(&self, command: &RejectCommand) -> Result<Option<ProposalReply>> {
        let id = &command.campaign;
        let base = self.proposal_base(id).await?;
        let mut kept = self.kept_proposals(id, base.base.version).await?;
        let reply = rules::reject(&mut kept.list, command, base.base, base.now)?;
        if reply.replayed {
            self.confirm_proposals(id).await?;
            return Ok(Some(reply));
        }
        let is_written = self.write_proposals(id, &base, &kept).await?;
        Ok(is_written.then_some(reply))
    }

    async fn try_approve(&self, command: &ApproveCommand) -> Result<Option<Operated>> {
        let id = command.change.campaign();
        let base = self.proposal_base(id).await?;
        if base.fork.is_some() {
            let fingerprint = approval_fingerprint(command);
            let (request, version) = (&command.change.author().request, base.base.version);
            let replayed = self.replayed(id, request, &fingerprint, version);
            if let Some(operated) = replayed.await? {
                return Ok(Some(operated));
            }
        }
        let mut kept = self.kept_proposals(id, base.base.version).await?;
        match rules::approve(&mut kept.list, command, base.base, base.now)? {
            Change::Version(command) if base.fork.is_none() => {
                self.create(&command, Some(kept)).await
            }
            Change::Version(command) => self.change(&command, Some(kept)).await,
            Change::Operation(command) => self.try_operate(&command, Some(kept)).await,
        }
    }
}

#[async_trait]
impl ProposalStore for RedisStore {
    async fn propose(&self, command: ProposeCommand) -> Result<ProposalReply> {
        let _turn = self.turn(&command.campaign).lock().await;
        for _ in 0..ROUNDS_MAX {
            if let Some(reply) = self.core.try_propose(&command).await? {
                return Ok(reply);
            }
        }
        Err(contended())
    }

    async fn approve(&self, command: ApproveCommand) -> Result<Operated> {
        let _turn = self.turn(command.change.campaign()).lock().await;
        for _ in 0..ROUNDS_MAX {
            if let Some(operated) = self.core.try_approve(&command).await? {
                return Ok(operated);
            }
        }
        Err(contended())
    }

    async fn reject(&self, command: RejectCommand) -> Result<ProposalReply> {
        let _turn = self.turn(&command.campaign).lock().await;
        for _ in 0..ROUNDS_MAX {
            if let Some(reply) = self.core.try_reject(&command).await? {
                return Ok(reply);
            }
        }
        Err(contended())
    }

    async fn proposals(&self, campaign: &CampaignId) -> Result<Proposals> {
        Ok(self.core.kept_proposals(campaign, 0).await?.list)
    }

    async fn proposed_definition(
        &self,
        campaign: &CampaignId,
        proposal: &ProposalId,
    ) -> Result<Option<Arc<Campaign>>> {
        let mut command = redis::cmd("HGET");
        command
            .arg(self.core.partition(campaign).campaign(campaign).proposals)
            .arg(proposal.as_str());
        let found = reply::maybe_bytes(self.core.ask_command(&command).await?)?;
        found.map(|bytes| decode(&bytes)).transpose()
    }

    async fn campaigns_with_proposals(
        &self,
        after: Option<&CampaignId>,
        limit: usize,
    ) -> Result<Vec<CampaignId>> {
        let now = self.clock_hint().as_micros();
        let mut ids = Vec::new();
        for partition in &self.core.partitions {
            let mut command = redis::cmd("ZRANGEBYSCORE");
            command.arg(&partition.proposals).arg(now).arg("+inf");
            let found: Value = self.core.ask_command(&command).await?;
            for id in reply::list(found)? {
                let id = CampaignId::parse("campaign", &reply::text(id)?);
                let id = id.map_err(|problem| StoreError::corrupt(problem.message))?;
                if after.is_none_or(|after| id > *after) {
                    ids.push(id);
                }
            }
        }
        ids.sort_unstable();
        ids.truncate(limit);
        Ok(ids)
    }
}
