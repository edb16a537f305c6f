//! An envelope: what rules see of it, and what they do not: packets, grabs and those who may grab.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use crate::{
    model::{Moment, UserId},
    store::{
        EnvelopeView, GrabView, LedgerId, Result,
        envelope::WaitingPacket,
        rules::envelope::{EnvelopeState, Removal},
    },
};

/// An envelope.
pub(super) struct EnvelopeData {
    pub(super) state: EnvelopeState,
    /// Ledger entries of its creation and its refund.
    pub(super) created: LedgerId,
    pub(super) refund: Option<LedgerId>,
    pub(super) allowed: HashSet<UserId>,
    /// Packets that can be grabbed now, or from their release on, by number.
    pub(super) packets: BTreeMap<u32, WaitingPacket>,
    /// Packets that users have, by number.
    pub(super) grabs: BTreeMap<u32, GrabView>,
    pub(super) by_user: HashMap<UserId, u32>,
}

impl EnvelopeData {
    /// As readers see it.
    pub(super) fn view(&self, now: Moment) -> Result<EnvelopeView> {
        self.state.view(now, self.created, self.refund)
    }

    /// When its refund, or its removal, is due.
    pub(super) fn due(&self, retention: Duration) -> Option<Moment> {
        if self.state.is_removed() {
            return Some(Moment::EPOCH);
        }
        let removal = self.state.settled_at().map(|settled| settled + retention);
        self.state.refund_due_at().or(removal)
    }

    pub(super) fn remove(&mut self, removal: Removal) {
        for number in removal.grabs_after + 1..=removal.grabs_until {
            if let Some(grab) = self.grabs.remove(&number) {
                self.by_user.remove(&grab.user);
            }
        }
        let count = removal.allowed_users as usize;
        let gone: Vec<_> = self.allowed.iter().take(count).cloned().collect();
        for user in gone {
            self.allowed.remove(&user);
        }
    }
}
