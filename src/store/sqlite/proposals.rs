//! Proposals of changes. A campaign that does not exist yet can have some, so they are kept by its
//! id.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    SqliteStore,
    columns::{from_json, to_json},
    commands::replay_of,
    job::Command,
    removal::not_found,
    step::Step,
};
use crate::{
    model::{Campaign, CampaignId, convert},
    store::{
        ApproveCommand, Change, Operated, ProposalBase, ProposalId, ProposalReply, ProposalStore,
        Proposals, ProposeCommand, Proposed, Refusal, RejectCommand, Result, StoreError, rules,
    },
};

#[async_trait]
impl ProposalStore for SqliteStore {
    async fn propose(&self, command: ProposeCommand) -> Result<ProposalReply> {
        self.submit(command).await
    }

    async fn approve(&self, command: ApproveCommand) -> Result<Operated> {
        self.submit(command).await
    }

    async fn reject(&self, command: RejectCommand) -> Result<ProposalReply> {
        self.submit(command).await
    }

    async fn proposals(&self, campaign: &CampaignId) -> Result<Proposals> {
        let id = campaign.clone();
        self.read(move |db| load(db, &id)).await
    }

    async fn proposed_definition(
        &self,
        campaign: &CampaignId,
        proposal: &ProposalId,
    ) -> Result<Option<Arc<Campaign>>> {
        let (id, proposal) = (campaign.clone(), proposal.clone());
        self.read(move |db| {
            let sql = "SELECT definition FROM proposed WHERE campaign = ?1 AND id = ?2";
            let mut statement = db.prepare_cached(sql)?;
            let values = params![id.as_str(), proposal.as_str()];
            let found = statement.query_row(values, |row| row.get::<_, Vec<u8>>(0));
            found.optional()?.map(|bytes| decode(&bytes)).transpose()
        })
        .await
    }

    async fn campaigns_with_proposals(
        &self,
        after: Option<&CampaignId>,
        limit: usize,
    ) -> Result<Vec<CampaignId>> {
        let after = after.map_or_else(String::new, ToString::to_string);
        let now = self.clock_now().as_micros();
        self.read(move |db| {
            // What nobody needs any more stays in the table until the next proposal.
            let sql = "SELECT campaign FROM proposals WHERE campaign > ?1 AND kept_until >= ?3
                       ORDER BY campaign LIMIT ?2";
            let mut statement = db.prepare_cached(sql)?;
            let values = params![after, limit, now];
            let ids = statement.query_map(values, |row| row.get::<_, String>(0))?;
            ids.map(|id| {
                let id = CampaignId::parse("campaign", &id?);
                id.map_err(|problem| StoreError::corrupt(problem.message))
            })
            .collect()
        })
        .await
    }
}

/// Reads a definition.
fn decode(bytes: &[u8]) -> Result<Arc<Campaign>> {
    let campaign = convert::decode(bytes);
    let campaign = campaign.map_err(|problems| StoreError::corrupt(problems.to_string()))?;
    Ok(Arc::new(campaign))
}

fn load(db: &Connection, id: &CampaignId) -> Result<Proposals> {
    let sql = "SELECT list FROM proposals WHERE campaign = ?1";
    let mut statement = db.prepare_cached(sql)?;
    let list = statement.query_row([id.as_str()], |row| row.get::<_, String>(0));
    list.optional()?
        .map_or_else(|| Ok(Proposals::default()), |list| from_json(&list))
}

fn save(db: &Connection, id: &CampaignId, before: &Proposals, after: &Proposals) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO proposals (campaign, list, kept_until) VALUES (?1, ?2, ?3)";
    let values = params![id.as_str(), to_json(after), after.kept_until().as_micros()];
    db.prepare_cached(sql)?.execute(values)?;
    let sql = "DELETE FROM proposed WHERE campaign = ?1 AND id = ?2";
    for gone in before.0.iter().filter(|it| after.get(&it.id).is_none()) {
        db.prepare_cached(sql)?
            .execute([id.as_str(), gone.id.as_str()])?;
    }
    Ok(())
}

/// Removes the proposals of a campaign.
pub(super) fn remove(db: &Connection, id: &CampaignId) -> Result<()> {
    for table in ["proposed", "proposals"] {
        let sql = format!("DELETE FROM {table} WHERE campaign = ?1");
        db.prepare_cached(&sql)?.execute([id.as_str()])?;
    }
    Ok(())
}

/// Removes the proposals that nobody needs any more.
fn remove_old(step: &Step<'_>) -> Result<()> {
    let now = step.now.as_micros();
    let sql = "DELETE FROM proposed WHERE campaign IN (
                   SELECT campaign FROM proposals WHERE kept_until <= ?1)";
    step.db.prepare_cached(sql)?.execute([now])?;
    let sql = "DELETE FROM proposals WHERE kept_until <= ?1";
    step.db.prepare_cached(sql)?.execute([now])?;
    Ok(())
}

fn base(step: &mut Step<'_>, id: &CampaignId) -> Result<ProposalBase> {
    if let Some(campaign) = step.find(id)? {
        let base = ProposalBase::of(&campaign.view);
        step.put(campaign);
        return Ok(base);
    }
    match not_found(step.db, id)? {
        StoreError::Refused(Refusal::CampaignNotFound) => Ok(ProposalBase::default()),
        error => Err(error),
    }
}

impl Command for ProposeCommand {
    type Reply = ProposalReply;

    fn run(&self, step: &mut Step<'_>) -> Result<ProposalReply> {
        let id = &self.campaign;
        let base = base(step, id)?;
        let before = load(step.db, id)?;
        let mut proposals = before.clone();
        let reply = rules::propose(&mut proposals, self, base, step.now)?;
        if reply.replayed {
            return Ok(reply);
        }
        remove_old(step)?;
        save(step.db, id, &before, &proposals)?;
        if let Proposed::Version(campaign) = &self.proposed {
            let sql = "INSERT INTO proposed (campaign, id, definition) VALUES (?1, ?2, ?3)";
            let proposal = reply.proposal.id.as_str();
            let values = params![id.as_str(), proposal, convert::encode(campaign)];
            step.db.prepare_cached(sql)?.execute(values)?;
        }
        Ok(reply)
    }
}

impl Command for ApproveCommand {
    type Reply = Operated;

    fn run(&self, step: &mut Step<'_>) -> Result<Operated> {
        let id = self.change.campaign();
        if let Some(campaign) = step.find(id)? {
            let request = &self.change.author().request;
            let is_same = |body: &_| rules::is_same_approval(body, self);
            let replayed = replay_of(step.db, &campaign, request, is_same);
            step.put(campaign);
            if let Some(operated) = replayed? {
                return Ok(operated);
            }
        }
        let base = base(step, id)?;
        let before = load(step.db, id)?;
        let mut proposals = before.clone();
        let operated = match rules::approve(&mut proposals, self, base, step.now)? {
            Change::Version(command) => command.run(step)?,
            Change::Operation(command) => command.run(step)?,
        };
        save(step.db, id, &before, &proposals)?;
        Ok(operated)
    }
}

impl Command for RejectCommand {
    type Reply = ProposalReply;

    fn run(&self, step: &mut Step<'_>) -> Result<ProposalReply> {
        let id = &self.campaign;
        let base = base(step, id)?;
        let before = load(step.db, id)?;
        let mut proposals = before.clone();
        let reply = rules::reject(&mut proposals, self, base, step.now)?;
        if !reply.replayed {
            save(step.db, id, &before, &proposals)?;
        }
        Ok(reply)
    }
}
