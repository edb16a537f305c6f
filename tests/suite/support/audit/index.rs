//! The index of campaigns that have something due.

use std::{collections::BTreeMap, time::Duration};

use tombola::{
    model::{CampaignId, Moment},
    store::{DueCampaign, Store},
};

use super::heads;
use crate::support::patiently;

/// Checks that the index of due campaigns has every campaign at its due time, and no closed
/// campaign.
pub(super) async fn check(store: &dyn Store) {
    // While an injector works, the two reads may be of different moments.
    loop {
        let before = heads(store).await;
        let index = index(store).await;
        let mut filling = Vec::new();
        for view in patiently(|| store.campaigns(None, 1000)).await {
            filling.push(patiently(|| store.filling(&view.campaign.id)).await);
        }
        if heads(store).await != before {
            continue;
        }
        for filling in filling {
            let id = &filling.view.campaign.id;
            let found = index.get(id).copied();
            match filling.due {
                Some(due) => assert!(found.is_some_and(|at| at <= due), "{id}: {found:?}, {due}"),
                None => assert_eq!(found, None, "{id} is closed"),
            }
        }
        return;
    }
}

/// The due times in the index.
async fn index(store: &dyn Store) -> BTreeMap<CampaignId, Moment> {
    const EVER: Duration = Duration::from_secs(10_000 * 366 * 24 * 60 * 60);
    let mut index = BTreeMap::new();
    for partition in 0..store.info().partitions {
        let mut after: Option<DueCampaign> = None;
        loop {
            let page =
                patiently(|| store.due_campaigns(partition, EVER, after.as_ref(), 1000)).await;
            let Some(last) = page.last() else { break };
            after = Some(last.clone());
            index.extend(page.into_iter().map(|found| (found.id, found.due)));
        }
    }
    index
}
