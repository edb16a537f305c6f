//! Chance is fair: fixed samples, each as far from what is expected as chance would have it (see
//! [`super::chi_square`]).

use std::num::NonZeroU64;

use super::{
    HOUR_MICROS, START, after_start,
    chi_square::{assert_even, assert_fits},
    kind, numbered_seed, pool,
};
use crate::{
    chance::{Fill, Seed, deal, scatter, take, totals},
    model::{Moment, PoolId, PrizeNo, deck::CardCount},
};

const ROUNDS: u64 = 20_000;
const CHUNK_CARDS: usize = 16;

/// The index of the part that a number of `0..n` is in, of `cells` equal parts.
fn cell(number: u64, n: u64, cells: u64) -> usize {
    (u128::from(number) * u128::from(cells) / u128::from(n)) as usize
}

/// Offsets in microseconds of this number of units over an hour, sorted.
fn hour_of_releases(seed: &Seed, units: u64) -> Vec<i64> {
    let fill = Fill {
        pool: &pool("coupons"),
        window_start: START,
        generation: 0,
        from: START,
        until: after_start(HOUR_MICROS),
        granted: &[(PrizeNo(0), units)].into(),
    };
    let releases = scatter(seed, &fill);
    let offset = |at: Moment| at.as_micros() - START.as_micros();
    releases.iter().map(|release| offset(release.at)).collect()
}

#[test]
fn numbers_below_awkward_bounds_are_even() {
    for n in [
        3,
        7,
        10,
        1_000,
        3 << 62,
        (1 << 63) + 1,
        (1 << 63) + (1 << 61),
        u64::MAX,
    ] {
        let mut stream = numbered_seed(n).stream(&[b"below"]);
        let cells = n.min(24);
        let mut counts = vec![0; cells as usize];
        for _ in 0..24_000 {
            let number = stream.below(NonZeroU64::new(n).unwrap());
            assert!(number < n);
            counts[cell(number, n, cells)] += 1;
        }
        assert_even(&counts);
    }
}

#[test]
fn a_number_predicts_nothing_about_the_next() {
    let mut stream = numbered_seed(1).stream(&[b"pairs"]);
    let ten = NonZeroU64::new(10).unwrap();
    let mut counts = vec![0; 100];
    for _ in 0..50_000 {
        counts[(stream.below(ten) * 10 + stream.below(ten)) as usize] += 1;
    }
    assert_even(&counts);
}

#[test]
fn releases_are_even_over_the_minutes_of_the_hour() {
    let mut counts = vec![0; 60];
    for offset in hour_of_releases(&numbered_seed(2), 100_000) {
        counts[(offset / 60_000_000) as usize] += 1;
    }
    assert_even(&counts);
}

/// The waits between 100,000 releases, each as a cell of 4 that are equally likely: independent
/// uniform moments wait exponentially (Feller, vol. 2, I.6), so the quartiles are `-ln(1 - q)` mean
/// waits.
fn quartiles_of_waits() -> Vec<usize> {
    let offsets = hour_of_releases(&numbered_seed(3), 100_000);
    let mean_wait = HOUR_MICROS as f64 / offsets.len() as f64;
    let quartile = |wait: i64| (4.0 * -(-(wait as f64 / mean_wait)).exp_m1()) as usize;
    offsets
        .windows(2)
        .map(|pair| quartile(pair[1] - pair[0]))
        .collect()
}

#[test]
fn waits_between_releases_are_those_of_independent_moments() {
    let mut counts = vec![0; 4];
    for quartile in quartiles_of_waits() {
        counts[quartile] += 1;
    }
    assert_even(&counts);
}

#[test]
fn a_wait_for_a_release_predicts_nothing_about_the_next_wait() {
    let mut counts = vec![0; 16];
    for pair in quartiles_of_waits().chunks_exact(2) {
        counts[pair[0] * 4 + pair[1]] += 1;
    }
    assert_even(&counts);
}

#[test]
fn moments_of_two_prizes_and_of_two_hours_are_independent() {
    let (coupons, quarter) = (pool("coupons"), HOUR_MICROS / 4);
    let mut counts = vec![0; 64];
    for number in 0..6_400 {
        let moment = |hour: i64, prize: u16| {
            let from = after_start(hour * HOUR_MICROS);
            let fill = Fill {
                pool: &coupons,
                window_start: from,
                generation: 0,
                from,
                until: after_start((hour + 1) * HOUR_MICROS),
                granted: &[(PrizeNo(prize), 1)].into(),
            };
            let at = scatter(&numbered_seed(number), &fill)[0].at;
            ((at.as_micros() - from.as_micros()) / quarter) as usize
        };
        counts[moment(0, 0) * 16 + moment(0, 1) * 4 + moment(1, 0)] += 1;
    }
    assert_even(&counts);
}

#[test]
fn a_unit_of_the_whole_campaign_falls_into_a_window_in_proportion_to_its_length() {
    let headline = pool("headline");
    // 24 windows: the first is clipped to 20 minutes, the eighth has 90 (a zone that turns its
    // clock by half an hour).
    let minutes = |window: usize| match window {
        0 => 20,
        7 => 90,
        _ => 60,
    };
    let mut end = START;
    let mut next = |window| {
        let start = end;
        end = Moment::from_micros(start.as_micros() + minutes(window) * 60_000_000);
        (start, end)
    };
    let spans: Vec<(Moment, Moment)> = (0..24).map(&mut next).collect();
    let mut counts = vec![0; 24];
    for number in 0..24_000 {
        let of_seed = totals(&numbered_seed(number), &headline, PrizeNo(0), 0, 1, &spans);
        counts[of_seed.iter().position(|&units| units == 1).unwrap()] += 1;
    }
    let weights: Vec<f64> = (0..24).map(|window| minutes(window) as f64).collect();
    assert_fits(&counts, &weights);
}

/// All cards of a round, dealt in chunks of 16.
fn dealt_round(
    seed: &Seed,
    pool: &PoolId,
    round: u64,
    cards: &[CardCount],
) -> Vec<Option<PrizeNo>> {
    let mut left = cards.to_vec();
    let mut dealt = Vec::new();
    for chunk in 0.. {
        let next = deal(seed, pool, round, chunk, &left, CHUNK_CARDS);
        if next.is_empty() {
            break;
        }
        left = take(&left, &next);
        dealt.extend(next);
    }
    dealt
}

#[test]
fn the_one_card_of_a_kind_is_equally_likely_at_every_place_of_its_deck() {
    let (seed, pool) = (numbered_seed(4), pool("everyday"));
    let cards = [kind(Some(0), 10), kind(Some(1), 1), kind(None, 89)];
    let mut counts = vec![0; 100];
    for round in 0..ROUNDS {
        let dealt = dealt_round(&seed, &pool, round, &cards);
        counts[dealt
            .iter()
            .position(|&card| card == Some(PrizeNo(1)))
            .unwrap()] += 1;
    }
    assert_even(&counts);
}

#[test]
fn pairs_of_cards_are_those_of_a_shuffle_within_a_chunk_and_across_two() {
    let (seed, pool) = (numbered_seed(5), pool("everyday"));
    let cards = [kind(Some(0), 3), kind(Some(1), 5), kind(None, 12)];
    let place_of_kind = |card| cards.iter().position(|kind| kind.prize == card).unwrap();
    let mut within = vec![0; 9];
    let mut across = vec![0; 9];
    let mut first_of_both = vec![0; 9];
    for round in 0..ROUNDS {
        let dealt = dealt_round(&seed, &pool, round, &cards);
        let pair = |one, other| place_of_kind(dealt[one]) * 3 + place_of_kind(dealt[other]);
        within[pair(4, 5)] += 1;
        across[pair(CHUNK_CARDS - 1, CHUNK_CARDS)] += 1;
        first_of_both[pair(0, CHUNK_CARDS)] += 1;
    }
    // Without replacement, whatever the two positions are: the second card is one of those that the
    // first leaves.
    let ways = |pair: usize| {
        let (first, second) = (pair / 3, pair % 3);
        let left = cards[second].cards - u64::from(first == second);
        (cards[first].cards * left) as f64
    };
    let weights: Vec<f64> = (0..9).map(ways).collect();
    assert_fits(&within, &weights);
    assert_fits(&across, &weights);
    assert_fits(&first_of_both, &weights);
}
