//! What nobody may know yet: the hour of a prize that is planned by `total`, until that hour has
//! ended.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    model::{Campaign, Moment, PoolKind, PoolNo, PrizeNo},
    store::{CampaignView, Store, WindowView, view::WindowUnits},
};

/// The prizes whose hour nobody may know yet: planned by `total`, in a window that has not ended.
pub(super) struct Secrets {
    now: Moment,
    by_version: BTreeMap<u32, BTreeSet<PrizeNo>>,
}

impl Secrets {
    /// The secrets of these windows of one pool: by the current definition and by the one that each
    /// window follows.
    pub(super) async fn of(
        store: &dyn Store,
        view: &CampaignView,
        windows: &[WindowView],
        now: Moment,
    ) -> crate::store::Result<Self> {
        let mut by_version = BTreeMap::new();
        for window in windows.iter().filter(|window| now < window.end) {
            if by_version.contains_key(&window.version) {
                continue;
            }
            let mut secret = totals(&view.campaign, window.pool);
            if window.version != view.version {
                let followed = store.version(&view.campaign.id, window.version).await?;
                secret.extend(totals(&followed, window.pool));
            }
            by_version.insert(window.version, secret);
        }
        Ok(Self { now, by_version })
    }

    /// What may be shown of a window.
    pub(super) fn visible<'a>(&self, window: &'a WindowView) -> Vec<&'a (PrizeNo, WindowUnits)> {
        let secret = self
            .by_version
            .get(&window.version)
            .filter(|_| self.now < window.end);
        let prizes = window.prizes.iter();
        prizes
            .filter(|(no, _)| secret.is_none_or(|secret| !secret.contains(no)))
            .collect()
    }
}

/// The prizes that a pool plans by `total`.
pub(super) fn totals(campaign: &Campaign, pool: PoolNo) -> BTreeSet<PrizeNo> {
    match campaign
        .pools
        .get(usize::from(pool.0))
        .map(|pool| &pool.kind)
    {
        Some(PoolKind::Schedule(schedule)) => schedule.total.keys().copied().collect(),
        Some(PoolKind::Deck(_) | PoolKind::Personal(_)) | None => BTreeSet::new(),
    }
}
