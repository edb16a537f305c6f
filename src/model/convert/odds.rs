//! Odds as operators write them, and as whole cards.

use std::collections::BTreeMap;

use super::{bounds::COUNT_MAX, prizes::Prizes, report::entry};
use crate::model::{
    apportion::{greatest_common_divisor, largest_remainder},
    number::{PrizeNo, Quantities},
    problem::Problems,
    text::grouped,
};

/// The chance of one card: a fraction in lowest terms, above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Odds {
    pub(super) numerator: u64,
    pub(super) denominator: u64,
}

const FORMS: &str = "write a percentage like 1% or 0.5%, or a fraction like 1/300";

/// Makes odds whole cards of a deck of `size`, by the largest remainder with blanks as one more
/// kind; and the odds as written of which whole cards are not exactly these odds.
pub(super) fn read(
    path: &str,
    map: &BTreeMap<String, String>,
    size: u64,
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> Option<(Quantities, BTreeMap<PrizeNo, String>)> {
    let before = problems.0.len();
    let odds = prizes.read_map(path, map, problems, |path, text, problems| {
        parse(text)
            .map_err(|message| problems.add(path, message))
            .ok()
    });
    for (no, odds) in &odds {
        if let Some(message) = odds.too_small(&map[prizes.id(*no)], size) {
            problems.add(entry(path, prizes.id(*no)), message);
        }
    }
    let weights = weights(&odds).map_err(|message| problems.add(path, message));
    let weights = weights.ok().filter(|_| problems.0.len() == before)?;
    let cards = largest_remainder(&weights, size);
    let rounded = odds.iter().filter(|(_, odds)| !odds.is_exact(size));
    let rounded = rounded.map(|(no, _)| (*no, map[prizes.id(*no)].trim().to_owned()));
    let rounded = rounded.collect();
    Some((odds.into_keys().zip(cards).collect(), rounded))
}

/// Reads the note of odds that were rounded to `cards` of a deck of `size`.
pub(super) fn read_rounded(
    path: &str,
    map: &BTreeMap<String, String>,
    (cards, size): (&Quantities, u64),
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> BTreeMap<PrizeNo, String> {
    let mut rounded = prizes.read_map(path, map, problems, |_, text, _| Some(text.clone()));
    rounded.retain(|no, text| {
        let cards = cards.get(no).copied().unwrap_or(0);
        let fits = parse(text).is_ok_and(|odds| odds.rounds_to(cards, size));
        if !fits {
            let (cards, size) = (grouped(cards), grouped(size));
            problems.add(
                entry(path, prizes.id(*no)),
                format!("does not fit {cards} of {size} cards: leave the note out"),
            );
        }
        fits
    });
    rounded
}

impl Odds {
    fn new(numerator: u64, denominator: u64) -> Result<Self, String> {
        if denominator == 0 {
            return Err(format!("divides by zero: {FORMS}"));
        }
        if numerator == 0 {
            return Err("is zero: leave the prize out of the deck, or give it a chance".into());
        }
        if numerator > denominator {
            return Err("is more than 100%: every card has one prize at most".into());
        }
        let divisor = greatest_common_divisor(numerator, denominator);
        Ok(Self {
            numerator: numerator / divisor,
            denominator: denominator / divisor,
        })
    }

    /// A deck of `size` has a whole number of cards of exactly these odds.
    fn is_exact(self, size: u64) -> bool {
        // In lowest terms, so the denominator must divide the size.
        size.is_multiple_of(self.denominator)
    }

    /// These odds of `size` cards are not whole, and `cards` is the next whole number below or
    /// above.
    fn rounds_to(self, cards: u64, size: u64) -> bool {
        let quota = u128::from(size) * u128::from(self.numerator) / u128::from(self.denominator);
        !self.is_exact(size) && [quota, quota + 1].contains(&u128::from(cards))
    }

    /// Says so if a deck of `size` would have less than a card of these odds.
    fn too_small(self, text: &str, size: u64) -> Option<String> {
        if u128::from(size) * u128::from(self.numerator) >= u128::from(self.denominator) {
            return None;
        }
        let smallest = self.denominator.div_ceil(self.numerator);
        Some(format!(
            "{} of {} cards is less than a card: make the deck at least {} or raise the odds",
            text.trim(),
            grouped(size),
            grouped(smallest)
        ))
    }
}

/// Integer weights in proportion to the odds, by prize, and last the weight of the blanks.
pub(super) fn weights(odds: &BTreeMap<PrizeNo, Odds>) -> Result<Vec<u64>, String> {
    let mut common: u64 = 1;
    for odds in odds.values() {
        let divisor = greatest_common_divisor(common, odds.denominator);
        common = common.checked_mul(odds.denominator / divisor).ok_or(
            "have no common denominator below 2^64, so they cannot be made exact: write \
             percentages",
        )?;
    }
    // No product overflows: each is at most `common`, for odds are at most 1.
    let mut weights: Vec<u64> = odds
        .values()
        .map(|odds| odds.numerator * (common / odds.denominator))
        .collect();
    let sum: u128 = weights.iter().copied().map(u128::from).sum();
    let blanks = u128::from(common).checked_sub(sum);
    let Some(blanks) = blanks.and_then(|blanks| u64::try_from(blanks).ok()) else {
        let percent = (sum * 100).div_ceil(u128::from(common));
        return Err(format!("sum to about {percent}%: at most 100%"));
    };
    weights.push(blanks);
    Ok(weights)
}

/// Reads `1%`, `0.5 %` or `1/300`.
pub(super) fn parse(text: &str) -> Result<Odds, String> {
    let shown: String = text.chars().take(40).collect();
    let no_odds = || format!("{shown:?} is not odds: {FORMS}");
    let text = text.trim();
    if let Some(percent) = text.strip_suffix('%') {
        let (digits, decimals) = decimal(percent.trim_end()).ok_or_else(no_odds)?;
        return Odds::new(digits, 100 * 10_u64.pow(decimals));
    }
    if let Some((numerator, denominator)) = text.split_once('/') {
        let numerator = whole(numerator.trim_end()).ok_or_else(no_odds)?;
        let denominator = whole(denominator.trim_start()).ok_or_else(no_odds)?;
        return Odds::new(numerator, denominator);
    }
    if whole(text) == Some(0) {
        return Odds::new(0, 1);
    }
    Err(no_odds())
}

/// Digits of a decimal number and how many of them are behind the point; at most 15 characters.
fn decimal(text: &str) -> Option<(u64, u32)> {
    let (before, after) = text.split_once('.').unwrap_or((text, ""));
    if text.len() > 15 || before.is_empty() || text.ends_with('.') {
        return None;
    }
    let digits = whole(&format!("{before}{after}"))?;
    Some((digits, u32::try_from(after.len()).ok()?))
}

/// A number of digits only, at most 2^53 - 1.
fn whole(digits: &str) -> Option<u64> {
    let only_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| only_digits)?;
    (number <= COUNT_MAX).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_are_exact_fractions() {
        for (text, numerator, denominator) in [
            ("1%", 1, 100),
            ("0.5%", 1, 200),
            ("12.25 %", 49, 400),
            ("29%", 29, 100),
            ("100%", 1, 1),
            ("0.0000000000001%", 1, 1_000_000_000_000_000),
            ("1/300", 1, 300),
            (" 2 / 600 ", 1, 300),
        ] {
            let odds = parse(text).unwrap();
            assert_eq!((odds.numerator, odds.denominator), (numerator, denominator));
        }
    }

    #[test]
    fn a_value_that_is_not_odds_is_refused_with_the_accepted_forms() {
        for (text, hint) in [
            ("", "1/300"),
            ("%", "1%"),
            ("1", "1/300"),
            ("0.01", "1%"),
            (".5%", "0.5%"),
            ("5.%", "0.5%"),
            ("1.2.3%", "1%"),
            ("+1%", "1%"),
            ("-1%", "1%"),
            ("1e2%", "1%"),
            ("1/0", "divides by zero"),
            ("1/x", "1/300"),
            ("0", "is zero"),
            ("0%", "is zero"),
            ("0.000%", "is zero"),
            ("0/7", "is zero"),
            ("101%", "more than 100%"),
            ("3/2", "more than 100%"),
            ("0.00000000000000001%", "1%"),
            ("1/99999999999999999999", "1/300"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(hint), "{text}: {message}");
        }
    }
}
