//! What the audit needs to make draws of personal pools again: seeds, and entries with pseudonyms;
//! and where their units come from.

use std::{borrow::Cow, collections::HashMap};

use tombola::{
    chance::{Salt, Seed},
    ledger::entry::{Clear, StoredEntry, decode},
    model::{Campaign, CampaignId, PoolKind, PoolNo, PrizeNo},
    store::{Entry, Stats, Store},
};

use super::Book;
use crate::support::{patiently, world::key};

/// The entries, in those of campaigns with personal pools pseudonyms for users; and the seeds of
/// these campaigns.
pub(super) async fn prepared<'a>(
    store: &dyn Store,
    entries: &'a [Entry],
    stats: &[Stats],
) -> (Cow<'a, [Entry]>, HashMap<CampaignId, Seed>) {
    let mut entries = Cow::Borrowed(entries);
    let mut seeds = HashMap::new();
    for stats in stats
        .iter()
        .filter(|it| it.view.campaign.has_personal_pools())
    {
        let id = &stats.view.campaign.id;
        let seed = key().campaign_seed(id, &stats.view.nonce);
        // A server that made its own key has others.
        if seed.commitment() != *stats.view.commitment {
            continue;
        }
        let partition = store.partition_of(id.as_str());
        let salt = patiently(|| store.salt(partition, id.as_str(), Salt([0; 32]))).await;
        let pseudonyms = key().pseudonyms(id.as_str(), &salt);
        let own = |entry: &&mut Entry| entry.subject.campaign() == Some(id);
        for entry in entries.to_mut().iter_mut().filter(own) {
            let stored = StoredEntry::of(entry, &pseudonyms);
            entry.body = decode(stored.format, &stored.body, &Clear::default()).unwrap();
        }
        seeds.insert(id.clone(), seed);
    }
    (entries, seeds)
}

impl Book {
    /// A unit that is won leaves its pool; one of a personal pool or a guarantee comes off stock.
    pub(super) fn take(&mut self, campaign: &Campaign, pool: PoolNo, prize: PrizeNo) {
        let is_unlimited = self.unlimited.contains(&prize);
        let stats = self.prizes.entry(prize).or_default();
        stats.won += 1;
        let from = match (is_off_stock(campaign, pool), is_unlimited) {
            (true, true) => {
                stats.stock += 1;
                return;
            }
            (true, false) => &mut stats.left,
            (false, _) => &mut stats.waiting,
        };
        assert!(*from > 0, "P1: more than there was");
        *from -= 1;
    }
}

/// A personal pool, or the guarantees: draws take off stock what it gives.
pub(super) fn is_off_stock(campaign: &Campaign, pool: PoolNo) -> bool {
    pool == PoolNo::GUARANTEES || matches!(campaign.pool(pool).kind, PoolKind::Personal(_))
}
