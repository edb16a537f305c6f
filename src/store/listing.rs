//! Pages of campaigns that leave out what cannot be read, and say so: a part of a store that is
//! away does not hide the others.

use std::collections::BTreeMap;

use super::{Result, StoreError, view::CampaignView};
use crate::model::CampaignId;

/// Campaigns by id.
#[derive(Clone, Debug, Default)]
pub struct CampaignPage {
    /// Those that can be read.
    pub views: Vec<CampaignView>,
    /// What is left out.
    pub unread: Vec<Unread>,
    /// The id after which the next page begins; none if this is the last one.
    pub next: Option<CampaignId>,
}

/// Campaigns that cannot be read now.
#[derive(Clone, Debug)]
pub struct Unread {
    /// Their partition.
    pub partition: u32,
    /// Which campaign; none: all of the partition, whose ids are not known either.
    pub campaign: Option<CampaignId>,
    /// Why.
    pub error: StoreError,
}

impl CampaignPage {
    /// A page of a store that has read whole, at most `limit`.
    pub fn of(views: Vec<CampaignView>, limit: usize) -> Self {
        let last = views.last().map(|view| view.campaign.id.clone());
        Self {
            next: last.filter(|_| views.len() == limit),
            views,
            unread: Vec::new(),
        }
    }

    /// A page of both, at most `limit`. What both have is taken from this one. It ends where either
    /// page ends, if that one goes on.
    pub fn beside(self, other: Self, limit: usize) -> Self {
        let mut next = match (self.next, other.next) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        let by_id = |view: CampaignView| (view.campaign.id.clone(), view);
        let both = other.views.into_iter().chain(self.views);
        let both: BTreeMap<_, _> = both.map(by_id).collect();
        let is_in = |id: &CampaignId| next.as_ref().is_none_or(|next| id <= next);
        let mut views: Vec<_> = both
            .into_iter()
            .filter_map(|(id, view)| is_in(&id).then_some(view))
            .collect();
        if views.len() > limit {
            views.truncate(limit);
            next = views.last().map(|view| view.campaign.id.clone());
        }
        Self {
            views,
            unread: [self.unread, other.unread].concat(),
            next,
        }
    }

    /// All campaigns of the page.
    ///
    /// # Errors
    /// The first reason why something is left out.
    pub fn whole(self) -> Result<Vec<CampaignView>> {
        match self.unread.into_iter().next() {
            Some(unread) => Err(unread.error),
            None => Ok(self.views),
        }
    }
}
