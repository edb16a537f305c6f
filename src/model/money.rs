//! Amounts of money.

use std::fmt;

/// An amount in a currency of ISO 4217, not negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Money {
    /// Three capital letters.
    pub currency: String,
    /// Billionths of a unit of the currency.
    pub nanos: u128,
}

impl Money {
    /// This amount `units` times.
    pub fn times(&self, units: u64) -> Self {
        Self {
            currency: self.currency.clone(),
            nanos: self.nanos * u128::from(units),
        }
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.currency, self.nanos)
    }
}
