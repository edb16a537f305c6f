//! How many rounds of a deck its stock pays for.

use super::{deck::CardCount, number::Quantities};

/// How far stock brings a deck.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// Whole rounds, also those that are dealt already.
    pub whole: u64,
    /// Units that stock lacks for one more round. Empty if the deck ends by itself.
    pub lacking: Quantities,
    /// Units that are in stock after the whole rounds.
    pub left_over: Quantities,
}

/// Deals whole rounds as long as `stock` has every card: first `rest`, what is left of the round
/// after `done` whole ones, then `later` again and again. `stock` names every prize of the deck.
///
/// ```
/// use tombola::model::{PrizeNo, deck::CardCount, rounds::whole_rounds};
/// let mug = PrizeNo(0);
/// let round = [CardCount { prize: Some(mug), cards: 25 }, CardCount { prize: None, cards: 75 }];
/// let rounds = whole_rounds(0, &round, &round, [(mug, 30)].into());
/// assert_eq!(rounds.whole, 1);
/// assert_eq!(rounds.lacking, [(mug, 20)].into());
/// assert_eq!(rounds.left_over, [(mug, 5)].into());
/// ```
pub fn whole_rounds(
    done: u64,
    rest: &[CardCount],
    later: &[CardCount],
    mut stock: Quantities,
) -> Rounds {
    let mut whole = done;
    let mut lacking = lacking(rest, &stock);
    if lacking.is_empty() {
        take(&mut stock, rest, 1);
        let more = prizes(later).map(|(prize, cards)| stock_of(&stock, prize) / cards);
        // Without a prize in the later rounds there are none.
        let more = more.min().unwrap_or(0);
        take(&mut stock, later, more);
        whole = done.saturating_add(1).saturating_add(more);
        lacking = self::lacking(later, &stock);
    }
    stock.retain(|_, units| *units > 0);
    Rounds {
        whole,
        lacking,
        left_over: stock,
    }
}

fn prizes(cards: &[CardCount]) -> impl Iterator<Item = (super::PrizeNo, u64)> {
    cards
        .iter()
        .filter_map(|kind| Some((kind.prize?, kind.cards)))
}

fn stock_of(stock: &Quantities, prize: super::PrizeNo) -> u64 {
    stock.get(&prize).copied().unwrap_or(0)
}

fn lacking(cards: &[CardCount], stock: &Quantities) -> Quantities {
    prizes(cards)
        .map(|(prize, cards)| (prize, cards.saturating_sub(stock_of(stock, prize))))
        .filter(|(_, units)| *units > 0)
        .collect()
}

fn take(stock: &mut Quantities, cards: &[CardCount], rounds: u64) {
    for (prize, cards) in prizes(cards) {
        if let Some(units) = stock.get_mut(&prize) {
            *units = units.saturating_sub(cards.saturating_mul(rounds));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PrizeNo;
    use super::*;

    const CAR: PrizeNo = PrizeNo(0);
    const MUG: PrizeNo = PrizeNo(1);

    fn cards(counts: &[(PrizeNo, u64)]) -> Vec<CardCount> {
        let kind = |(prize, cards): &(PrizeNo, u64)| CardCount {
            prize: Some(*prize),
            cards: *cards,
        };
        counts.iter().map(kind).collect()
    }

    #[test]
    fn the_scarcest_prize_ends_the_rounds() {
        let round = cards(&[(CAR, 1), (MUG, 25)]);
        let rounds = whole_rounds(0, &round, &round, [(CAR, 10), (MUG, 80)].into());
        assert_eq!(rounds.whole, 3);
        assert_eq!(rounds.lacking, [(MUG, 20)].into());
        assert_eq!(rounds.left_over, [(CAR, 7), (MUG, 5)].into());
    }

    #[test]
    fn a_round_that_is_under_way_needs_its_rest_only() {
        let rest = cards(&[(MUG, 10)]);
        let round = cards(&[(MUG, 25)]);
        let rounds = whole_rounds(2, &rest, &round, [(MUG, 35)].into());
        assert_eq!((rounds.whole, rounds.left_over), (4, Quantities::new()));
        let rounds = whole_rounds(2, &rest, &round, [(MUG, 9)].into());
        assert_eq!((rounds.whole, rounds.lacking), (2, [(MUG, 1)].into()));
    }

    #[test]
    fn a_deck_that_ends_by_itself_lacks_nothing() {
        let round = cards(&[(CAR, 1)]);
        let rounds = whole_rounds(0, &round, &[], [(CAR, 3)].into());
        assert_eq!((rounds.whole, rounds.lacking), (1, Quantities::new()));
        assert_eq!(rounds.left_over, [(CAR, 2)].into());
    }
}
