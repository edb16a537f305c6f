//! Dealing a deck chunk by chunk, without ever shuffling all of it.

use std::num::NonZeroU64;

use super::{seed::Seed, stream::Stream};
use crate::model::{PoolId, PrizeNo, deck::CardCount};

/// Deals the next `cards` cards of a deck, or all that remain if they are fewer; `None` is a
/// blank.
///
/// Each card is dealt uniformly from those that remain after the cards before it. `remaining` are
/// the cards left after all earlier chunks of this round ([`take`] returns them), in the order in
/// which the round began. Rounds count from 1, the chunks of a round from 0.
///
/// # Why chunk after chunk is a uniform shuffle
/// A shuffle is uniform when each next card, given all before it, is equally likely to be any of
/// the cards that are left. That is how every card here is dealt, and for the first card of a chunk
/// no less than for the others: what is left is handed on as counts, which are all that matters
/// since cards of one kind are alike, and the chunk's stream is independent of those before. So the
/// chunks of a round, one after the other, are a uniform shuffle of the whole round, wherever it is
/// cut and whether or not all chunks are of one size. (The first k steps of a Fisher–Yates
/// shuffle are the same thing: Knuth, TAOCP vol. 2, 3.4.2, algorithm P.) No one needs the cards
/// that are not dealt yet.
///
/// Only a chunk dealt twice from different counts would break this: a chunk's number is used once.
///
/// # Exactly
/// Card by card: let `n` be the number of cards left, lay the kinds side by side in the order of
/// `remaining`, and deal the kind that covers the index [`Stream::below`]`(n)`, counted from 0; one
/// card less of it is left. The stream has the label `("deck", pool, round, chunk)`, where `round`
/// and `chunk` are `u64`.
///
/// ```
/// use tombola::chance::{Seed, deal, take};
/// use tombola::model::{PoolId, PrizeNo, deck::CardCount};
///
/// let seed = Seed::from_bytes([0; 32]);
/// let pool = PoolId::parse("pools[0].id", "everyday").unwrap();
/// let round = [
///     CardCount { prize: Some(PrizeNo(3)), cards: 2 },
///     CardCount { prize: None, cards: 4 },
/// ];
///
/// let first = deal(&seed, &pool, 0, 0, &round, 4);
/// let left = take(&round, &first);
/// let second = deal(&seed, &pool, 0, 1, &left, 4);
/// assert_eq!(first, [None, None, None, Some(PrizeNo(3))]);
/// assert_eq!(second, [Some(PrizeNo(3)), None]);
/// assert_eq!(take(&left, &second), []);
/// ```
///
/// # Panics
/// Where 2^64 cards or more remain.
pub fn deal(
    seed: &Seed,
    pool: &PoolId,
    round: u64,
    chunk: u64,
    remaining: &[CardCount],
    cards: usize,
) -> Vec<Option<PrizeNo>> {
    deal_from(&mut deck_stream(seed, pool, round, chunk), remaining, cards)
}

/// [`deal`] with the numbers of a stream.
pub(super) fn deal_from(
    stream: &mut Stream,
    remaining: &[CardCount],
    cards: usize,
) -> Vec<Option<PrizeNo>> {
    let mut left = remaining.to_vec();
    let mut cards_left = remaining
        .iter()
        .try_fold(0u64, |sum, kind| sum.checked_add(kind.cards))
        .expect("a deck has fewer than 2^64 cards");
    let mut dealt = Vec::new();
    while dealt.len() < cards
        && let Some(n) = NonZeroU64::new(cards_left)
    {
        let kind = kind_at(&mut left, stream.below(n));
        kind.cards -= 1;
        cards_left -= 1;
        dealt.push(kind.prize);
    }
    dealt
}

/// The cards that remain of `remaining` after `dealt`: in the same order, kinds with at least one
/// card.
///
/// ```
/// use tombola::chance::take;
/// use tombola::model::{PrizeNo, deck::CardCount};
///
/// let remaining = [
///     CardCount { prize: Some(PrizeNo(0)), cards: 1 },
///     CardCount { prize: None, cards: 9 },
/// ];
/// let left = take(&remaining, &[None, Some(PrizeNo(0)), None]);
/// assert_eq!(left, [CardCount { prize: None, cards: 7 }]);
/// ```
///
/// # Panics
/// Where a card was dealt that did not remain: the counts and the chunk are not of one deck, and to
/// go on would hand out what is not there.
pub fn take(remaining: &[CardCount], dealt: &[Option<PrizeNo>]) -> Vec<CardCount> {
    let mut left = remaining.to_vec();
    for &card in dealt {
        let kind = left
            .iter_mut()
            .find(|kind| kind.prize == card && kind.cards > 0)
            .unwrap_or_else(|| {
                panic!("dealt {card:?}, of which no card was left of {remaining:?}")
            });
        kind.cards -= 1;
    }
    left.retain(|kind| kind.cards > 0);
    left
}

/// The kind that covers this index when the cards lie side by side, kind after kind. The index is
/// below the number of cards.
fn kind_at(kinds: &mut [CardCount], index: u64) -> &mut CardCount {
    let mut end = 0;
    kinds
        .iter_mut()
        .find(|kind| {
            end += kind.cards;
            index < end
        })
        .expect("an index below the number of cards has a card")
}

fn deck_stream(seed: &Seed, pool: &PoolId, round: u64, chunk: u64) -> Stream {
    seed.stream(&[
        b"deck",
        pool.as_str().as_bytes(),
        &round.to_le_bytes(),
        &chunk.to_le_bytes(),
    ])
}
