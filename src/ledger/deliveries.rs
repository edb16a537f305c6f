//! What became of wins: an entry that delivers or revokes a win changes the row of that win.

use crate::{
    model::{Campaign, Moment},
    store::{DeliveryState, Entry, WonUnit, entry::Body},
};

/// A change of a win.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryChange {
    /// The partition of the entry, and of the win.
    pub partition: u32,
    /// The number of the entry, which is above that of the win.
    pub sequence: u64,
    /// When it was written.
    pub at: Moment,
    /// The campaign's id.
    pub campaign: String,
    /// The unit's id.
    pub unit: String,
    /// How far the win is from now on.
    pub state: DeliveryState,
    /// The reference of a delivery. A win that is revoked keeps the one that it has.
    pub reference: Option<String>,
}

impl DeliveryChange {
    /// The state as a number.
    pub fn code(&self) -> i16 {
        match self.state {
            DeliveryState::Delivered => 1,
            DeliveryState::Revoked => 2,
        }
    }
}

/// The win that an entry changes, and the version of the campaign under which it does.
pub fn changed_win(entry: &Entry) -> Option<(&WonUnit, u32)> {
    match &entry.body {
        Body::Delivered { version, win, .. } | Body::Revoked { version, win, .. } => {
            Some((win, *version))
        }
        _ => None,
    }
}

/// How an entry changes a win. `campaign` is the version that the entry names; a pool that this
/// version does not have gives none.
pub fn change(entry: &Entry, campaign: &Campaign) -> Option<DeliveryChange> {
    let (win, _) = changed_win(entry)?;
    let (state, reference) = match &entry.body {
        Body::Delivered { reference, .. } => (DeliveryState::Delivered, Some(reference.clone())),
        _ => (DeliveryState::Revoked, None),
    };
    let pool = campaign.pool_name(win.pool)?;
    Some(DeliveryChange {
        partition: entry.id.partition,
        sequence: entry.id.sequence,
        at: entry.at,
        campaign: campaign.id.to_string(),
        unit: win.unit.id(pool),
        state,
        reference,
    })
}
