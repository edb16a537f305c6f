//! Plan to windows to store: fills pools ahead of time, on need, and after a time away; takes units back.
//!
//! Everything is idempotent and fenced by the store, so any number of injectors may run at once and any may die at any moment.

use std::{sync::Arc, time::Duration};

use crate::{
    chance::{MasterKey, Seed},
    model::{Campaign, CampaignId},
    store::{
        Author, CampaignView, DrawAnswer, DrawCommand, OperateCommand, Operated, Result, Store,
    },
};

/// Fills and empties pools.
pub struct Injector {
    store: Arc<dyn Store>,
    key: MasterKey,
    lead: Duration,
}

impl Injector {
    /// An injector that freezes each window `lead` before its start.
    pub fn new(store: Arc<dyn Store>, key: MasterKey, lead: Duration) -> Self {
        Self { store, key, lead }
    }

    /// How long before its start a window is injected.
    pub fn lead(&self) -> Duration {
        self.lead
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The seed of a campaign.
    pub fn seed(&self, view: &CampaignView) -> Seed {
        self.key.campaign_seed(&view.campaign.id, &view.nonce)
    }

    /// Draws; fills the pools that the draw needs, and draws again, until it is done or refused.
    pub async fn draw(&self, command: DrawCommand) -> Result<DrawAnswer> {
        unimplemented!("{command:?}")
    }

    /// Creates a campaign or a new version of one, and brings its injected windows to the new plan.
    pub async fn apply(
        &self,
        campaign: Arc<Campaign>,
        base_version: u32,
        author: Author,
    ) -> Result<Operated> {
        unimplemented!("{campaign:?} {base_version} {author:?}")
    }

    /// Does an operator's act, and what follows from it (recalled units are taken back, a closed campaign's units returned).
    pub async fn operate(&self, command: OperateCommand) -> Result<Operated> {
        unimplemented!("{command:?}")
    }

    /// Brings the pools of one campaign to where they should be now: due windows filled, recalls and returns done, an ended
    /// campaign's units returned.
    pub async fn settle(&self, id: &CampaignId) -> Result<()> {
        unimplemented!("{id}")
    }

    /// Settles every campaign that is not closed and forgets old requests; goes on after a failure and tells the first one.
    pub async fn tick(&self) -> Result<()> {
        unimplemented!()
    }
}
