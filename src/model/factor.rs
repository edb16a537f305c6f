//! Factors of special hours: decimals, reckoned exactly.

use std::fmt;

/// How finely a factor is written: thousandths.
const PARTS: u64 = 1_000;
const DECIMALS_MAX: usize = 3;

/// A factor above 0, of at most three decimals.
///
/// ```
/// use tombola::model::Factor;
/// let factor = Factor::parse("1.5").unwrap();
/// assert_eq!((factor.times(200), factor.times(1), factor.times(3)), (300, 2, 5));
/// assert_eq!(factor.to_string(), "1.5");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    thousandths: u64,
}

impl Factor {
    /// Changes nothing.
    pub const ONE: Self = Self { thousandths: PARTS };

    /// A whole factor; 0 counts as 1.
    pub fn whole(factor: u32) -> Self {
        Self {
            thousandths: u64::from(factor.max(1)) * PARTS,
        }
    }

    /// Reads a decimal such as `1.5` or `0.25`, up to 4294967295.999.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORMS: &str = "write a decimal above 0 with at most 3 decimals, like 1.5 or 0.25";
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(whole) || !is_digits(decimals) {
            return Err(format!(
                "`{}` is not a factor: {FORMS}",
                text.escape_debug()
            ));
        }
        if decimals.len() > DECIMALS_MAX {
            let count = decimals.len();
            return Err(format!("`{text}` has {count} decimals: {FORMS}"));
        }
        let too_large = || format!("`{text}` is too large: {FORMS}");
        let whole: u32 = whole.parse().map_err(|_| too_large())?;
        let decimals = format!("{decimals:0<DECIMALS_MAX$}");
        let decimals: u64 = decimals.parse().map_err(|_| too_large())?;
        match u64::from(whole) * PARTS + decimals {
            0 => Err(format!(
                "`{text}` is zero: {FORMS}; for none, name the prize in perHour with 0"
            )),
            thousandths => Ok(Self { thousandths }),
        }
    }

    /// Units times this factor, rounded half up to whole ones; the largest `u64` if it would be
    /// more.
    pub fn times(self, units: u64) -> u64 {
        let parts = u128::from(PARTS);
        let product = u128::from(units) * u128::from(self.thousandths);
        u64::try_from((product + parts / 2) / parts).unwrap_or(u64::MAX)
    }

    /// The factor if it is a whole number.
    pub fn as_whole(self) -> Option<u32> {
        let is_whole = self.thousandths.is_multiple_of(PARTS);
        is_whole.then(|| u32::try_from(self.thousandths / PARTS).ok())?
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, decimals) = (self.thousandths / PARTS, self.thousandths % PARTS);
        let decimals = format!("{decimals:0>DECIMALS_MAX$}");
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            decimals => write!(f, "{whole}.{decimals}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_factor_is_a_plain_decimal() {
        for (text, thousandths) in [
            ("1.5", 1_500),
            ("0.001", 1),
            ("2", 2_000),
            ("2.0", 2_000),
            ("0.25", 250),
            ("10.05", 10_050),
            ("4294967295.999", 4_294_967_295_999),
        ] {
            assert_eq!(Factor::parse(text), Ok(Factor { thousandths }), "{text}");
        }
        for (text, word) in [
            ("", "not a factor"),
            ("0", "is zero"),
            ("0.000", "is zero"),
            ("1.2345", "4 decimals"),
            ("1,5", "not a factor"),
            ("-1", "not a factor"),
            ("+1", "not a factor"),
            (".5", "not a factor"),
            ("1.", "not a factor"),
            ("1.5.2", "not a factor"),
            ("1e3", "not a factor"),
            (" 1", "not a factor"),
            ("50%", "not a factor"),
            ("4294967296", "too large"),
        ] {
            let message = Factor::parse(text).unwrap_err();
            assert!(
                message.contains(word) && message.contains("like 1.5"),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn halves_are_rounded_up() {
        let times = |factor, units| Factor::parse(factor).unwrap().times(units);
        assert_eq!([1, 2, 3].map(|units| times("1.5", units)), [2, 3, 5]);
        assert_eq!([1, 2, 3].map(|units| times("0.5", units)), [1, 1, 2]);
        assert_eq!((times("0.499", 1), times("0.5", 1)), (0, 1));
        assert_eq!(times("4294967295.999", u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn products_are_the_nearest_whole_ones(
            thousandths in 1..=4_294_967_295_999_u64,
            units in any::<u64>(),
        ) {
            let factor = Factor { thousandths };
            let exact = u128::from(units) * u128::from(thousandths);
            let product = u128::from(factor.times(units)) * 1_000;
            if exact + 500 <= u128::from(u64::MAX) * 1_000 {
                prop_assert!(product <= exact + 500 && exact < product + 500);
            } else {
                prop_assert_eq!(factor.times(units), u64::MAX);
            }
        }

        #[test]
        fn a_factor_reads_back_as_it_is_written(thousandths in 1..=4_294_967_295_999_u64) {
            let factor = Factor { thousandths };
            prop_assert_eq!(Factor::parse(&factor.to_string()), Ok(factor));
            let whole = factor.as_whole().map(Factor::whole);
            prop_assert_eq!(whole, thousandths.is_multiple_of(1_000).then_some(factor));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in any::<String>()) {
            drop(Factor::parse(&text));
        }
    }
}
