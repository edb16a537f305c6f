//! An envelope as a rule sees it.

use std::{ops::AddAssign, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    chance::Nonce,
    model::{Envelope, Moment, UserId},
    store::{
        EnvelopeSums, EnvelopeView, Result, StoreError,
        entry::{Body, LedgerId},
        envelope::{GrabCounts, Refund, RefundView, WaitingPacket},
    },
};

/// An envelope and what its users have of it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::store) struct EnvelopeState {
    /// What rules change.
    pub(in crate::store) record: EnvelopeRecord,
    /// What grabs change.
    pub(in crate::store) grabbed: GrabCounts,
    /// What a rule has done besides.
    pub(in crate::store) changes: EnvelopeChanges,
}

/// What of an envelope only rules change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::store) struct EnvelopeRecord {
    #[serde(with = "shared")]
    pub(in crate::store) envelope: Arc<Envelope>,
    /// SHA-256 of what was asked for, those who may grab among it, hexadecimal: two requests are
    /// the same if it is.
    pub(in crate::store) digest: String,
    /// Hexadecimal.
    #[serde(with = "nonce")]
    pub(in crate::store) nonce: Nonce,
    pub(in crate::store) commitment: String,
    pub(in crate::store) created: Moment,
    pub(in crate::store) start: Moment,
    pub(in crate::store) expiry: Moment,
    /// Packets that were filled in, and their sum.
    pub(in crate::store) filled: u32,
    pub(in crate::store) filled_minor: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::store) refund: Option<Refund>,
    /// Set while it is being removed, when it no longer exists for callers: the number of rows that
    /// are gone, grabs first, then those who may grab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::store) removed: Option<u32>,
}

/// What a rule has done besides changing the record.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::store) struct EnvelopeChanges {
    /// Of the ledger; at most one.
    pub(in crate::store) entry: Option<Body>,
    /// Who may grab, of a new envelope.
    pub(in crate::store) allowed_in: Arc<[UserId]>,
    /// Packets that can be grabbed now, or from their release on.
    pub(in crate::store) packets_in: Vec<WaitingPacket>,
    /// No packet waits any more.
    pub(in crate::store) packets_out: bool,
    /// What is to be removed.
    pub(in crate::store) removal: Option<Removal>,
    /// What this does to the sums of the envelope's currency.
    pub(in crate::store) sums: SumsChange,
}

/// Rows to be removed in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Removal {
    /// Grabs of the packets after this one...
    pub(in crate::store) grabs_after: u32,
    /// ...up to this one.
    pub(in crate::store) grabs_until: u32,
    /// How many of those who may grab to remove, whoever they are.
    pub(in crate::store) allowed_users: u32,
    /// Then nothing is left but the record, which goes too; that the id was used is remembered.
    pub(in crate::store) is_last: bool,
}

/// Changes of a currency's sums, each within 2^53 either way. The sums themselves may pass 2^63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct SumsChange {
    pub(in crate::store) envelopes: i64,
    /// Envelopes that are neither empty nor refunded.
    pub(in crate::store) open: i64,
    pub(in crate::store) created_minor: i64,
    pub(in crate::store) grabbed_minor: i64,
    pub(in crate::store) waiting_minor: i64,
    pub(in crate::store) refunded_minor: i64,
}

impl EnvelopeState {
    /// Checks what was read: what is grabbed was filled in before, and what was filled in is of the
    /// envelope.
    pub(in crate::store) fn check(&self) -> Result<()> {
        let (record, grabbed) = (&self.record, &self.grabbed);
        let envelope = &record.envelope;
        let are_packets = grabbed.packets <= record.filled && record.filled <= envelope.packets;
        let are_amounts = grabbed.amount_minor <= record.filled_minor
            && record.filled_minor <= envelope.total_minor;
        if are_packets && are_amounts {
            return Ok(());
        }
        Err(StoreError::corrupt(format!(
            "of envelope {} {grabbed:?} are grabbed, {} packets of {} are filled in",
            envelope.id, record.filled, record.filled_minor
        )))
    }

    /// As readers see it; the ledger entries of creation and refund are the store's to know.
    pub(in crate::store) fn view(
        &self,
        now: Moment,
        ledger: LedgerId,
        refund_ledger: Option<LedgerId>,
    ) -> Result<EnvelopeView> {
        let record = &self.record;
        let refund = match (record.refund, refund_ledger) {
            (None, _) => None,
            (Some(refund), Some(ledger)) => Some(RefundView { refund, ledger }),
            (Some(_), None) => {
                let id = &record.envelope.id;
                let flaw = format!("the refund of envelope {id} has no entry");
                return Err(StoreError::corrupt(flaw));
            }
        };
        Ok(EnvelopeView {
            envelope: Arc::clone(&record.envelope),
            nonce: record.nonce,
            commitment: record.commitment.clone(),
            created: record.created,
            start: record.start,
            expiry: record.expiry,
            ledger,
            filled: record.filled,
            grabbed: self.grabbed,
            refund,
            now,
        })
    }

    /// Every packet is grabbed.
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.grabbed.packets == self.record.envelope.packets
    }

    /// When nothing was left to happen to it: its refund, or its last grab. None as long as
    /// something is.
    pub(in crate::store) fn settled_at(&self) -> Option<Moment> {
        match self.record.refund {
            Some(refund) => Some(refund.at),
            None if self.is_empty() => Some(self.grabbed.last.unwrap_or(self.record.created)),
            None => None,
        }
    }

    /// When its refund is due; none once it is settled.
    pub(in crate::store) fn refund_due_at(&self) -> Option<Moment> {
        self.settled_at().is_none().then_some(self.record.expiry)
    }

    /// Packets that can be grabbed, now or from their release on, without a further fill.
    pub(in crate::store) fn waiting(&self) -> u32 {
        match self.record.refund {
            Some(_) => 0,
            None => self.record.filled.saturating_sub(self.grabbed.packets),
        }
    }

    /// It is being removed.
    pub(in crate::store) fn is_removed(&self) -> bool {
        self.record.removed.is_some()
    }
}

impl SumsChange {
    /// What a grab does; the last one leaves the envelope empty.
    pub(in crate::store) fn of_grab(amount_minor: u64, is_last: bool) -> Self {
        Self {
            open: -i64::from(is_last),
            grabbed_minor: signed(amount_minor),
            waiting_minor: -signed(amount_minor),
            ..Self::default()
        }
    }
}

impl EnvelopeSums {
    /// Brings the sums of a currency to what a change makes of them.
    pub(in crate::store) fn change(&mut self, change: SumsChange) -> Result<()> {
        let below_zero = || {
            let text = format!(
                "the sums of {} envelopes are less than {change:?}",
                self.currency
            );
            StoreError::corrupt(text)
        };
        let count = |sum: u64, change: i64| sum.checked_add_signed(change).ok_or_else(below_zero);
        let plus = |sum: u128, change: i64| {
            let change = i128::from(change);
            sum.checked_add_signed(change).ok_or_else(below_zero)
        };
        *self = Self {
            envelopes: count(self.envelopes, change.envelopes)?,
            open: count(self.open, change.open)?,
            created_minor: plus(self.created_minor, change.created_minor)?,
            grabbed_minor: plus(self.grabbed_minor, change.grabbed_minor)?,
            waiting_minor: plus(self.waiting_minor, change.waiting_minor)?,
            refunded_minor: plus(self.refunded_minor, change.refunded_minor)?,
            currency: self.currency.clone(),
            envelopes_agree: self.envelopes_agree,
        };
        Ok(())
    }
}

impl AddAssign for SumsChange {
    fn add_assign(&mut self, other: Self) {
        self.envelopes += other.envelopes;
        self.open += other.open;
        self.created_minor += other.created_minor;
        self.grabbed_minor += other.grabbed_minor;
        self.waiting_minor += other.waiting_minor;
        self.refunded_minor += other.refunded_minor;
    }
}

/// An amount as a change of a sum; amounts are below 2^53.
pub(in crate::store) fn signed(amount_minor: u64) -> i64 {
    i64::try_from(amount_minor).unwrap_or(i64::MAX)
}

mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &Arc<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        T::serialize(value, serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}

mod nonce {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use crate::chance::Nonce;

    pub(super) fn serialize<S: Serializer>(
        nonce: &Nonce,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&nonce.to_hex())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Nonce, D::Error> {
        let text = String::deserialize(deserializer)?;
        Nonce::from_hex(&text).ok_or_else(|| D::Error::custom("is not a nonce of 32 bytes"))
    }
}
