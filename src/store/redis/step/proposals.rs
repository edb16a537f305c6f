//! Proposals of changes. They are in one hash of each campaign, which need not exist: the field
//! `list` has all of them as JSON, and the field of each id the definition that it proposes. A step
//! writes on condition that `list` is as it was read. Each step removes one of the hashes of the
//! partition that nobody needs any more.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    campaign::{decode, from_json, to_json},
    commit::{Commit, Kind},
    decide::{approval_fingerprint, until_made},
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
    /// Another campaign whose proposals nobody needs any more, and its list.
    outdated: Option<(CampaignId, Option<Vec<u8>>)>,
}

impl KeptProposals {
    /// Adds the conditions and writes of a step.
    pub(crate) fn write(&self, commit: &mut Commit, partition: &PartitionKeys, id: &CampaignId) {
        commit.expect_format(GUARANTEES_FORMAT);
        let key = commit.key(Kind::Hash, partition.campaign(id).proposals);
        expect_list(commit, key, self.stored.as_deref());
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
        let index = commit.key(Kind::SortedSet, partition.proposals.clone());
        let until = self.list.kept_until().as_micros().to_string();
        commit.write("ZADD", index, [until.into(), id.as_str().into()]);
        if let Some((id, stored)) = &self.outdated {
            let key = commit.key(Kind::Hash, partition.campaign(id).proposals);
            expect_list(commit, key, stored.as_deref());
            commit.write("DEL", key, []);
            commit.write("ZREM", index, [id.as_str().into()]);
        }
    }
}

fn decode_list(stored: Option<&[u8]>) -> Result<Proposals> {
    Ok(stored.map(from_json).transpose()?.unwrap_or_default())
}

fn expect_list(commit: &mut Commit, key: usize, stored: Option<&[u8]>) {
    match stored {
        Some(stored) => commit.expect_field(key, LIST.as_bytes(), stored),
        None => commit.expect_absent(key, LIST.as_bytes()),
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
    /// Reads the proposals of a campaign as they are stored.
    async fn stored_proposals(&self, id: &CampaignId) -> Result<Option<Vec<u8>>> {
        let mut command = redis::cmd("HGET");
        command
            .arg(self.partition(id).campaign(id).proposals)
            .arg(LIST);
        reply::maybe_bytes(self.ask_command(&command).await?)
    }

    /// Reads the proposals of a campaign for a step. A retry may be answered with them.
    async fn kept_proposals(&self, id: &CampaignId, base: &Base) -> Result<KeptProposals> {
        let partition = self.partition(id);
        let hash = partition.campaign(id).proposals;
        let mut found = self.recall(partition, &[hash], LIST.as_bytes()).await?;
        let stored = reply::maybe_bytes(found.next()?)?;
        let list = decode_list(stored.as_deref())?;
        let until = base.now.as_micros().to_string();
        let found = self.with_proposals(partition, ["-inf", &until, "LIMIT", "0", "2"]);
        let outdated = found.await?.into_iter().find(|other| other != id);
        let outdated = match outdated {
            Some(other) => {
                let stored = self.stored_proposals(&other).await?;
                Some((other, stored))
            }
            None => None,
        };
        Ok(KeptProposals {
            stored,
            before: list.clone(),
            list,
            version: base.base.version,
            definition: None,
            outdated,
        })
    }

    /// The campaigns of a partition that have proposals, by a range of the moments until which
    /// these are kept.
    async fn with_proposals<const N: usize>(
        &self,
        partition: &PartitionKeys,
        range: [&str; N],
    ) -> Result<Vec<CampaignId>> {
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(&partition.proposals).arg(&range);
        let found = reply::list(self.ask_command(&command).await?)?;
        let ids = found.into_iter().map(|id| {
            let id = CampaignId::parse("campaign", &reply::text(id)?);
            id.map_err(|problem| StoreError::corrupt(problem.message))
        });
        ids.collect()
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
        kept.write(&mut commit, partition, id);
        let (all, args) = commit.into_parts(self.read_holds());
        let (_, mut parts) = self.run(partition, &scripts::COMMIT, &all, args).await?;
        let answer = parts.next().map_err(StoreError::after_write)?;
        match letter(&answer) {
            Some(b'S') => Ok(false),
            Some(b'O') => Err(Refusal::UpgradeNeeded.into()),
            _ => Ok(true),
        }
    }

    async fn try_propose(&self, command: &ProposeCommand) -> Result<Option<ProposalReply>> {
        let id = &command.campaign;
        let base = self.proposal_base(id).await?;
        let mut kept = self.kept_proposals(id, &base).await?;
        let reply = rules::propose(&mut kept.list, command, base.base, base.now)?;
        if reply.replayed {
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
        let mut kept = self.kept_proposals(id, &base).await?;
        let reply = rules::reject(&mut kept.list, command, base.base, base.now)?;
        if reply.replayed {
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
        let mut kept = self.kept_proposals(id, &base).await?;
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
        until_made(|| self.core.try_propose(&command)).await
    }

    async fn approve(&self, command: ApproveCommand) -> Result<Operated> {
        let _turn = self.turn(command.change.campaign()).lock().await;
        until_made(|| self.core.try_approve(&command)).await
    }

    async fn reject(&self, command: RejectCommand) -> Result<ProposalReply> {
        let _turn = self.turn(&command.campaign).lock().await;
        until_made(|| self.core.try_reject(&command)).await
    }

    async fn proposals(&self, campaign: &CampaignId) -> Result<Proposals> {
        decode_list(self.core.stored_proposals(campaign).await?.as_deref())
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
        let now = self.clock_hint().as_micros().to_string();
        let mut ids = Vec::new();
        for partition in &self.core.partitions {
            let found = self.core.with_proposals(partition, [&now, "+inf"]).await?;
            ids.extend(
                found
                    .into_iter()
                    .filter(|id| after.is_none_or(|after| id > after)),
            );
        }
        ids.sort_unstable();
        ids.truncate(limit);
        Ok(ids)
    }
}
