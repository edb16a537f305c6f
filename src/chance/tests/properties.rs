//! What holds for every plan.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};

use super::{after_start, numbered_seed, pool};
use crate::{
    chance::{Fill, Release, deal, scatter, take, totals},
    model::{Moment, PrizeNo, Quantities, deck::CardCount},
};

fn any_quantities() -> impl Strategy<Value = Quantities> {
    proptest::collection::btree_map((0..20u16).prop_map(PrizeNo), 0..50u64, 0..6)
}

/// A round of up to 8 kinds, each once.
fn any_round() -> impl Strategy<Value = Vec<CardCount>> {
    let kinds = proptest::collection::btree_map(
        proptest::option::of((0..20u16).prop_map(PrizeNo)),
        1..30u64,
        0..8,
    );
    kinds.prop_map(|kinds| {
        let count = |(prize, cards)| CardCount { prize, cards };
        kinds.into_iter().map(count).collect()
    })
}

fn released(seed: u64, micros: (i64, i64), granted: &Quantities) -> Vec<Release> {
    let fill = Fill {
        pool: &pool("p"),
        window_start: after_start(0),
        generation: 0,
        from: after_start(micros.0),
        until: after_start(micros.1),
        granted,
    };
    scatter(&numbered_seed(seed), &fill)
}

fn moments_of(releases: &[Release], prize: PrizeNo) -> Vec<Moment> {
    let of_prize = releases.iter().filter(|release| release.prize == prize);
    of_prize.map(|release| release.at).collect()
}

proptest! {
    #[test]
    fn chunk_by_chunk_every_card_is_dealt_exactly_once(
        seed: u64,
        round in any_round(),
        sizes in vec(1..40usize, 1..10),
    ) {
        let mut left = round.clone();
        let mut dealt = BTreeMap::<Option<PrizeNo>, u64>::new();
        for (chunk, &size) in (0..).zip(sizes.iter().cycle()) {
            let before: u64 = left.iter().map(|kind| kind.cards).sum();
            let cards = deal(&numbered_seed(seed), &pool("p"), 0, chunk, &left, size);
            prop_assert_eq!(cards.len() as u64, before.min(size as u64));
            left = take(&left, &cards);
            for &card in &cards {
                *dealt.entry(card).or_default() += 1;
            }
            if cards.is_empty() {
                break;
            }
        }
        let whole: BTreeMap<_, _> = round.iter().map(|kind| (kind.prize, kind.cards)).collect();
        prop_assert_eq!(dealt, whole);
        prop_assert_eq!(left, []);
    }

    #[test]
    fn every_unit_granted_is_released_once_within_its_window_and_in_order(
        seed: u64,
        granted in any_quantities(),
        from in 0..1_000_000i64,
        length in 1..1_000i64,
    ) {
        let releases = released(seed, (from, from + length), &granted);
        let window = after_start(from)..after_start(from + length);
        prop_assert!(releases.is_sorted());
        prop_assert!(releases.iter().all(|release| window.contains(&release.at)));
        prop_assert_eq!(releases.len() as u64, granted.values().sum::<u64>());
        for (&prize, &quantity) in &granted {
            prop_assert_eq!(moments_of(&releases, prize).len() as u64, quantity);
        }
    }

    #[test]
    fn one_prizes_quantity_moves_no_moment_of_another_and_only_adds_to_its_own(
        seed: u64,
        granted in any_quantities(),
        changed in 0..20u16,
        more in 1..50u64,
    ) {
        let changed = PrizeNo(changed);
        let mut other = granted.clone();
        *other.entry(changed).or_default() += more;
        let before = released(seed, (0, 1_000_000), &granted);
        let mut after = released(seed, (0, 1_000_000), &other);
        for release in &before {
            let index = after.iter().position(|other| other == release);
            prop_assert!(index.is_some(), "{release:?} is gone");
            after.remove(index.unwrap());
        }
        prop_assert!(after.iter().all(|release| release.prize == changed));
    }

    #[test]
    fn every_unit_of_a_total_has_one_window_which_is_not_empty(
        seed: u64,
        quantity in 0..200u64,
        lengths in vec(prop_oneof![Just(0i64), 1..1_000i64], 1..20),
    ) {
        let mut end = 0;
        let mut next = |&length: &i64| {
            end += length;
            (after_start(end - length), after_start(end))
        };
        let spans: Vec<_> = lengths.iter().map(&mut next).collect();
        let counts = totals(&numbered_seed(seed), &pool("p"), PrizeNo(0), 0, quantity, &spans);
        let due = if lengths.iter().any(|&length| length > 0) { quantity } else { 0 };
        prop_assert_eq!(counts.iter().sum::<u64>(), due);
        prop_assert!(counts.iter().zip(&lengths).all(|(&count, &length)| count == 0 || length > 0));
    }
}
