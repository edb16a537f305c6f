//! The numbers of prizes and pools, and quantities by prize.
//!
//! Everything but the API knows a prize or a pool by its number: its index in the campaign, which
//! never changes once units exist (see [`super::change`]).

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, Visitor},
};

/// Whether a number is 0, for `skip_serializing_if`: serde hands out references.
pub(crate) fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// The index of a prize in its campaign, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct PrizeNo(pub u16);

/// Accepts a number, or the text that JSON makes of a number that is the key of a map.
impl<'de> Deserialize<'de> for PrizeNo {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;

        impl Visitor<'_> for NumberOrText {
            type Value = PrizeNo;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the number of a prize")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<PrizeNo, E> {
                let number = u16::try_from(number).map_err(E::custom)?;
                Ok(PrizeNo(number))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<PrizeNo, E> {
                text.parse().map(PrizeNo).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(NumberOrText)
    }
}

/// The index of a pool in its campaign, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PoolNo(pub u16);

impl PoolNo {
    /// Stands for the guarantees of a campaign, which give units off stock as a pool would. A
    /// campaign has fewer pools.
    pub const GUARANTEES: Self = Self(127);
}

/// Units by prize: sorted by prize, each prize once, no zero.
pub type Quantities = BTreeMap<PrizeNo, u64>;
