//! The ledger: every change of a campaign or an envelope is an entry, written in the step that
//! makes the change.
//!
//! Prizes and pools are written as numbers (see [`crate::model::number`]); moments as microseconds
//! since the Unix epoch.

use serde::{Deserialize, Serialize};

use super::{
    Cause, DrawResult, Result, StoreError,
    bonus::BonusEntry,
    delivery::WonUnit,
    fill::TotalsBase,
    operation::{Author, Operation},
};
use crate::model::{
    Campaign, CampaignId, Envelope, EnvelopeId, Moment, OperatorId, PoolNo, Quantities, RequestId,
    SegmentId, UserId,
    limits::{Funding, UserCounts},
    number::is_zero,
};

/// The name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerId {
    /// The partition, from 0.
    pub partition: u32,
    /// The entry's number in its partition, from 1, without gaps.
    pub sequence: u64,
}

/// An entry of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name.
    pub id: LedgerId,
    /// Its number among the entries of its campaign, from 1, without gaps. Entries of envelopes and
    /// of the partition itself share one count of the partition. None for entries of earlier
    /// versions: the count begins with the first entry that has a number.
    pub number: Option<u64>,
    /// Mark of the store's fork under which it was written; 0 before the first one. After entries
    /// were lost, their numbers come again under another fork.
    pub fork: u32,
    /// When it was written, by the store's clock.
    pub at: Moment,
    /// What it is about.
    pub subject: Subject,
    /// What happened.
    pub body: Body,
}

/// What an entry is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A campaign.
    Campaign(CampaignId),
    /// An envelope.
    Envelope(EnvelopeId),
    /// The partition itself.
    Partition,
}

impl Subject {
    /// The campaign; none if it is something else.
    pub fn campaign(&self) -> Option<&CampaignId> {
        match self {
            Self::Campaign(id) => Some(id),
            Self::Envelope(_) | Self::Partition => None,
        }
    }

    /// The envelope; none if it is something else.
    pub fn envelope(&self) -> Option<&EnvelopeId> {
        match self {
            Self::Campaign(_) | Self::Partition => None,
            Self::Envelope(id) => Some(id),
        }
    }
}

/// What happened, by kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Body {
    /// A version came into force.
    Applied(Box<Applied>),
    /// An operator's act.
    Operated {
        /// What.
        operation: Operation,
        /// By whom.
        author: Author,
        /// Users that it concerned.
        users: u32,
    },
    /// A draw.
    Draw(DrawEntry),
    /// A caller granted a user bonus draws.
    Bonus(BonusEntry),
    /// Units went from stock to a window; their moments follow from the seed and this entry.
    Injected(Injected),
    /// A window passed unfilled.
    Missed {
        /// The pool.
        pool: PoolNo,
        /// The window's start.
        window: Moment,
        /// The plan's version.
        version: u32,
        /// The plan's quantities.
        planned: Quantities,
        /// They are spread over the next windows.
        spread: bool,
    },
    /// Cards went from stock to a deck's pool; which ones follows from the seed and this entry.
    Dealt {
        /// The pool.
        pool: PoolNo,
        /// The round, from 1.
        round: u64,
        /// The chunk of the round, from 0.
        chunk: u64,
        /// Cards by prize.
        granted: Quantities,
        /// Blanks.
        blanks: u64,
        /// Mark of the fork under which they were dealt; see [`super::Unit::fork`].
        #[serde(default, skip_serializing_if = "is_zero")]
        fork: u32,
    },
    /// Units left a pool.
    TakenBack {
        /// The pool.
        pool: PoolNo,
        /// Why.
        cause: TakenBackCause,
        /// Units by prize.
        units: Quantities,
        /// They left the campaign instead of going back to stock.
        withdrawn: bool,
        /// Which units of these prizes. Earlier versions wrote none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spans: Vec<Span>,
    },
    /// A win was delivered.
    Delivered {
        /// The campaign's version.
        version: u32,
        /// Which.
        win: WonUnit,
        /// The delivery's reference in the system that made it.
        reference: String,
        /// By whom.
        author: Author,
    },
    /// A win was revoked.
    Revoked {
        /// The campaign's version.
        version: u32,
        /// Which.
        win: WonUnit,
        /// The request asked that the unit leave the campaign.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        withdraw: bool,
        /// It left the campaign instead of going back to stock.
        withdrawn: bool,
        /// By whom.
        author: Author,
    },
    /// Every unit of an ended campaign is back; the seed may be revealed.
    Closed {},
    /// Another server came to serve the partition, or the same one was restarted: the numbers of
    /// the entries jump to this one's, the only gap there ever is.
    Forked {
        /// Replication id of the server, 40 hexadecimal digits.
        replid: String,
        /// Number of the last entry before the fork.
        base: u64,
        /// The fork's mark; see [`super::Unit::fork`].
        mark: u32,
    },
    /// An operator let the partition go on after entries were lost.
    Recovered {
        /// What had halted the partition: replication id of a fork, number of the last acknowledged
        /// entry, number of the last entry of that fork in the store (or -). If a backup of an
        /// embedded store was restored: `- -` and the number of its last entry.
        halt: String,
        /// By whom.
        author: Author,
    },
    /// An envelope was created.
    EnvelopeCreated(Box<EnvelopeCreated>),
    /// A user has a packet of an envelope.
    Grab {
        /// Who.
        user: UserId,
        /// The packet's number, from 1.
        packet: u32,
        /// What it holds, in minor units of the envelope's currency.
        amount_minor: u64,
    },
    /// What was left of an envelope went back, once and for all.
    Refund {
        /// Packets that nobody had grabbed.
        packets: u32,
        /// Their sum, in minor units of the envelope's currency.
        amount_minor: u64,
        /// Why.
        cause: RefundCause,
        /// Who cancelled it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        author: Option<Author>,
    },
}

impl Body {
    /// All names of [`Self::kind`].
    pub const KINDS: [&str; 16] = [
        "applied",
        "operated",
        "draw",
        "bonus",
        "injected",
        "missed",
        "dealt",
        "taken_back",
        "delivered",
        "revoked",
        "closed",
        "forked",
        "recovered",
        "envelope_created",
        "grab",
        "refund",
    ];

    /// The name of what happened.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Applied(_) => "applied",
            Self::Operated { .. } => "operated",
            Self::Draw(_) => "draw",
            Self::Bonus(_) => "bonus",
            Self::Injected(_) => "injected",
            Self::Missed { .. } => "missed",
            Self::Dealt { .. } => "dealt",
            Self::TakenBack { .. } => "taken_back",
            Self::Delivered { .. } => "delivered",
            Self::Revoked { .. } => "revoked",
            Self::Closed {} => "closed",
            Self::Forked { .. } => "forked",
            Self::Recovered { .. } => "recovered",
            Self::EnvelopeCreated(_) => "envelope_created",
            Self::Grab { .. } => "grab",
            Self::Refund { .. } => "refund",
        }
    }
}

/// A version that came into force. Fields with a default are missing in entries of earlier
/// versions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// Its number.
    pub version: u32,
    /// The version it changed; 0 for a new campaign.
    pub base_version: u32,
    /// SHA-256 of its encoded definition, hexadecimal.
    pub definition_sha256: String,
    /// The encoded definition (`tombola.v1.Campaign`), hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub definition: String,
    /// The nonce of the seed, hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nonce: String,
    /// SHA-256 of the seed, hexadecimal.
    pub commitment: String,
    /// Units added to stock.
    pub stock_added: Quantities,
    /// Nothing had happened to the campaign: what was in stock before is void, `stock_added` is all
    /// there is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stock_anew: bool,
    /// By pool, the units planned by `total` that this version shares out over the hours, and the
    /// first of these hours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub totals: Vec<(PoolNo, TotalsBase)>,
    /// The release of the time-zone data by which hours and days are computed, such as `2026e`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time_zones: String,
    /// The store is on a test clock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub test_clock: bool,
    /// By whom.
    pub author: Author,
}

/// Units of a window or of a deck's round whose numbers follow each other. In JSON: `[window, fork,
/// generation, first, last]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "SpanCode", into = "SpanCode")]
pub struct Span {
    /// A schedule's window, by its start in seconds since the Unix epoch; a deck's round.
    pub window: i64,
    /// Mark of the fork; see [`super::Unit::fork`].
    pub fork: u32,
    /// The injection of the window that the units are of; see [`Injected::generation`]. 0 for a
    /// deck.
    pub generation: u32,
    /// The lowest number.
    pub first: u64,
    /// The highest number.
    pub last: u64,
}

type SpanCode = (i64, u32, u32, u64, u64);

impl From<Span> for SpanCode {
    fn from(span: Span) -> Self {
        let Span {
            window,
            fork,
            generation,
            first,
            last,
        } = span;
        (window, fork, generation, first, last)
    }
}

impl From<SpanCode> for Span {
    fn from((window, fork, generation, first, last): SpanCode) -> Self {
        Self {
            window,
            fork,
            generation,
            first,
            last,
        }
    }
}

/// An envelope as it was created: with the seed all that its packets follow from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnvelopeCreated {
    /// What was asked for.
    pub envelope: Envelope,
    /// Who may grab; empty: everyone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_users: Vec<UserId>,
    /// The identity that asked for it, if the server knew identities. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<OperatorId>,
    /// From when on it can be grabbed.
    pub start: Moment,
    /// From when on it cannot.
    pub expiry: Moment,
    /// The nonce of its seed, hexadecimal.
    pub nonce: String,
    /// SHA-256 of its seed, hexadecimal.
    pub commitment: String,
    /// The store is on a test clock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub test_clock: bool,
}

/// Why what was left of an envelope went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundCause {
    /// Its time was over.
    Expired,
    /// An operator cancelled it.
    Cancelled,
}

/// Why units left a pool without being won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakenBackCause {
    /// An operator, or a smaller plan, recalled them before their release.
    Recalled,
    /// Nobody took them after their release.
    Unclaimed,
    /// The campaign ended.
    Ended,
    /// Entries were lost in a failover, and these units may have been won in them.
    Recovered,
}

/// Units that went from stock to a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Injected {
    /// The pool.
    pub pool: PoolNo,
    /// The window's start.
    pub window: Moment,
    /// 0 for the window's first injection, then a top-up each.
    pub generation: u32,
    /// The plan's version.
    pub version: u32,
    /// The units are scattered from here...
    pub from: Moment,
    /// ...to here: the window's end, or the moment at which a missed window was released.
    pub until: Moment,
    /// What the plan asked for; of a top-up only what it changes.
    pub planned: Quantities,
    /// Of a top-up: all that is planned for the window from now on. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<Quantities>,
    /// Taken over from missed windows.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    pub carried: Quantities,
    /// What stock could give.
    pub granted: Quantities,
    /// Mark of the fork under which they were injected; see [`super::Unit::fork`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fork: u32,
}

/// A draw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawEntry {
    /// The campaign's version.
    pub version: u32,
    /// Who drew.
    pub user: UserId,
    /// The request id.
    pub request: RequestId,
    /// What paid.
    pub funding: Funding,
    /// The caller's reference of the payment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub payment_ref: String,
    /// The caller asked for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub consolation_only: bool,
    /// One for each of `count`.
    pub results: Vec<DrawResult>,
    /// The user's counts just after.
    pub counts: UserCounts,
    /// What the caller said of the user, if the campaign names segments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<SegmentId>,
}

impl DrawEntry {
    /// Checks that the results are ones that draws of this campaign can have.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] names the prize or the pool that the campaign does not have.
    pub fn check(&self, campaign: &Campaign) -> Result<()> {
        for result in &self.results {
            let (prize, pool) = match result {
                DrawResult::Won { prize, pool, .. } => (Some(prize), pool),
                DrawResult::NotWon { cause, .. } => match cause {
                    Cause::Forfeited { prize, pool, .. } => (Some(prize), pool),
                    Cause::Blank { pool, .. } => (None, pool),
                    _ => continue,
                },
            };
            if prize.is_some_and(|prize| usize::from(prize.0) >= campaign.prizes.len())
                || campaign.pool_name(*pool).is_none()
            {
                return Err(StoreError::corrupt(format!(
                    "campaign {}: version {} has no prize {prize:?} in pool {}, which a draw took",
                    campaign.id, self.version, pool.0
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
