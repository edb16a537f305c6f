//! The hours of units planned by `total`: computed once for a plan, then looked up.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    chance::{self, Seed},
    model::{Campaign, CampaignId, Moment, PoolNo, campaign::Quantities},
    store::fill::TotalsBase,
};

/// Units by window start.
type Shares = HashMap<Moment, Quantities>;

/// Shares that were computed already.
#[derive(Default)]
pub(super) struct Totals {
    known: Mutex<HashMap<(CampaignId, PoolNo), Known>>,
}

struct Known {
    base: TotalsBase,
    shares: Arc<Shares>,
}

impl Totals {
    /// The shares of all windows of a schedule.
    pub(super) fn shares(
        &self,
        seed: &Seed,
        campaign: &Campaign,
        pool: PoolNo,
        base: &TotalsBase,
    ) -> Arc<Shares> {
        if base.remaining.is_empty() {
            return Arc::default();
        }
        let key = (campaign.id.clone(), pool);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&key)
            && known.base == *base
        {
            return Arc::clone(&known.shares);
        }
        let shares = Arc::new(compute(seed, campaign, pool, base));
        let entry = Known {
            base: base.clone(),
            shares: Arc::clone(&shares),
        };
        known.insert(key, entry);
        shares
    }

    /// Drops what is known of a campaign.
    pub(super) fn forget(&self, id: &CampaignId) {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(campaign, _), _| campaign != id);
    }
}

fn compute(seed: &Seed, campaign: &Campaign, pool: PoolNo, base: &TotalsBase) -> Shares {
    let spans: Vec<(Moment, Moment)> = campaign
        .zone
        .windows(base.from, campaign.start, campaign.end)
        .map(|window| (window.start.max(base.from), window.end))
        .collect();
    let mut shares = Shares::new();
    for (prize, quantity) in &base.remaining {
        let counts = chance::totals(
            seed,
            &campaign.pool(pool).id,
            *prize,
            base.revision,
            *quantity,
            &spans,
        );
        for ((start, _), units) in spans.iter().zip(counts) {
            if units > 0 {
                shares.entry(*start).or_default().insert(*prize, units);
            }
        }
    }
    shares
}
