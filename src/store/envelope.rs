//! Commands on envelopes, their replies, and what can be read of them. Amounts are in minor units,
//! packets are counted from 1.
//!
//! Packets are grabbed in the order of their numbers, which of an envelope rain is the order of
//! their release.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    entry::{LedgerId, RefundCause},
    operation::Author,
};
use crate::{
    chance::Nonce,
    model::{Envelope, EnvelopeId, Moment, OperatorId, UserId},
};

/// The packets of a chunk while few have grabbed and few wait. An envelope of no more packets is
/// created with them. With [`low_packets`], at most 128 wait, which Redis keeps in its compact
/// encoding.
pub const CHUNK_PACKETS: usize = 100;

/// The most packets that a step adds: the chunk of an envelope from which many have grabbed.
pub const CHUNK_PACKETS_MAX: usize = 1000;

/// Grabs after which many have grabbed.
pub(super) const MANY_GRABS: u32 = 1000;

/// How many packets the next chunk has, after `grabbed` grabs from the envelope, while
/// `users_waiting` users wait for packets.
pub fn chunk_packets(grabbed: u32, users_waiting: usize) -> usize {
    if grabbed < MANY_GRABS {
        users_waiting.clamp(CHUNK_PACKETS, CHUNK_PACKETS_MAX)
    } else {
        CHUNK_PACKETS_MAX
    }
}

/// Waiting packets at which the next chunk is asked for, before many have grabbed.
pub(super) const LOW_PACKETS: u32 = 28;

/// The same afterwards.
pub(super) const LOW_PACKETS_OF_MANY: u32 = 500;

/// Waiting packets at which the next chunk is asked for, after `grabbed` grabs from the envelope.
pub fn low_packets(grabbed: u32) -> u32 {
    if grabbed < MANY_GRABS {
        LOW_PACKETS
    } else {
        LOW_PACKETS_OF_MANY
    }
}

/// The most rows that a step removes.
pub const REMOVED_ROWS_MAX: u32 = 100;

/// Creates an envelope.
#[derive(Clone, Debug)]
pub struct CreateEnvelope {
    /// What it is.
    pub envelope: Arc<Envelope>,
    /// Who may grab, each once, by id: as many as the envelope says.
    pub allowed_users: Arc<[UserId]>,
    /// The identity that asks for it, if the server knows identities.
    pub created_by: Option<OperatorId>,
    /// The nonce of its seed.
    pub nonce: Nonce,
    /// SHA-256 of its seed, hexadecimal.
    pub commitment: String,
    /// All its packets in order, if they are few; else empty, and they are filled in afterwards.
    pub packets: Vec<NewPacket>,
}

/// A packet of an envelope that does not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPacket {
    /// What it holds.
    pub amount_minor: u64,
    /// How long after the envelope's start it is released.
    pub after: Duration,
}

impl NewPacket {
    /// The packet with this number of an envelope that starts at `start`.
    pub fn waiting(self, number: u32, start: Moment) -> WaitingPacket {
        WaitingPacket {
            number,
            amount_minor: self.amount_minor,
            release: start + self.after,
        }
    }
}

/// The reply to the creation or the end of an envelope.
#[derive(Clone, Debug)]
pub struct EnvelopeReply {
    /// As it stands after it.
    pub view: EnvelopeView,
    /// Nothing was changed: it was so before.
    pub replayed: bool,
}

/// Grabs a packet for a user.
#[derive(Clone, Debug)]
pub struct GrabCommand {
    /// Which envelope.
    pub envelope: EnvelopeId,
    /// For whom.
    pub user: UserId,
    /// The service's deadline: the store does not take a packet after it. A user who already has a
    /// packet gets it as the answer even then.
    pub not_after: Moment,
}

/// What became of a grab.
#[derive(Clone, Debug)]
pub enum Grabbed {
    /// It is decided.
    Done(GrabAnswer),
    /// Nothing happened: the next packets must be filled in first.
    NeedFill,
}

/// How a grab came out.
#[derive(Clone, Debug)]
pub struct GrabAnswer {
    /// How.
    pub outcome: GrabOutcome,
    /// The envelope.
    pub envelope: Arc<Envelope>,
    /// From when on it can be grabbed.
    pub start: Moment,
    /// From when on it cannot.
    pub expiry: Moment,
    /// [`low_packets`] wait, and there are more to be filled in: one grab of each chunk gets this.
    pub running_low: bool,
    /// It has expired and is not refunded yet.
    pub refund_due: bool,
}

/// How a grab came out, in the order in which it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrabOutcome {
    /// The user has this packet from before.
    AlreadyGrabbed(Packet),
    /// The user is not on the envelope's list.
    NotAllowed,
    /// The start has not come.
    NotStarted,
    /// The time is over, or it was cancelled.
    Expired,
    /// Every packet is grabbed.
    Empty,
    /// The next packet is not released yet.
    NotYet,
    /// The user has this packet now.
    Grabbed(Packet),
}

/// A packet that was grabbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// From 1.
    pub number: u32,
    /// What it holds.
    pub amount_minor: u64,
    /// When it was grabbed.
    pub at: Moment,
    /// The entry of the grab.
    pub ledger: LedgerId,
}

/// Who grabbed which packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrabView {
    /// Who.
    pub user: UserId,
    /// Which.
    pub packet: Packet,
}

/// Puts the next packets of an envelope where they can be grabbed.
#[derive(Clone, Debug)]
pub struct FillEnvelope {
    /// Which envelope.
    pub envelope: EnvelopeId,
    /// Fence: how many packets were filled in before.
    pub filled: u32,
    /// The next ones, in order, at most [`CHUNK_PACKETS_MAX`].
    pub packets: Vec<WaitingPacket>,
}

/// A packet that waits to be grabbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingPacket {
    /// From 1.
    pub number: u32,
    /// What it holds.
    pub amount_minor: u64,
    /// From when on it can be grabbed; of an envelope that is no rain: its start.
    pub release: Moment,
}

/// Refunds what is left of an envelope now.
#[derive(Clone, Debug)]
pub struct CancelEnvelope {
    /// Which envelope.
    pub envelope: EnvelopeId,
    /// By whom.
    pub author: Author,
}

/// An envelope as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvelopeView {
    /// What it is.
    pub envelope: Arc<Envelope>,
    /// The nonce of its seed.
    pub nonce: Nonce,
    /// SHA-256 of its seed, hexadecimal.
    pub commitment: String,
    /// When it was created.
    pub created: Moment,
    /// From when on it can be grabbed.
    pub start: Moment,
    /// From when on it cannot.
    pub expiry: Moment,
    /// The entry of its creation.
    pub ledger: LedgerId,
    /// Packets that were filled in.
    pub filled: u32,
    /// What users have.
    pub grabbed: GrabCounts,
    /// What went back.
    pub refund: Option<RefundView>,
    /// The store's clock.
    pub now: Moment,
}

/// What users have of an envelope. Only grabs change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrabCounts {
    /// Packets.
    pub packets: u32,
    /// Their sum.
    pub amount_minor: u64,
    /// When the last one was grabbed; none if none was.
    pub last: Option<Moment>,
}

/// What went back of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefundView {
    /// What.
    pub refund: Refund,
    /// The entry.
    pub ledger: LedgerId,
}

/// What went back of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// Packets that nobody had grabbed.
    pub packets: u32,
    /// Their sum.
    pub amount_minor: u64,
    /// Why.
    pub cause: RefundCause,
    /// When.
    pub at: Moment,
}

/// How far an envelope is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its start has not come.
    Scheduled,
    /// Users grab.
    Open,
    /// Every packet is grabbed.
    Empty,
    /// Its time is over; the rest is refunded, or about to be.
    Expired,
    /// It was cancelled.
    Cancelled,
}

impl EnvelopeView {
    /// How far it is.
    pub fn phase(&self) -> Phase {
        match self.refund.map(|refund| refund.refund.cause) {
            Some(RefundCause::Cancelled) => Phase::Cancelled,
            Some(RefundCause::Expired) => Phase::Expired,
            None if self.is_empty() => Phase::Empty,
            None if self.now >= self.expiry => Phase::Expired,
            None if self.now < self.start => Phase::Scheduled,
            None => Phase::Open,
        }
    }

    /// Every packet is grabbed.
    pub fn is_empty(&self) -> bool {
        self.grabbed.packets == self.envelope.packets
    }

    /// It has expired and is not refunded yet.
    pub fn is_refund_due(&self) -> bool {
        self.refund.is_none() && !self.is_empty() && self.now >= self.expiry
    }

    /// Nothing can happen to it any more, so its seed may be revealed.
    pub fn is_settled(&self) -> bool {
        self.refund.is_some() || self.is_empty()
    }

    /// Packets that are neither grabbed nor refunded.
    pub fn packets_waiting(&self) -> u32 {
        let refunded = self.refund.map_or(0, |refund| refund.refund.packets);
        self.envelope.packets - self.grabbed.packets - refunded
    }

    /// Their sum: `total = grabbed + waiting + refunded`.
    pub fn waiting_minor(&self) -> u64 {
        let refunded = self.refund.map_or(0, |refund| refund.refund.amount_minor);
        self.envelope.total_minor - self.grabbed.amount_minor - refunded
    }
}

/// The reply to a step that settles an envelope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The rest was refunded in this step.
    pub refunded: bool,
    /// Rows were removed in this step.
    pub removed: bool,
    /// There is more to remove.
    pub more: bool,
}

/// All envelopes of one currency that were ever created, removed ones too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvelopeSums {
    /// Three capital letters of ISO 4217.
    pub currency: String,
    /// Envelopes created.
    pub envelopes: u64,
    /// Of these, neither empty nor refunded.
    pub open: u64,
    /// The sum of all that were created.
    pub created_minor: u128,
    /// The sum of all packets grabbed.
    pub grabbed_minor: u128,
    /// The sum of what is neither grabbed nor refunded.
    pub waiting_minor: u128,
    /// The sum of all refunds.
    pub refunded_minor: u128,
    /// What open envelopes hold, added up anew, is what is counted as waiting; true if a store
    /// does not add it up.
    pub envelopes_agree: bool,
}

/// The sums of all envelopes of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvelopeTotals {
    /// By currency.
    pub sums: Vec<EnvelopeSums>,
    /// The last entry of each partition that they count.
    pub heads: Vec<LedgerId>,
}

impl EnvelopeSums {
    /// P2: every unit of the currency is accounted for.
    pub fn balanced(&self) -> bool {
        self.envelopes_agree
            && self.created_minor == self.grabbed_minor + self.waiting_minor + self.refunded_minor
    }
}
