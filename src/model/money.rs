//! Amounts of money.

use std::fmt;

use iso_currency::Currency;

use super::{problem::Problems, text::grouped_digits};

/// The largest amount in whole units of a currency: 2^53 - 1, what a JSON number holds exactly.
pub const MONEY_UNITS_MAX: i64 = (1 << 53) - 1;

/// Billionths in a unit of a currency.
pub const NANOS_PER_UNIT: u32 = 1_000_000_000;
/// The digits of [`NANOS_PER_UNIT`] after the first.
const NANO_DIGITS: u32 = 9;

/// An amount in a currency of ISO 4217, not negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Money {
    /// Three capital letters.
    pub currency: String,
    /// Billionths of a unit of the currency.
    pub nanos: u128,
}

impl Money {
    /// Checks an amount as it comes over the wire; `path` names it in the problems.
    ///
    /// ```
    /// use tombola::model::money::Money;
    /// let value = Money::parse("value", "CNY", 120_000, 0).unwrap();
    /// assert_eq!(value.to_string(), "CNY 120,000.00");
    /// ```
    pub fn parse(path: &str, currency: &str, units: i64, nanos: i32) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        if let Some(flaw) = currency_flaw(currency) {
            problems.add(format!("{path}.currencyCode"), flaw);
        }
        let units = u128::try_from(units)
            .ok()
            .filter(|units| *units <= u128::from(MONEY_UNITS_MAX.unsigned_abs()));
        if units.is_none() {
            problems.add(
                format!("{path}.units"),
                "must be 0 to 2^53 - 1 whole units of the currency",
            );
        }
        let nanos = u128::try_from(nanos)
            .ok()
            .filter(|nanos| *nanos < u128::from(NANOS_PER_UNIT));
        if nanos.is_none() {
            problems.add(
                format!("{path}.nanos"),
                "must be 0 to 999,999,999 billionths of a unit",
            );
        }
        problems.or(Self {
            currency: currency.to_owned(),
            nanos: units.unwrap_or(0) * u128::from(NANOS_PER_UNIT) + nanos.unwrap_or(0),
        })
    }

    /// An amount of minor units, of which the currency says how many make one of it.
    ///
    /// ```
    /// use tombola::model::money::Money;
    /// assert_eq!(Money::of_minor("CNY", 12_345).to_string(), "CNY 123.45");
    /// assert_eq!(Money::of_minor("JPY", 12_345).to_string(), "JPY 12,345");
    /// ```
    pub fn of_minor(currency: &str, minor: u64) -> Self {
        let digits = Currency::from_code(currency).and_then(|currency| currency.exponent());
        let digits = u32::from(digits.unwrap_or(0)).min(NANO_DIGITS);
        Self {
            currency: currency.to_owned(),
            nanos: u128::from(minor) * 10_u128.pow(NANO_DIGITS - digits),
        }
    }

    /// The amount in minor units of its currency; none if that is no whole number.
    ///
    /// ```
    /// use tombola::model::money::Money;
    /// let fen = |nanos| Money { currency: "CNY".into(), nanos }.minor();
    /// assert_eq!((fen(1_230_000_000), fen(1_234_000_000)), (Some(123), None));
    /// ```
    pub fn minor(&self) -> Option<u128> {
        let of_one = Self::of_minor(&self.currency, 1).nanos;
        self.nanos
            .is_multiple_of(of_one)
            .then(|| self.nanos / of_one)
    }

    /// This amount `units` times; the largest `u128` if it would be more.
    pub fn times(&self, units: u64) -> Self {
        Self {
            currency: self.currency.clone(),
            nanos: self.nanos.saturating_mul(u128::from(units)),
        }
    }
}

/// Says what is wrong with a currency code, or nothing.
pub(super) fn currency_flaw(code: &str) -> Option<String> {
    if code.is_empty() {
        return Some("is empty: write an ISO 4217 code, e.g. CNY".into());
    }
    if Currency::from_code(code).is_some() {
        return None;
    }
    let upper = code.to_uppercase();
    Some(if Currency::from_code(&upper).is_some() {
        format!("{code:?} must be in capital letters: {upper}")
    } else {
        let hint = if upper == "RMB" {
            "; the yuan is CNY"
        } else {
            ""
        };
        format!("is not a currency code of ISO 4217, e.g. CNY{hint}")
    })
}

impl fmt::Display for Money {
    /// The code and the amount, with as many decimals as the currency has, or more if the amount
    /// needs them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_unit = u128::from(NANOS_PER_UNIT);
        let whole = grouped_digits(&(self.nanos / per_unit).to_string());
        let billionths = format!("{:09}", self.nanos % per_unit);
        let minor_digits = Currency::from_code(&self.currency)
            .and_then(|currency| currency.exponent())
            .map_or(0, usize::from);
        let decimals = billionths.trim_end_matches('0').len().max(minor_digits);
        write!(f, "{} {whole}", self.currency)?;
        if decimals > 0 {
            write!(f, ".{}", &billionths[..decimals])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_show_the_minor_digits_of_their_currency() {
        for (currency, units, nanos, text) in [
            ("CNY", 120_000, 0, "CNY 120,000.00"),
            ("CNY", 0, 500_000_000, "CNY 0.50"),
            ("CNY", 0, 5_000_000, "CNY 0.005"),
            ("JPY", 1_000, 0, "JPY 1,000"),
            ("KWD", 1, 0, "KWD 1.000"),
            ("EUR", MONEY_UNITS_MAX, 0, "EUR 9,007,199,254,740,991.00"),
        ] {
            let money = Money::parse("value", currency, units, nanos).unwrap();
            assert_eq!(money.to_string(), text);
        }
    }

    #[test]
    fn a_hundred_times_a_fen_is_a_yuan() {
        let fen = Money::parse("value", "CNY", 0, 10_000_000).unwrap();
        assert_eq!(fen.times(100).to_string(), "CNY 1.00");
        assert_eq!(fen.times(123_456_700).to_string(), "CNY 1,234,567.00");
    }

    #[test]
    fn bad_amounts_are_named() {
        for (currency, units, nanos, path, hint) in [
            ("", 1, 0, "value.currencyCode", "is empty"),
            ("cny", 1, 0, "value.currencyCode", "capital letters: CNY"),
            ("RMB", 1, 0, "value.currencyCode", "the yuan is CNY"),
            ("QQQ", 1, 0, "value.currencyCode", "ISO 4217"),
            ("CNY", -1, 0, "value.units", "0 to 2^53 - 1"),
            ("CNY", i64::MAX, 0, "value.units", "0 to 2^53 - 1"),
            ("CNY", 1, -1, "value.nanos", "0 to 999,999,999"),
            ("CNY", 1, 1_000_000_000, "value.nanos", "0 to 999,999,999"),
        ] {
            let problems = Money::parse("value", currency, units, nanos).unwrap_err();
            assert_eq!(problems.0.len(), 1, "{problems}");
            assert_eq!(problems.0[0].path, path);
            assert!(problems.0[0].message.contains(hint), "{problems}");
        }
        let all = Money::parse("value", "", -1, -1).unwrap_err();
        assert_eq!(all.0.len(), 3);
    }
}
