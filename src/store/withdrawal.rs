//! What becomes of units that may have been won in entries that were lost: they are withdrawn, so
//! that none is won twice.

use std::{collections::BTreeMap, sync::Arc};

use super::{Author, CancelEnvelope, Result, Store, Sweep};
use crate::model::{CampaignId, EnvelopeId, Moment};

/// What was withdrawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withdrawn {
    /// Units by campaign and prize id.
    pub units: BTreeMap<CampaignId, BTreeMap<String, u64>>,
    /// Envelopes that were ended, and refunded what was left.
    pub envelopes: Vec<EnvelopeId>,
}

/// Withdraws every unit of these campaigns that can be won at a moment, and ends these envelopes:
/// what nobody has grabbed is refunded.
///
/// # Errors
/// The store cannot be written. What was withdrawn stays so; try again.
pub async fn withdraw_due(
    store: &dyn Store,
    campaigns: &[CampaignId],
    envelopes: &[EnvelopeId],
    until: Moment,
    author: &Author,
) -> Result<Withdrawn> {
    let mut withdrawn = Withdrawn::default();
    for id in campaigns {
        let units = withdraw_campaign(store, id, until).await?;
        withdrawn.units.insert(id.clone(), units);
    }
    for envelope in envelopes {
        let cancel = CancelEnvelope {
            envelope: envelope.clone(),
            author: author.clone(),
        };
        store.cancel_envelope(cancel).await?;
        withdrawn.envelopes.push(envelope.clone());
    }
    Ok(withdrawn)
}

async fn withdraw_campaign(
    store: &dyn Store,
    id: &CampaignId,
    until: Moment,
) -> Result<BTreeMap<String, u64>> {
    let campaign = Arc::clone(&store.campaign(id).await?.campaign);
    let mut units = BTreeMap::<String, u64>::new();
    loop {
        let swept = store.sweep(id, Sweep::Recovery { until }).await?;
        for (prize, count) in &swept.units {
            let prize = campaign.prize(*prize).id.to_string();
            *units.entry(prize).or_default() += count;
        }
        if !swept.more {
            return Ok(units);
        }
    }
}
