//! The index of due campaigns: each campaign with the moment of the injector's next step. Every
//! step but a draw writes it.

use std::time::Duration;

use super::{
    commit::Commit,
    decide::{ROUNDS_MAX, contended},
    write::write_due,
};
use crate::store::redis::{
    core::Core,
    format::{
        keys::{Key, PartitionKeys},
        reply::{self, Parts, letter},
        scripts,
    },
};
use crate::{
    model::{CampaignId, Moment},
    store::{DueCampaign, Result, StoreError},
};

/// Campaigns that one script checks.
const PAGE: usize = 500;

impl Core {
    /// Campaigns of a partition that the injector has something to do with by `lead` from now.
    pub(crate) async fn due_campaigns(
        &self,
        partition: u32,
        lead: Duration,
        after: Option<&DueCampaign>,
        limit: usize,
    ) -> Result<Vec<DueCampaign>> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(Vec::new());
        };
        let lead = i64::try_from(lead.as_micros()).unwrap_or(i64::MAX);
        self.listed(keys, &keys.due_campaigns, lead, after, limit)
            .await
    }

    /// Campaigns of a sorted set whose moment is not later than `lead` microseconds from now.
    pub(crate) async fn listed(
        &self,
        keys: &PartitionKeys,
        set: &Key,
        lead: i64,
        after: Option<&DueCampaign>,
        limit: usize,
    ) -> Result<Vec<DueCampaign>> {
        let all = [keys.partition.clone(), set.clone()];
        let (score, id) = after.map_or_else(Default::default, |after| {
            (after.due.as_micros().to_string(), after.id.to_string())
        });
        let args = vec![lead.to_string(), limit.to_string(), score, id];
        let (_, mut parts) = self.ask(keys, &scripts::DUE_CAMPAIGNS, &all, args).await?;
        let mut rows = Parts::of(self.first(&mut parts)?)?;
        let mut due = Vec::new();
        while let Some(id) = rows.maybe_next() {
            let id = CampaignId::parse("campaign", &reply::text(id)?);
            let id = id.map_err(|problem| StoreError::corrupt(problem.message))?;
            // A score is a double, which is exact for moments before the year 2255.
            let score: f64 = reply::number(rows.next()?)?;
            due.push(DueCampaign {
                due: Moment::from_micros(score as i64),
                id,
            });
        }
        Ok(due)
    }

    /// Writes a campaign's moment into the index again, from its state.
    pub(crate) async fn index(&self, id: &CampaignId) -> Result<()> {
        let partition = self.partition(id);
        for _ in 0..ROUNDS_MAX {
            let loaded = self.load(id, &[]).await?;
            let keys = partition.campaign(id);
            let state = &loaded.state;
            let mut commit = Commit::new(
                partition,
                &keys,
                id,
                loaded.revision(),
                state.now,
                Some(state.fork),
            );
            write_due(&mut commit, partition, state);
            let (all, args) = commit.into_parts(self.read_holds());
            let (_, mut parts) = self.run(partition, &scripts::COMMIT, &all, args).await?;
            match letter(&parts.next()?) {
                Some(b'S') => {}
                _ => return Ok(()),
            }
        }
        Err(contended())
    }

    /// Adds campaigns that are missing in a partition's indexes: of due campaigns, and of closed
    /// ones.
    pub(crate) async fn complete_index(&self, partition: u32) -> Result<()> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(());
        };
        let mut after: Option<CampaignId> = None;
        loop {
            let from = after.as_ref().map(CampaignId::as_str);
            let ids = self.campaign_ids(partition, from, PAGE).await?;
            if ids.is_empty() {
                return Ok(());
            }
            let mut all = vec![
                keys.partition.clone(),
                keys.due_campaigns.clone(),
                keys.closed_campaigns.clone(),
            ];
            all.extend(ids.iter().map(|id| keys.campaign(id).campaign));
            let args: Vec<_> = ids.iter().map(CampaignId::to_string).collect();
            let (_, mut parts) = self.run(keys, &scripts::COMPLETE_INDEX, &all, args).await?;
            self.first(&mut parts)?;
            after = ids.into_iter().next_back();
        }
    }
}
