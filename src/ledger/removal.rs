//! The end of a campaign's data: lets closed campaigns leave the store whose entries are all in the
//! sink, and keeps in the sink what their reads give afterwards.
//!
//! Whoever settles does this beside it: it knows how far the sink is, and may write there. Once a
//! tombstone is written, every service may remove the rest.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use tracing::{info, warn};

use super::{
    removed,
    said::Said,
    settle::SettleError,
    sink::{Cursor, Sink, SinkError},
};
use crate::{
    metrics::STORE,
    model::CampaignId,
    store::{ClosedCampaign, RemovalFence, Store},
};

/// How often closed campaigns are looked at.
const INTERVAL: Duration = Duration::from_secs(60);
/// Campaigns that are read at once.
const PAGE: usize = 100;
/// Steps of a removal between two looks at what is to be settled.
const STEPS: usize = 20;

/// Removals of closed campaigns.
pub struct Removals {
    /// How long a closed campaign stays after the last thing that happened to it.
    keep: Duration,
    looked: Option<Instant>,
    /// Campaigns with a tombstone.
    leaving: VecDeque<CampaignId>,
    said: Said,
}

impl Removals {
    /// Of campaigns that nothing has happened to for `keep` since they were closed.
    pub fn after(keep: Duration) -> Self {
        Self {
            keep,
            looked: None,
            leaving: VecDeque::new(),
            said: Said::default(),
        }
    }

    /// Does a little of what is to be done; true if there is more. What is refused is tried again
    /// later, or done by another service.
    ///
    /// # Errors
    /// The connection to the sink is of no use any more.
    pub async fn work(
        &mut self,
        store: &dyn Store,
        sink: &mut dyn Sink,
    ) -> Result<bool, SinkError> {
        if let Some(id) = self.leaving.pop_front() {
            match remove_some(store, &id).await {
                Ok(true) => self.leaving.push_front(id),
                Ok(false) => info!(campaign = %id, "the data of campaign {id} have left the store"),
                Err(error) => self.note(&id, &error),
            }
        } else if self.looked.is_none_or(|at| at.elapsed() >= INTERVAL) {
            self.looked = Some(Instant::now());
            for partition in 0..store.info().partitions {
                match self.look(store, sink, partition).await {
                    Ok(()) => {}
                    Err(SettleError::Sink(error)) if error.is_of_connection() => return Err(error),
                    Err(error) if self.said.is_due() => {
                        warn!(partition, %error, "closed campaigns stay in the store for now");
                    }
                    Err(_) => {}
                }
            }
        }
        Ok(!self.leaving.is_empty())
    }

    /// Writes the tombstones of a partition's campaigns that may leave.
    async fn look(
        &mut self,
        store: &dyn Store,
        sink: &mut dyn Sink,
        partition: u32,
    ) -> Result<(), SettleError> {
        let mut after: Option<ClosedCampaign> = None;
        loop {
            let page = store.closed_campaigns(partition, self.keep, after.as_ref(), PAGE);
            let page = page.await?;
            let is_last = page.len() < PAGE;
            after = page.last().cloned();
            if page.is_empty() {
                return Ok(());
            }
            // The fork is read before the campaigns, and compared when a tombstone is written: what
            // is settled and what is counted are of one fork.
            let cursor = sink.cursors().await?.remove(&partition);
            for closed in page {
                if closed.is_leaving() {
                    self.leaving.push_back(closed.id);
                    continue;
                }
                match begin(store, sink, cursor.as_ref(), &closed.id).await {
                    Ok(true) => self.leaving.push_back(closed.id),
                    Ok(false) => {}
                    Err(SettleError::Sink(error)) if error.is_of_connection() => {
                        return Err(error.into());
                    }
                    Err(error) => self.note(&closed.id, &error),
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn note(&mut self, id: &CampaignId, error: &dyn std::fmt::Display) {
        if self.said.is_due() {
            warn!(campaign = %id, %error, "campaign {id} stays in the store for now");
        }
    }
}

async fn remove_some(store: &dyn Store, id: &CampaignId) -> crate::store::Result<bool> {
    for _ in 0..STEPS {
        if !store.remove_some(id).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the row and the tombstone of a campaign if its last entry is settled; false if it is not,
/// or if something has happened to the campaign meanwhile.
async fn begin(
    store: &dyn Store,
    sink: &mut dyn Sink,
    cursor: Option<&Cursor>,
    id: &CampaignId,
) -> Result<bool, SettleError> {
    let Some(cursor) = cursor else {
        return Ok(false);
    };
    let mut stats = store.stats(id).await?;
    let entries = stats.entries;
    if entries == 0 || sink.last_number(id.as_str()).await? != Some(entries) {
        return Ok(false);
    }
    // Others draw from the partition, and what they drew since is not settled.
    stats.head.sequence = stats.head.sequence.min(cursor.up_to.sequence);
    let (row, versions) = removed::read(store, stats).await?;
    let fence = RemovalFence {
        entries,
        fork: cursor.up_to.fork.clone(),
    };
    sink.keep_removed(&row, &versions).await?;
    let is_begun = store.begin_removal(id, &fence).await?;
    if is_begun {
        STORE.removed_campaigns.inc();
        info!(
            campaign = %id,
            "campaign {id} is read from the settled ledger from now on: its data leave the store"
        );
    }
    Ok(is_begun)
}
