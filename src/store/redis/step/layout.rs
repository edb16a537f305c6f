//! What draws need to know of a version of a campaign. The service keeps it in memory, and the
//! scripts check that the version is current.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    cache::Cache,
    model::{Campaign, CampaignId, Moment},
    store::redis::{
        draw::Guessed,
        format::{
            codec,
            keys::{self, CampaignKeys, PartitionKeys, PoolKeys, Slots},
        },
    },
};

/// A list of days is used until this long before its end, as the store's clock may be ahead.
const DAYS_MARGIN: std::time::Duration = std::time::Duration::from_secs(3600);
/// The most campaigns, and the most old versions, whose definitions are kept.
const KEPT_MAX: usize = 4096;

/// The definition and the keys of one version of a campaign, as draws need them.
pub(crate) struct Layout {
    pub(crate) partition: Arc<PartitionKeys>,
    pub(crate) keys: CampaignKeys,
    pub(crate) campaign: Arc<Campaign>,
    pub(crate) version: u32,
    pub(crate) slots: Slots,
    pub(crate) pools: Vec<PoolKeys>,
    /// The definition as the draw script takes it (see [`codec::encode_layout`]).
    pub(crate) blob: Vec<u8>,
    /// None if there are no personal pools.
    pub(crate) guessed: Option<Guessed>,
    days: Mutex<Days>,
}

/// The list of days that the draw script gets.
#[derive(Default)]
struct Days {
    from: i64,
    until: i64,
    blob: Vec<u8>,
}

impl Layout {
    pub(crate) fn new(
        partition: &Arc<PartitionKeys>,
        campaign: Arc<Campaign>,
        version: u32,
        slots: Slots,
    ) -> Self {
        let pools = partition.pools(&campaign, &slots);
        Self {
            keys: partition.campaign(&campaign.id),
            blob: codec::encode_layout(&campaign, &pools),
            guessed: Guessed::new(&campaign),
            partition: Arc::clone(partition),
            campaign,
            version,
            slots,
            pools,
            days: Mutex::default(),
        }
    }

    /// The days around a moment, packed for the draw script.
    pub(crate) fn days(&self, now: Moment) -> Vec<u8> {
        let mut days = self.days.lock().unwrap_or_else(PoisonError::into_inner);
        let micros = now.as_micros();
        let margin = DAYS_MARGIN.as_micros() as i64;
        if micros < days.from + margin || micros >= days.until - margin {
            let from = now - DAYS_MARGIN * 2;
            let (blob, until) = codec::encode_days(&self.campaign, from);
            *days = Days {
                from: from.as_micros(),
                until: until.as_micros(),
                blob,
            };
        }
        days.blob.clone()
    }

    /// All queues, pool by pool.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (&PoolKeys, &keys::Queue)> {
        let pools = self.pools.iter();
        pools.flat_map(|pool| pool.queues.iter().map(move |queue| (pool, queue)))
    }
}

/// Definitions that the service has read.
#[derive(Default)]
pub(crate) struct Layouts {
    current: Cache<CampaignId, Arc<Layout>, KEPT_MAX>,
    earlier: Cache<(CampaignId, u32), Arc<Campaign>, KEPT_MAX>,
}

impl Layouts {
    /// The newest version that is known of a campaign.
    pub(crate) fn get(&self, id: &CampaignId) -> Option<Arc<Layout>> {
        self.current.get(id)
    }

    pub(crate) fn put(&self, layout: Arc<Layout>) {
        self.current.put(layout.campaign.id.clone(), layout);
    }

    /// The definition of a version that is not the newest, if it is known.
    pub(super) fn earlier(&self, id: &CampaignId, version: u32) -> Option<Arc<Campaign>> {
        self.earlier.get(&(id.clone(), version))
    }

    /// Keeps the definition of a version that is not the newest.
    pub(super) fn put_earlier(&self, campaign: Arc<Campaign>, version: u32) {
        self.earlier.put((campaign.id.clone(), version), campaign);
    }

    /// Forgets a campaign, so that it is read again.
    pub(crate) fn forget(&self, id: &CampaignId) {
        self.current.forget(id);
    }

    /// Forgets all campaigns.
    pub(crate) fn clear(&self) {
        self.current.clear();
        self.earlier.clear();
    }
}
