//! Golden vectors, computed by an independent program from the documentation alone. They must never
//! change: a revealed seed has to give the same draws in every version.

use std::num::NonZeroU64;

use super::{HOUR_MICROS, START, after_start, kind, pool};
use crate::{
    chance::{Fill, MasterKey, Nonce, Seed, Stream, deal, scatter, take, totals},
    model::{CampaignId, Moment, PrizeNo, Quantities},
};

/// `first, first + 1, …`
fn counting_bytes(first: u8) -> [u8; 32] {
    std::array::from_fn(|i| first + i as u8)
}

fn seed() -> Seed {
    let id = CampaignId::parse("id", "spring-wheel").unwrap();
    MasterKey::from_bytes(counting_bytes(0)).campaign_seed(&id, &Nonce(counting_bytes(0x80)))
}

#[test]
fn keys_and_seeds() {
    assert_eq!(
        MasterKey::from_bytes(counting_bytes(0)).fingerprint(),
        "cb9f7dc08108dda0"
    );
    assert_eq!(
        seed().reveal(),
        "9ebea3d911b86d811eba162d1fb68e440d6c61709efd3287195fce36e9f34ae8"
    );
    assert_eq!(
        seed().commitment(),
        "95ea6a270005899d34f94cdf4f201046825942883ff49c146e33a66eb4cc8fd7"
    );
}

#[test]
fn seeds_of_forks() {
    for (seed, mark, expected) in [
        (
            [0; 32],
            1,
            "637850bc64b1a247dcebde6620d82ca2e65e2573e797ebafe111dfe94a961ec8",
        ),
        (
            counting_bytes(0),
            0xab_cdef,
            "2887316e0ee5729f22ae9d11ab22d1ebee8f698f1f5fa93c1bfa18f56d0805ad",
        ),
    ] {
        assert_eq!(Seed::from_bytes(seed).of_fork(mark).reveal(), expected);
    }
}

#[test]
fn the_stream_is_chacha20_of_rfc_8439() {
    // Appendix A.1, test vectors 1 and 2: key and nonce all zeros, blocks 0 and 1.
    let mut stream = Stream::of_key(&[0; 32]);
    let numbers: Vec<u64> = (0..16).map(|_| stream.next_u64()).collect();
    assert_eq!(
        numbers[0].to_le_bytes(),
        *b"\x76\xb8\xe0\xad\xa0\xf1\x3d\x90"
    );
    assert_eq!(
        numbers[1].to_le_bytes(),
        *b"\x40\x5d\x6a\xe5\x53\x86\xbd\x28"
    );
    assert_eq!(
        numbers[8].to_le_bytes(),
        *b"\x9f\x07\xe7\xbe\x55\x51\x38\x7a"
    );
    assert_eq!(
        numbers[9].to_le_bytes(),
        *b"\x98\xba\x97\x7c\x73\x2d\x08\x0d"
    );
}

#[test]
fn streams_by_label() {
    let mut stream = seed().stream(&[b"a", b"", b"bc"]);
    let numbers: Vec<u64> = (0..100).map(|_| stream.next_u64()).collect();
    for (index, number) in [
        (0, 0x7ab2_b951_a661_1e3d),
        (1, 0xd439_f31c_48ea_945f),
        (2, 0x9207_7748_7355_3d17),
        (31, 0x7a85_71c5_d212_1c4b),
        (32, 0xef39_3caa_b02a_0d36),
        (33, 0xb4b2_737a_0a00_d45f),
        (99, 0x4ac1_c28f_7578_84e5),
    ] {
        assert_eq!(numbers[index], number, "number {index}");
    }
    assert_eq!(seed().stream(&[]).next_u64(), 0xc54e_12c5_be04_5578);
}

#[test]
fn numbers_below() {
    let first = |n: u64, count: usize| {
        let n = NonZeroU64::new(n).unwrap();
        let mut stream = seed().stream(&[b"below"]);
        (0..count).map(|_| stream.below(n)).collect::<Vec<u64>>()
    };
    assert_eq!(first(1, 6), [0; 6]);
    assert_eq!(first(2, 6), [0, 0, 0, 1, 0, 1]);
    assert_eq!(first(3, 6), [1, 2, 0, 1, 2, 2]);
    assert_eq!(first(10, 6), [0, 2, 6, 3, 0, 5]);
    assert_eq!(
        first(3_600_000_000, 3),
        [1_739_859_700, 1_332_399_752, 2_158_938_936]
    );
    // 14851901506418480380, the fifth number, is skipped by 3 * 2^62, the third to fifth by 2^63 +
    // 1, none by 2^64 - 1.
    let (a, b) = (5_636_201_790_539_859_700, 3_727_582_464_132_399_752);
    let (c, d) = (13_683_571_587_358_938_936, 10_944_016_840_286_367_493);
    let (e, f) = (14_851_901_506_418_478_380, 5_560_728_832_726_424_645);
    assert_eq!(first(3 << 62, 5), [a, b, c, d, f]);
    assert_eq!(first((1 << 63) + 1, 3), [a, b, f]);
    assert_eq!(first(u64::MAX, 6), [a, b, c, d, e, f]);
}

/// Releases of pool `coupons`: microseconds after [`START`], and the prize.
fn scattered(
    generation: u32,
    (from, until): (i64, i64),
    granted: &[(u16, u64)],
) -> Vec<(i64, u16)> {
    let granted: Quantities = granted.iter().map(|&(p, n)| (PrizeNo(p), n)).collect();
    let fill = Fill {
        pool: &pool("coupons"),
        window_start: START,
        generation,
        from: after_start(from),
        until: after_start(until),
        granted: &granted,
    };
    scatter(&seed(), &fill)
        .iter()
        .map(|release| (release.at.as_micros() - START.as_micros(), release.prize.0))
        .collect()
}

#[test]
fn releases() {
    assert_eq!(
        scattered(0, (0, HOUR_MICROS), &[(0, 4), (2, 3), (7, 1)]),
        [
            (194_030_394, 2),
            (561_238_736, 7),
            (823_326_038, 0),
            (1_252_855_474, 0),
            (1_833_422_149, 0),
            (1_943_262_903, 2),
            (1_983_248_304, 0),
            (2_768_095_128, 2),
        ]
    );
    assert_eq!(
        scattered(1, (HOUR_MICROS / 2, HOUR_MICROS), &[(0, 2), (2, 1)]),
        [(2_683_920_239, 0), (2_695_595_728, 2), (2_831_982_668, 0)]
    );
}

#[test]
fn a_window_without_time_releases_all_at_its_start() {
    assert_eq!(
        scattered(0, (5, 5), &[(1, 1), (0, 2)]),
        [(5, 0), (5, 0), (5, 1)]
    );
    assert_eq!(scattered(0, (5, 4), &[(1, 1)]), [(5, 1)]);
}

#[test]
fn hours_of_totals() {
    let hours = |from: f64, until: f64| -> (Moment, Moment) {
        let moment = |hours: f64| after_start((hours * HOUR_MICROS as f64) as i64);
        (moment(from), moment(until))
    };
    let spans = [
        hours(0.0, 1.0),
        hours(1.0, 1.0),
        hours(1.0, 1.5),
        hours(2.0, 3.0),
    ];
    let headline = pool("headline");
    assert_eq!(
        totals(&seed(), &headline, PrizeNo(0), 0, 1000, &spans),
        [409, 0, 201, 390]
    );
    assert_eq!(
        totals(&seed(), &headline, PrizeNo(5), 1, 1000, &spans),
        [387, 0, 192, 421]
    );
    assert_eq!(
        totals(&seed(), &headline, PrizeNo(0), 0, 9, &spans[1..2]),
        [0]
    );
    assert_eq!(
        totals(&seed(), &headline, PrizeNo(0), 0, 9, &[]),
        [0_u64; 0]
    );
}

#[test]
fn cards() {
    let mut left = vec![kind(Some(0), 1), kind(Some(3), 4), kind(None, 15)];
    let (x, o) = (Some(PrizeNo(3)), None);
    let chunks = [
        vec![Some(PrizeNo(0)), x, x, o, o, o, o, o],
        vec![o, o, o, o, o, o, x, o],
        vec![x, o, o, o],
        vec![],
    ];
    for (number, chunk) in (0..).zip(chunks) {
        let dealt = deal(&seed(), &pool("everyday"), 2, number, &left, 8);
        assert_eq!(dealt, chunk, "chunk {number}");
        left = take(&left, &dealt);
    }
    assert_eq!(left, []);
}

#[test]
#[should_panic(expected = "dealt Some(PrizeNo(3)), of which no card was left")]
fn a_card_that_was_not_left_is_not_taken() {
    let x = Some(PrizeNo(3));
    take(&[kind(Some(3), 1), kind(None, 5)], &[None, x, x]);
}

#[test]
fn secrets_are_not_printed() {
    let key = MasterKey::from_bytes([0xab; 32]);
    let seed = Seed::from_bytes([0xab; 32]);
    let printed = format!("{key:?} {seed:?} {:?}", seed.stream(&[]));
    assert_eq!(printed, "MasterKey { .. } Seed { .. } Stream { .. }");
}
