//! What the store holds, behind its lock.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use foldhash::fast::RandomState as QuickHash;

use super::{
    campaign::CampaignData,
    envelope::EnvelopeData,
    ledger::{Ledger, What, id},
    proposals::AllProposals,
};
use crate::{
    chance::Salt,
    model::{CampaignId, EnvelopeId, Moment},
    store::{
        Backlog, BacklogBound, CampaignView, DueCampaign, EnvelopeSums, Refusal, Result,
        StoreError, clock::Clock, entry::Body, fill::CHUNK_UNITS_MAX,
    },
};

/// What the store holds.
pub(super) struct Core {
    clock: Arc<dyn Clock>,
    /// The latest moment that anyone has seen.
    last: Moment,
    pub(super) request_memory: Duration,
    pub(super) campaigns: HashMap<CampaignId, CampaignData, QuickHash>,
    /// The end of each campaign that has a tombstone.
    pub(super) removed_campaigns: HashMap<CampaignId, Moment>,
    /// What is left of campaigns that have one.
    pub(super) leaving: BTreeMap<CampaignId, CampaignData>,
    pub(super) envelopes: HashMap<EnvelopeId, EnvelopeData>,
    /// Envelopes that are gone: their ids are not used again.
    pub(super) removed_envelopes: HashSet<EnvelopeId>,
    /// By currency.
    pub(super) sums: BTreeMap<String, EnvelopeSums>,
    pub(super) ledger: Ledger,
    pub(super) proposals: AllProposals,
    /// The number of the last entry whose request was forgotten.
    pub(super) forgotten: u64,
    /// The number of the last settled entry, if anything is settled.
    pub(super) settled: Option<u64>,
    /// This service settles the ledger.
    pub(super) settles: bool,
    pub(super) bound: Option<BacklogBound>,
    /// By campaign; '' for all other entries.
    pub(super) salts: HashMap<String, Salt>,
}

impl Core {
    pub(super) fn new(clock: Arc<dyn Clock>, request_memory: Duration) -> Self {
        Self {
            clock,
            last: Moment::EPOCH,
            request_memory,
            campaigns: HashMap::default(),
            removed_campaigns: HashMap::new(),
            leaving: BTreeMap::new(),
            envelopes: HashMap::new(),
            removed_envelopes: HashSet::new(),
            sums: BTreeMap::new(),
            ledger: Ledger::default(),
            proposals: AllProposals::new(),
            forgotten: 0,
            settled: None,
            settles: false,
            bound: None,
            salts: HashMap::new(),
        }
    }

    /// The entries that are not settled.
    pub(super) fn backlog(&self) -> Backlog {
        let settled = self.settled.unwrap_or(0);
        Backlog {
            has_sink: self.settled.is_some() || self.settles,
            entries: self.ledger.last() - settled,
            oldest: self.ledger.get(settled + 1).map(|record| record.at),
        }
    }

    /// Refuses a draw or a grab while too much of the ledger is not settled.
    pub(super) fn admit_backlog(&self, now: Moment) -> Result<()> {
        let backlog = self.backlog();
        let is_full = self.bound.is_some_and(|bound| {
            let is_old = |oldest| bound.is_passed_at(now, oldest);
            bound.is_reached_by(backlog.entries) || backlog.oldest.is_some_and(is_old)
        });
        if self.settled.is_some() && is_full {
            return Err(Refusal::LedgerBacklog.into());
        }
        Ok(())
    }

    /// The store's clock, which never steps back.
    pub(super) fn now(&mut self) -> Moment {
        self.last = self.last.max(self.clock.now());
        self.last
    }

    /// The store is on a test clock.
    pub(super) fn is_test(&self) -> bool {
        self.clock.is_test()
    }

    /// A campaign.
    pub(super) fn campaign(&self, id: &CampaignId) -> Result<&CampaignData> {
        let found = self.campaigns.get(id);
        found.ok_or_else(|| self.not_found(id).into())
    }

    /// Why there is no campaign of this id.
    pub(super) fn not_found(&self, id: &CampaignId) -> Refusal {
        match self.removed_campaigns.get(id) {
            Some(&end) => Refusal::Removed { end },
            None => Refusal::CampaignNotFound,
        }
    }

    /// Campaigns by id.
    pub(super) fn campaigns(&self, after: Option<&str>, limit: usize) -> Vec<CampaignView> {
        let views = self.campaigns.values().map(|campaign| &campaign.state.view);
        let mut views: Vec<_> = views
            .filter(|view| after.is_none_or(|after| view.campaign.id.as_str() > after))
            .collect();
        views.sort_unstable_by(|a, b| a.campaign.id.cmp(&b.campaign.id));
        views.into_iter().take(limit).cloned().collect()
    }

    /// Campaigns that the injector has something to do with.
    pub(super) fn due_campaigns(
        &mut self,
        lead: Duration,
        after: Option<&DueCampaign>,
        limit: usize,
    ) -> Vec<DueCampaign> {
        let until = self.now() + lead;
        let order = |due: &DueCampaign| (due.due, due.id.clone());
        let after = after.map(order);
        let due = self.campaigns.iter().filter_map(|(id, campaign)| {
            let due = campaign.due.filter(|due| *due <= until)?;
            Some(DueCampaign {
                due,
                id: id.clone(),
            })
        });
        let mut due: Vec<_> = due
            .filter(|due| after.as_ref().is_none_or(|after| order(due) > *after))
            .collect();
        due.sort_unstable_by_key(order);
        due.truncate(limit);
        due
    }

    /// Forgets a chunk of requests that are older than the memory; true if there may be more.
    pub(super) fn forget(&mut self) -> bool {
        let oldest = self.now() - self.request_memory;
        for _ in 0..CHUNK_UNITS_MAX {
            let sequence = self.forgotten + 1;
            let Some(record) = self.ledger.get(sequence).filter(|it| it.at < oldest) else {
                return false;
            };
            self.forgotten = sequence;
            let campaign = record.subject.campaign();
            let campaign = campaign.and_then(|id| self.campaigns.get_mut(id));
            let name = match &record.what {
                What::Draw(draw) => Some((&draw.user, &draw.request)),
                What::Other(body) => match &**body {
                    Body::Bonus(bonus) => Some((&bonus.user, &bonus.request)),
                    _ => None,
                },
            };
            if let (Some((user, request)), Some(campaign)) = (name, campaign)
                && let Some(user) = campaign.users.get_mut(user)
                && user.draws.get(request) == Some(&id(sequence))
            {
                user.draws.remove(request);
            }
        }
        true
    }
}

/// A record that another one names is not there.
pub(super) fn missing(sequence: u64) -> StoreError {
    StoreError::corrupt(format!("ledger entry {sequence} is missing"))
}
