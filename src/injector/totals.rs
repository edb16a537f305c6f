//! The hours of units planned by `total`: computed once for a plan, then looked up.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::OnceCell;

use super::scattering::{Scattering, Urgency};
use crate::{
    chance::{self, Nonce, Seed},
    model::{Campaign, CampaignId, Moment, PoolNo, Quantities},
    store::{Result, fill::TotalsBase, view::total},
};

/// Shares are looked up each hour as long as their campaign runs. Shares that were not looked up
/// for this long are forgotten.
const KEPT: Duration = Duration::from_secs(3 * 60 * 60);

/// Units by window start.
type Shares = HashMap<Moment, Quantities>;

/// Shares that were computed already.
#[derive(Default)]
pub(super) struct Totals {
    known: Mutex<HashMap<(CampaignId, PoolNo), Known>>,
}

struct Known {
    /// That of the campaign: of an id that a store which was rolled back has lost, a new campaign
    /// may be made with the same base.
    nonce: Nonce,
    base: TotalsBase,
    /// Empty until the first who asks has computed them; the others wait for that.
    shares: Arc<OnceCell<Arc<Shares>>>,
    used: Moment,
}

impl Totals {
    /// The shares of all windows of a schedule, of a campaign with this seed and nonce. They are
    /// computed once, however many ask at the same time.
    pub(super) async fn shares(
        &self,
        scattering: &Scattering,
        (seed, nonce): (Seed, Nonce),
        campaign: &Arc<Campaign>,
        (pool, base): (PoolNo, &TotalsBase),
        now: Moment,
    ) -> Result<Arc<Shares>> {
        if base.remaining.is_empty() {
            return Ok(Arc::default());
        }
        let cell = self.cell(campaign, nonce, (pool, base), now);
        let shares = cell.get_or_try_init(|| async {
            let (campaign, base) = (Arc::clone(campaign), base.clone());
            let hours = campaign.end.since(base.from).as_secs() / 3600;
            let work = total(&base.remaining).saturating_add(hours);
            let compute = move || Arc::new(compute(&seed, &campaign, pool, &base));
            // A draw may wait for whoever began it.
            let shares = scattering.compute(Urgency::Needed, work, compute).await?;
            Ok(shares.value)
        });
        shares.await.cloned()
    }

    /// Where the shares of this base are, or will be.
    fn cell(
        &self,
        campaign: &Campaign,
        nonce: Nonce,
        (pool, base): (PoolNo, &TotalsBase),
        now: Moment,
    ) -> Arc<OnceCell<Arc<Shares>>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, known| now.since(known.used) < KEPT);
        let anew = || Known {
            nonce,
            base: base.clone(),
            shares: Arc::default(),
            used: now,
        };
        let entry = known
            .entry((campaign.id.clone(), pool))
            .or_insert_with(anew);
        if entry.base != *base || entry.nonce != nonce {
            *entry = anew();
        }
        entry.used = now;
        Arc::clone(&entry.shares)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::convert::{campaign_from_proto, tests::spring_wheel};

    const NONCE: Nonce = Nonce([7; 32]);

    /// A campaign, and a base of enough units that its shares are computed on another thread.
    fn many() -> (Arc<Campaign>, TotalsBase) {
        let campaign = Arc::new(campaign_from_proto(&spring_wheel()).unwrap());
        let base = TotalsBase {
            revision: 1,
            from: campaign.start,
            remaining: [(crate::model::PrizeNo(0), 100_000)].into(),
        };
        (campaign, base)
    }

    #[tokio::test]
    async fn two_who_ask_at_once_get_what_was_computed_once() {
        let (totals, scattering) = (Totals::default(), Scattering::default());
        let (campaign, base) = many();
        let now = campaign.start;
        let ask = || {
            let seed = (Seed::from_bytes([0; 32]), NONCE);
            totals.shares(&scattering, seed, &campaign, (PoolNo(0), &base), now)
        };
        let (one, two) = tokio::join!(ask(), ask());
        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(Arc::ptr_eq(&one, &two));
        assert_eq!(one.values().map(total).sum::<u64>(), 100_000);
    }

    #[tokio::test]
    async fn what_nobody_looks_up_any_more_is_forgotten() {
        let totals = Totals::default();
        let (campaign, base) = many();
        let now = campaign.start;
        let cell = |pool, now| totals.cell(&campaign, NONCE, (PoolNo(pool), &base), now);
        let (first, again) = (cell(0, now), cell(0, now + KEPT / 2));
        assert!(Arc::ptr_eq(&first, &again));
        let another = cell(1, now + KEPT * 2);
        assert!(!Arc::ptr_eq(&first, &another));
        assert_eq!(totals.known.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_campaign_that_was_made_again_has_shares_of_its_own() {
        let (totals, scattering) = (Totals::default(), Scattering::default());
        let (campaign, base) = many();
        let ask = |byte| {
            let seed = (Seed::from_bytes([byte; 32]), Nonce([byte; 32]));
            let now = campaign.start;
            totals.shares(&scattering, seed, &campaign, (PoolNo(0), &base), now)
        };
        let (lost, new) = (ask(1).await.unwrap(), ask(2).await.unwrap());
        assert_ne!(lost, new);
        assert_eq!(ask(1).await.unwrap(), lost);
    }
}
