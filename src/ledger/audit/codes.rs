//! The codes of a campaign's prizes by index: each is given at most once, in order, and none is
//! left out but those that are passed over after entries were lost.

use std::collections::BTreeMap;

use crate::model::PrizeNo;

/// The codes of all prizes of a campaign.
#[derive(Debug, Default)]
pub(super) struct Codes(BTreeMap<PrizeNo, PrizeCodes>);

/// The codes of one prize.
#[derive(Clone, Copy, Debug, Default)]
struct PrizeCodes {
    imported: u64,
    /// The index of the code that the next win gets.
    next: u64,
}

impl Codes {
    /// Codes were imported.
    ///
    /// # Errors
    /// Says what is wrong with them.
    pub(super) fn import(&mut self, prize: PrizeNo, first: u64, codes: u64) -> Result<(), String> {
        let known = self.0.entry(prize).or_default();
        let expected = std::mem::replace(&mut known.imported, first.saturating_add(codes));
        if first == expected {
            return Ok(());
        }
        Err(format!(
            "codes of prize {} are imported from {first} on, and it had {expected}",
            prize.0
        ))
    }

    /// Units were withdrawn after entries had been lost: as many codes are passed over.
    pub(super) fn pass_over(&mut self, prize: PrizeNo, units: u64) {
        self.0.entry(prize).or_default().next += units;
    }

    /// A win got a code.
    ///
    /// # Errors
    /// Says why it cannot have got it.
    pub(super) fn give(&mut self, prize: PrizeNo, code: u64) -> Result<(), String> {
        let known = self.0.entry(prize).or_default();
        let expected = known.next;
        known.next = expected.max(code.saturating_add(1));
        let what = format!("code {code} of prize {}", prize.0);
        if code >= known.imported {
            return Err(format!(
                "{what} is given, and {} were imported",
                known.imported
            ));
        }
        match code {
            _ if code < expected => Err(format!("{what} is given, which had been given before")),
            _ if code > expected => {
                Err(format!("{what} is given, and the next one was {expected}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIZE: PrizeNo = PrizeNo(3);

    #[test]
    fn codes_are_given_in_their_order_each_once() {
        let mut codes = Codes::default();
        codes.import(PRIZE, 0, 3).unwrap();
        codes.import(PRIZE, 3, 2).unwrap();
        codes.give(PRIZE, 0).unwrap();
        codes.give(PRIZE, 1).unwrap();
        let error = codes.give(PRIZE, 1).unwrap_err();
        assert!(error.contains("given before"), "{error}");
        codes.pass_over(PRIZE, 2);
        codes.give(PRIZE, 4).unwrap();
        let error = codes.give(PRIZE, 5).unwrap_err();
        assert!(error.contains("5 were imported"), "{error}");
    }

    #[test]
    fn codes_that_are_left_out_and_imports_that_do_not_follow_are_found() {
        let mut codes = Codes::default();
        codes.import(PRIZE, 0, 10).unwrap();
        let error = codes.give(PRIZE, 2).unwrap_err();
        assert!(error.contains("the next one was 0"), "{error}");
        codes.give(PRIZE, 3).unwrap();
        let error = codes.import(PRIZE, 9, 1).unwrap_err();
        assert!(error.contains("it had 10"), "{error}");
    }
}
