//! The chance of users in personal pools: from the campaign's seed and the user's pseudonym in the
//! settled ledger. Only campaigns are known here of which a draw has asked for it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::Injector;
use crate::{
    cache::Cache,
    chance::{Kind, Pseudonyms, Salt, Seed, UserChance},
    model::CampaignId,
    store::{DrawCommand, Result, Store},
};

/// The most campaigns that are kept.
const KEPT_MAX: usize = 4096;

/// Campaigns with personal pools.
#[derive(Default)]
pub(super) struct Chances {
    /// There is one, so that draws of others look at nothing else.
    any: AtomicBool,
    known: Cache<CampaignId, Arc<CampaignChance>, KEPT_MAX>,
}

/// What the chance of a campaign's users follows from.
struct CampaignChance {
    seed: Seed,
    pseudonyms: Pseudonyms,
    /// The store's [`rollback_mark`](Store::rollback_mark) before it was read for them.
    rollback_mark: u64,
}

impl CampaignChance {
    fn add_to(&self, command: &mut DrawCommand) {
        let pseudonym = self.pseudonyms.of(Kind::User, command.user.as_str());
        let chance = UserChance::new(self.seed.clone(), pseudonym);
        command.chance = Some(Arc::new(chance));
    }
}

impl Chances {
    /// Adds the user's chance to a draw of a campaign that is known to need it. What is known from
    /// before a rollback does not count.
    pub(super) fn add(&self, command: &mut DrawCommand, store: &dyn Store) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let known = self.known.get(&command.campaign);
        if let Some(campaign) = known.filter(|it| it.rollback_mark == store.rollback_mark()) {
            campaign.add_to(command);
        }
    }

    fn keep(&self, id: CampaignId, chance: Arc<CampaignChance>) {
        self.known.put(id, chance);
        self.any.store(true, Ordering::Relaxed);
    }
}

impl Injector {
    /// Adds the user's chance to a draw that needs it. The salt of the campaign's pseudonyms is
    /// made with the first one.
    pub(super) async fn add_chance(&self, command: &mut DrawCommand) -> Result<()> {
        let id = &command.campaign;
        let rollback_mark = self.store.rollback_mark();
        let view = self.store.campaign(id).await?;
        let partition = self.store.partition_of(id.as_str());
        let new = Salt(rand::random());
        let salt = self.store.salt(partition, id.as_str(), new).await?;
        let chance = Arc::new(CampaignChance {
            seed: self.seed(&view),
            pseudonyms: self.key.pseudonyms(id.as_str(), &salt),
            rollback_mark,
        });
        self.chances.keep(id.clone(), Arc::clone(&chance));
        chance.add_to(command);
        Ok(())
    }
}
