//! Validated types of the domain, and the pure rules on them. No I/O, no clock, no randomness.
//!
//! What comes from outside is parsed once, in [`convert`] and [`mod@file`], and cannot be wrong
//! afterwards.

pub mod apportion;
pub mod budget;
pub mod campaign;
pub mod caps;
pub mod change;
pub mod code;
pub mod convert;
pub mod deck;
pub mod envelope;
pub mod factor;
pub mod file;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub mod id;
pub mod limits;
pub mod moment;
pub mod money;
pub mod number;
pub mod paint;
pub mod pattern;
pub mod personal;
pub mod problem;
mod quota;
pub mod rounds;
pub mod schedule;
pub mod segments;
pub mod summary;
pub mod text;
pub mod zone;

pub use campaign::{Campaign, Consolation, Pool, PoolKind, Prize};
pub use deck::Deck;
pub use envelope::{Envelope, Split};
pub use factor::Factor;
pub use id::{
    CampaignId, EnvelopeId, GuaranteeId, OperatorId, PoolId, PrizeId, RequestId, SegmentId, UserId,
};
pub use moment::Moment;
pub use number::{PoolNo, PrizeNo, Quantities};
pub use pattern::{Pattern, Patterns};
pub use problem::{Problem, Problems};
