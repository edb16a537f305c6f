//! What a valid campaign becomes, and that every problem of a bad one is reported; [`table`] has
//! the bad ones one by one.

mod budget;
mod caps;
mod envelopes;
mod personal;
mod schedules;
mod segments;
mod table;

use std::collections::BTreeMap;

use proptest::prelude::*;
use prost_types::Timestamp;

use super::*;
use crate::{
    model::{PoolKind, PrizeNo, Quantities},
    proto::pool::Kind,
};

fn map<V: Clone>(entries: &[(&str, V)]) -> BTreeMap<String, V> {
    let entries = entries.iter();
    entries
        .map(|(id, value)| (id.to_string(), value.clone()))
        .collect()
}

fn text(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    let entries = entries.iter();
    entries
        .map(|(id, text)| (id.to_string(), text.to_string()))
        .collect()
}

/// The sample of the design: 2026-11-20 to 2026-12-20 in Shanghai.
pub(crate) fn spring_wheel() -> proto::Campaign {
    let time = |seconds| Some(Timestamp { seconds, nanos: 0 });
    let pool = |id: &str, unlock_after_draws, kind| proto::Pool {
        id: id.into(),
        unlock_after_draws,
        kind: Some(kind),
        ..Default::default()
    };
    let coupons = proto::Schedule {
        per_hour: map(&[("coupon", 200)]),
        daily: vec![proto::DailyHours {
            from: "20:00".into(),
            to: "22:00".into(),
            per_hour: map(&[("coupon", 1_000)]),
        }],
        special: vec![proto::SpecialHours {
            from: "2026-11-29T00:00".into(),
            to: "2026-11-30T00:00".into(),
            per_hour: BTreeMap::new(),
            multiply: 2,
            factor: String::new(),
        }],
        ..Default::default()
    };
    let deck = proto::Deck {
        size: 10_000,
        cards: map(&[("coupon", 100)]),
        on_exhausted: proto::OnExhausted::Reshuffle.into(),
        ..Default::default()
    };
    let car = proto::Prize {
        id: "car".into(),
        name: "City car".into(),
        stock: 1,
        grand: true,
        value: Some(proto::Money {
            currency_code: "CNY".into(),
            units: 120_000,
            nanos: 0,
        }),
        ..Default::default()
    };
    let coupon = proto::Prize {
        id: "coupon".into(),
        name: "Phone coupon".into(),
        stock: 300_000,
        ..Default::default()
    };
    proto::Campaign {
        id: "spring-wheel".into(),
        name: "Spring wheel".into(),
        time_zone: "Asia/Shanghai".into(),
        start_time: time(1_795_104_000),
        end_time: time(1_797_696_000),
        limits: Some(proto::DrawLimits {
            draws_per_day: Some(3),
            paid_draws_per_day: Some(20),
            draws_per_user: Some(100),
            wins_per_user: Some(5),
            draws_per_hour: None,
            granted_per_day: None,
        }),
        budget: None,
        consolation: Some(proto::Consolation {
            id: "points".into(),
            name: "5 points".into(),
            attributes: text(&[("points", "5")]),
        }),
        prizes: vec![car, coupon],
        pools: vec![
            pool(
                "headline",
                0,
                Kind::Schedule(proto::Schedule {
                    total: map(&[("car", 1)]),
                    ..Default::default()
                }),
            ),
            pool("coupons", 0, Kind::Schedule(coupons)),
            pool("everyday", 10, Kind::Deck(deck)),
        ],
        publish_plan: 0,
        segment_limits: Vec::new(),
        guarantees: Vec::new(),
        approval_required: false,
    }
}

fn schedule(campaign: &mut proto::Campaign) -> &mut proto::Schedule {
    match &mut campaign.pools[1].kind {
        Some(Kind::Schedule(schedule)) => schedule,
        _ => unreachable!("the second pool of the sample has a schedule"),
    }
}

fn deck(campaign: &mut proto::Campaign) -> &mut proto::Deck {
    match &mut campaign.pools[2].kind {
        Some(Kind::Deck(deck)) => deck,
        _ => unreachable!("the third pool of the sample has a deck"),
    }
}

fn odds(campaign: &mut proto::Campaign, size: u64, odds: &[(&str, &str)]) {
    let deck = deck(campaign);
    (deck.size, deck.cards) = (size, BTreeMap::new());
    deck.odds = text(odds);
}

/// Special hours with a factor instead of `multiply`.
fn factor(campaign: &mut proto::Campaign, factor: &str) {
    let special = &mut schedule(campaign).special[0];
    (special.multiply, special.factor) = (0, factor.into());
}

fn special(from: &str, to: &str) -> proto::SpecialHours {
    proto::SpecialHours {
        from: from.into(),
        to: to.into(),
        per_hour: map(&[("coupon", 1)]),
        multiply: 0,
        factor: String::new(),
    }
}

fn cards_of_odds(size: u64, given: &[(&str, &str)]) -> Quantities {
    let mut message = spring_wheel();
    message.prizes[0].stock = COUNT_MAX;
    message.prizes[1].stock = COUNT_MAX;
    odds(&mut message, size, given);
    let campaign = campaign_from_proto(&message).unwrap();
    match &campaign.pools[2].kind {
        PoolKind::Deck(deck) => deck.cards.clone(),
        PoolKind::Schedule(_) | PoolKind::Personal(_) => unreachable!("a deck stays a deck"),
    }
}

#[test]
fn the_sample_of_the_design_is_valid() {
    let campaign = campaign_from_proto(&spring_wheel()).unwrap();
    assert_eq!(campaign.start.to_string(), "2026-11-19T16:00:00Z");
    assert_eq!(campaign.end.to_string(), "2026-12-19T16:00:00Z");
    assert!(campaign.prizes[0].counts_as_win);
    assert_eq!(campaign.pools[2].unlock_after_draws, 10);
    let value = campaign.prizes[0].value.as_ref().unwrap();
    assert_eq!(value.to_string(), "CNY 120,000.00");
}

#[test]
fn every_problem_is_reported_at_once() {
    let mut message = spring_wheel();
    message.time_zone = "Mars/Olympus".into();
    message.prizes[1].stock = 50_000;
    schedule(&mut message).per_hour = map(&[("coupon", 200), ("cupon", 1)]);
    deck(&mut message).cards = map(&[("coupon", 60_000)]);
    deck(&mut message).size = 60_000;
    let problems = campaign_from_proto(&message).unwrap_err();
    let paths: Vec<&str> = problems.0.iter().map(|it| it.path.as_str()).collect();
    let all = [
        "timeZone",
        "pools[1].schedule.perHour.cupon",
        "prizes[1].stock",
    ];
    assert_eq!(paths, all, "{problems}");
    let stock = &problems.0[2].message;
    assert!(stock.contains("at least 60,000 needed, 50,000 given"));
    assert!(stock.contains("UTC"), "{stock}");
}

#[test]
fn a_flood_of_strangers_is_a_few_problems() {
    let mut message = spring_wheel();
    let strangers = (0..1_000).map(|i| (format!("stranger-{i}"), 1));
    schedule(&mut message).per_hour = strangers.collect();
    let problems = campaign_from_proto(&message).unwrap_err();
    assert!(problems.0.len() <= 12, "{problems}");
    assert!(problems.to_string().contains("990 more unknown prizes"));
}

#[test]
fn odds_become_cards_without_an_error_of_rounding() {
    let (car, coupon) = (PrizeNo(0), PrizeNo(1));
    for (size, given, cards) in [
        (100, ("29%", "71%"), (29, 71)),
        (100, ("70%", "30%"), (70, 30)),
        (10_000, ("0.5%", "12.25 %"), (50, 1_225)),
        (900, ("1/300", "1/3"), (3, 300)),
        (100, ("1/3", "1/3"), (34, 33)), // and 33 blanks: ties to the earlier
    ] {
        let found = cards_of_odds(size, &[("car", given.0), ("coupon", given.1)]);
        assert_eq!(found, Quantities::from([(car, cards.0), (coupon, cards.1)]));
    }
}

#[test]
fn a_schedule_may_wait_for_its_plan() {
    let mut message = spring_wheel();
    *schedule(&mut message) = proto::Schedule {
        per_hour: map(&[("coupon", 0)]),
        ..Default::default()
    };
    let campaign = campaign_from_proto(&message).unwrap();
    assert_eq!(decode(&encode(&campaign)).unwrap(), campaign);
}

#[test]
fn a_day_may_end_at_either_midnight() {
    for to in ["00:00", "24:00"] {
        let mut message = spring_wheel();
        schedule(&mut message).daily[0].to = to.into();
        let campaign = campaign_from_proto(&message).unwrap();
        let PoolKind::Schedule(schedule) = &campaign.pools[1].kind else {
            unreachable!("a schedule stays a schedule");
        };
        assert_eq!(schedule.daily[0].to_hour, 24);
    }
}

#[test]
fn a_stored_campaign_with_a_field_of_a_newer_version_is_not_read_as_another_campaign() {
    let bytes = encode(&campaign_from_proto(&spring_wheel()).unwrap());
    assert!(decode(&bytes).is_ok());
    // Field 1000, a varint of 1.
    let newer = [bytes.as_slice(), &[0xc0, 0x3e, 1]].concat();
    let problems = decode(&newer).unwrap_err();
    assert!(problems.to_string().contains("newer version"), "{problems}");
}

#[test]
fn bytes_of_something_else_are_refused() {
    assert!(decode(b"\xff\xff").is_err());
    assert!(decode(b"").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_campaign_survives_the_round_trip(
        stock in 200_000..=COUNT_MAX,
        per_hour in 0..200_u64,
        (from, to) in (0..24_u8, 0..=24_u8),
        multiply in 2..4_u32,
        factor in prop::option::of("[1-3]\\.[0-9]{1,3}"),
        missed in 0..4,
        unclaimed in 0..3,
        on_exhausted in 0..3,
        percent in 1..=99_u8,
        later_seconds in 0..3_600_i64,
        limit in any::<Option<u32>>(),
        (grand, counts_as_win, consolation) in any::<(bool, Option<bool>, bool)>(),
        name in "[^\\p{Cc}]{0,60}",
    ) {
        let mut message = spring_wheel();
        message.name = name;
        message.start_time.as_mut().unwrap().seconds += later_seconds;
        message.limits.as_mut().unwrap().draws_per_day = limit;
        message.prizes[1].stock = stock;
        message.prizes[0].grand = grand;
        message.prizes[1].counts_as_win = counts_as_win;
        if !consolation {
            message.consolation = None;
        }
        odds(&mut message, 1_000, &[("coupon", &format!("{percent}.3%"))]);
        deck(&mut message).on_exhausted = on_exhausted;
        let schedule = schedule(&mut message);
        schedule.per_hour = map(&[("coupon", per_hour)]);
        schedule.daily[0].from = format!("{from:02}:00");
        schedule.daily[0].to = format!("{to:02}:00");
        schedule.daily[0].per_hour = map(&[("coupon", 100)]);
        (schedule.special[0].multiply, schedule.special[0].factor) = match factor {
            Some(factor) if factor.ends_with(|c| ('1'..='9').contains(&c)) => (0, factor),
            _ => (multiply, String::new()),
        };
        schedule.special.insert(0, special("2026-12-01T03:00", "2026-12-01T04:00"));
        (schedule.missed, schedule.unclaimed) = (missed, unclaimed);
        let campaign = campaign_from_proto(&message).unwrap();
        let bytes = encode(&campaign);
        let again = decode(&bytes).unwrap();
        prop_assert_eq!(&again, &campaign);
        prop_assert_eq!(encode(&again), bytes);
        prop_assert_eq!(campaign_from_proto(&campaign_to_proto(&campaign)).unwrap(), campaign);
    }
}
