//! An envelope as it was validated: an amount, how it is split, who may grab it and when.
//!
//! Made by [`super::convert`] only, and never changed afterwards.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    campaign::Attributes,
    id::{EnvelopeId, UserId},
    moment::Moment,
    number::is_zero,
};

/// The most packets of an envelope.
pub const PACKETS_MAX: u32 = 100_000;

/// The largest amount in minor units: 2^53 - 1, what a double holds exactly (Lua and JSON have no
/// other numbers).
pub const AMOUNT_MINOR_MAX: u64 = (1 << 53) - 1;

/// The most users that an envelope may be restricted to.
pub const ALLOWED_USERS_MAX: usize = 10_000;

/// How long an envelope can be grabbed unless it says so.
pub const TTL_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest time for which an envelope can be grabbed.
pub const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How an amount is split into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// By chance, see [`crate::chance::split()`].
    Random,
    /// As equal as can be.
    Equal,
}

/// What a sender asked for, without the list of those who may grab, which a store keeps by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// Its id, never used again.
    pub id: EnvelopeId,
    /// Who gives it.
    pub sender: UserId,
    /// The whole amount in minor units of the currency, 1 to [`AMOUNT_MINOR_MAX`].
    pub total_minor: u64,
    /// Three capital letters of ISO 4217.
    pub currency: String,
    /// 1 to [`PACKETS_MAX`].
    pub packets: u32,
    /// How it is split.
    pub split: Split,
    /// The least that a packet holds, at least 1; `packets * min_minor <= total_minor`.
    pub min_minor: u64,
    /// From when on it can be grabbed, if the sender said so; else from its creation on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Moment>,
    /// How long it can be grabbed from its start, in microseconds, 1 to [`TTL_MAX`].
    pub ttl_micros: u64,
    /// Packets are released within this time from the start, in microseconds, at most the lifetime;
    /// 0 if all are there at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rain_micros: u64,
    /// How many users may grab; 0 if everyone may.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub allowed_users: u32,
    /// As the sender gave them.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
}

impl Envelope {
    /// From when on it can be grabbed, if it is created at `created`.
    pub fn start_at(&self, created: Moment) -> Moment {
        self.start.unwrap_or(created)
    }

    /// From when on it cannot be grabbed any more, if it starts at `start`.
    pub fn expiry_at(&self, start: Moment) -> Moment {
        start + Duration::from_micros(self.ttl_micros)
    }

    /// Its packets are released one by one.
    pub fn is_rain(&self) -> bool {
        self.rain_micros > 0
    }

    /// Only some users may grab.
    pub fn is_restricted(&self) -> bool {
        self.allowed_users > 0
    }
}
