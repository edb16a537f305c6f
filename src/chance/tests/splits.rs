//! Splits: golden vectors, computed by an independent program from the documentation alone, and
//! that they are fair: who comes first has no better chance than who comes last.

use sha2::{Digest as _, Sha256};

use super::{START, chi_square::assert_even, numbered_seed};
use crate::{
    chance::{MasterKey, Nonce, Seed, hex, rain, split},
    model::{EnvelopeId, Split},
};

/// Envelopes of the statistic, each with a seed of its own, and by how many hands they are split. A
/// debug build would take half a minute and more for the whole million.
const ENVELOPES: u64 = if cfg!(debug_assertions) {
    200_000
} else {
    1_000_000
};
const HANDS: u64 = 4;
const TOTAL: u64 = 10_000;
const PACKETS: usize = 5;
const MIN: u64 = 3;
/// Of each position, since packets are exchangeable and sum up to the total.
const MEAN: f64 = TOTAL as f64 / PACKETS as f64;

fn seed() -> Seed {
    let bytes = |first: u8| std::array::from_fn(|i| first + i as u8);
    let id = EnvelopeId::parse("id", "new-year-1").unwrap();
    MasterKey::from_bytes(bytes(0)).envelope_seed(&id, &Nonce(bytes(0x80)))
}

fn random(total: u64, packets: u32, min: u64) -> Vec<u64> {
    split(&seed(), Split::Random, total, packets, min)
}

#[test]
fn the_seed_of_an_envelope() {
    assert_eq!(
        seed().reveal(),
        "ce064aaeb41363ee40530a18cfa0450569247d6a4e9626679b1afde74531c4a8"
    );
    assert_eq!(
        seed().commitment(),
        "8ab91dfd91306a7e75629abb0ca3f723652da2b5d74ce0d2bfb8a7138d230363"
    );
}

#[test]
fn random_splits() {
    assert_eq!(
        random(8_888, 10, 1),
        [27, 1_573, 3_332, 558, 419, 653, 289, 30, 1_023, 984]
    );
    assert_eq!(random(100, 10, 10), [10; 10]);
    assert_eq!(random(1_000, 7, 50), [98, 88, 142, 343, 110, 97, 122]);
    assert_eq!(random(1, 1, 1), [1]);
    assert_eq!(
        random((1 << 53) - 1, 4, 1),
        [
            953_468_209_308_839,
            890_634_377_801_405,
            2_816_994_970_590_962,
            4_346_101_697_039_785
        ]
    );
}

#[test]
fn a_split_of_a_hundred_thousand_packets() {
    let packets = random(1_000_000_000, 100_000, 1);
    assert_eq!(packets[..3], [15_944, 10_025, 267]);
    assert_eq!(packets.iter().max(), Some(&20_781));
    let bytes: Vec<u8> = packets.iter().flat_map(|it| it.to_le_bytes()).collect();
    assert_eq!(
        hex(&Sha256::digest(bytes)),
        "cd00e7a64310d46b232275221e7f3c7897804b48a695a938e0d9b7267adc6a0f"
    );
}

#[test]
fn equal_splits() {
    let equal = |total, packets| split(&seed(), Split::Equal, total, packets, 1);
    assert_eq!(equal(10, 4), [3, 3, 2, 2]);
    assert_eq!(equal(8, 4), [2; 4]);
    assert_eq!(equal(1, 1), [1]);
}

#[test]
fn moments_of_rain() {
    let releases = rain(&seed(), START, 3_600_000_000, 5);
    let offsets = releases.iter().map(|at| at.as_micros() - START.as_micros());
    assert_eq!(
        offsets.collect::<Vec<_>>(),
        [
            1_376_930_535,
            1_603_837_658,
            1_671_849_132,
            1_961_400_031,
            2_895_426_919
        ]
    );
    assert_eq!(rain(&seed(), START, 0, 3), [START; 3]);
}

#[test]
#[should_panic(expected = "at least the least of each packet")]
fn an_amount_that_does_not_suffice_is_not_split() {
    random(9, 10, 1);
}

/// What a position of many envelopes held, as sums of powers of its distance from the mean.
#[derive(Clone, Copy, Default)]
struct Position {
    powers: [f64; 5],
    /// It held the greatest packet.
    greatest: u64,
}

impl Position {
    fn note(&mut self, amount: u64) {
        let distance = amount as f64 - MEAN;
        for (power, sum) in self.powers.iter_mut().enumerate() {
            *sum += distance.powi(power as i32);
        }
    }

    fn add(&mut self, other: &Self) {
        for (sum, more) in self.powers.iter_mut().zip(other.powers) {
            *sum += more;
        }
        self.greatest += other.greatest;
    }

    /// How far the mean is off, the variance, and its squared standard error.
    fn moments(&self) -> (f64, f64, f64) {
        let n = self.powers[0];
        let (offset, square, fourth) = (self.powers[1] / n, self.powers[2] / n, self.powers[4] / n);
        (offset, square, (fourth - square * square) / n)
    }
}

/// A share of the envelopes, position by position.
fn split_many(numbers: impl Iterator<Item = u64>) -> [Position; PACKETS] {
    let mut positions = [Position::default(); PACKETS];
    for number in numbers {
        let seed = numbered_seed(number);
        let packets = split(&seed, Split::Random, TOTAL, PACKETS as u32, MIN);
        assert_eq!(packets.iter().sum::<u64>(), TOTAL);
        for (position, amount) in positions.iter_mut().zip(&packets) {
            // No packet takes what the least of the others needs.
            assert!((MIN..=TOTAL - (PACKETS as u64 - 1) * MIN).contains(amount));
            position.note(*amount);
        }
        let greatest = (0..PACKETS)
            .max_by_key(|position| packets[*position])
            .unwrap();
        positions[greatest].greatest += 1;
    }
    positions
}

/// A million envelopes (see [`ENVELOPES`]). All means and variances are the same; bounds are five
/// standard errors.
#[test]
fn the_first_packet_and_the_last_have_the_same_mean_and_the_same_spread() {
    let hands = std::thread::scope(|scope| {
        let share = |hand| (hand..ENVELOPES).step_by(HANDS as usize);
        let hands: Vec<_> = (0..HANDS)
            .map(|hand| scope.spawn(move || split_many(share(hand))))
            .collect();
        let hands = hands.into_iter().map(|hand| hand.join().unwrap());
        hands.collect::<Vec<_>>()
    });
    let mut positions = [Position::default(); PACKETS];
    for hand in &hands {
        for (position, more) in positions.iter_mut().zip(hand) {
            position.add(more);
        }
    }
    let (_, first, first_error) = positions[0].moments();
    for position in &positions {
        let (offset, variance, error) = position.moments();
        let bound = 5.0 * (variance / ENVELOPES as f64).sqrt();
        assert!(offset.abs() < bound, "off the mean by {offset}");
        let bound = 5.0 * (error + first_error).sqrt();
        assert!((variance - first).abs() < bound, "{variance}, {first}");
    }
    // Equal greatest packets are rare, so that the last of them counts tips no scale.
    let greatest: Vec<u64> = positions.iter().map(|position| position.greatest).collect();
    assert_even(&greatest);
}

#[test]
fn any_amount_is_split_to_the_unit() {
    for number in 0..20_000_u64 {
        let seed = numbered_seed(number);
        let packets = 1 + (number % 50) as u32;
        let min = 1 + number % 7;
        let total = u64::from(packets) * min + (number * number) % 1_000;
        for way in [Split::Random, Split::Equal] {
            let amounts = split(&seed, way, total, packets, min);
            assert_eq!(amounts.len(), packets as usize);
            assert_eq!(amounts.iter().sum::<u64>(), total);
            assert!(amounts.iter().all(|amount| *amount >= min), "{amounts:?}");
        }
    }
}
