//! A table of bad inputs, with the path and the hint that each must get.

use prost_types::Duration;

use super::*;

type Edit = fn(&mut proto::Campaign);
/// What is edited into the valid campaign, the path of its only problem, and a piece of the
/// message.
type Case = (Edit, &'static str, &'static str);

fn assert_each_is_named(cases: &[Case]) {
    for (edit, path, hint) in cases {
        let mut message = spring_wheel();
        edit(&mut message);
        let problems = campaign_from_proto(&message).expect_err(path);
        let found: Vec<&str> = problems.0.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(found, [*path], "{problems}");
        let message = &problems.0[0].message;
        assert!(message.contains(hint), "{path}: {message} lacks {hint}");
    }
}

#[test]
fn a_campaigns_own_fields_are_checked() {
    assert_each_is_named(&[
        (|c| c.id.clear(), "id", "is empty"),
        (|c| c.id = "a b".into(), "id", "' '"),
        (|c| c.name = "x".repeat(257), "name", "257 bytes"),
        (|c| c.name = "a\nb".into(), "name", "control character"),
        (|c| c.time_zone = "Asia/Shanghia".into(), "timeZone", ""),
        (|c| c.start_time = None, "startTime", "is missing"),
        (
            |c| c.start_time.as_mut().unwrap().seconds = -1,
            "startTime",
            "1970-01-01T00:00:00Z to 9999-12-31T00:00:00Z",
        ),
        (
            |c| c.end_time.as_mut().unwrap().nanos = -1,
            "endTime",
            "-1 nanos",
        ),
        (|c| c.end_time = c.start_time, "endTime", "is not after"),
        (
            |c| c.end_time.as_mut().unwrap().seconds += 5 * 366 * 86_400,
            "endTime",
            "five years",
        ),
        (|c| c.publish_plan = 9, "publishPlan", "9 is unknown"),
        (
            |c| c.consolation.as_mut().unwrap().id = "car".into(),
            "consolation.id",
            "prizes[0]",
        ),
        (
            |c| c.consolation.as_mut().unwrap().id.clear(),
            "consolation.id",
            "is empty",
        ),
        (|c| c.pools.clear(), "pools", "1 to 20"),
        (
            |c| {
                for i in 0..18 {
                    let mut pool = c.pools[0].clone();
                    pool.id = format!("more-{i}");
                    pool.kind = c.pools[2].kind.clone();
                    c.pools.push(pool);
                }
            },
            "pools",
            "has 21",
        ),
        (
            |c| c.pools[2].id = "coupons".into(),
            "pools[2].id",
            "pools[1]",
        ),
        (|c| c.pools[0].id.clear(), "pools[0].id", "is empty"),
        (|c| c.pools[0].kind = None, "pools[0]", "a personal pool"),
    ]);
}

#[test]
fn prizes_are_checked() {
    assert_each_is_named(&[
        (
            |c| {
                c.prizes
                    .extend((0..99).map(|i| prize(&format!("more-{i}"))))
            },
            "prizes",
            "has 101",
        ),
        (
            |c| c.prizes.push(prize("coupon")),
            "prizes[2].id",
            "already the id of prizes[1]",
        ),
        (|c| c.prizes.push(prize("ü")), "prizes[2].id", "'ü'"),
        (
            |c| c.prizes[1].stock = 1 << 53,
            "prizes[1].stock",
            "at most 9,007,199,254,740,991",
        ),
        (
            |c| c.prizes[1].name = "\u{7}".into(),
            "prizes[1].name",
            "control character",
        ),
        (
            |c| c.prizes[0].value.as_mut().unwrap().currency_code = "cny".into(),
            "prizes[0].value.currencyCode",
            "CNY",
        ),
        (
            |c| c.prizes[0].attributes = (0..33).map(|i| (i.to_string(), "".into())).collect(),
            "prizes[0].attributes",
            "has 33: at most 32",
        ),
        (
            |c| c.prizes[0].attributes = map(&[("a.b", "x".repeat(1_025))]),
            "prizes[0].attributes[\"a.b\"]",
            "1025 bytes: at most 1,024",
        ),
        (
            |c| c.prizes[0].attributes = text(&[("", "x")]),
            "prizes[0].attributes[\"\"]",
            "1 to 64",
        ),
    ]);
}

fn prize(id: &str) -> proto::Prize {
    proto::Prize {
        id: id.into(),
        ..Default::default()
    }
}

#[test]
fn schedules_are_checked() {
    assert_each_is_named(&[
        (
            |c| *schedule(c) = proto::Schedule::default(),
            "pools[1].schedule",
            "plans nothing",
        ),
        (
            |c| schedule(c).per_hour = map(&[("cupon", 1)]),
            "pools[1].schedule.perHour.cupon",
            "did you mean coupon?",
        ),
        (
            |c| schedule(c).per_hour = map(&[("coupon", 10_000_001)]),
            "pools[1].schedule.perHour.coupon",
            "10,000,001 is too much: at most 10,000,000",
        ),
        (
            |c| schedule(c).total = map(&[("car", 10_000_001)]),
            "pools[1].schedule.total.car",
            "at most 10,000,000",
        ),
        (
            |c| {
                schedule(c).total = map(&[("car", 1)]);
                schedule(c).daily[0].per_hour = map(&[("car", 1)]);
            },
            "pools[1].schedule.daily[0].perHour.car",
            "in no other layer",
        ),
        (
            |c| schedule(c).daily[0].from = "20:30".into(),
            "pools[1].schedule.daily[0].from",
            "20:00 or 21:00",
        ),
        (
            |c| schedule(c).daily[0].from = "24:00".into(),
            "pools[1].schedule.daily[0].from",
            "00:00",
        ),
        (
            |c| schedule(c).daily[0].to = "8pm".into(),
            "pools[1].schedule.daily[0].to",
            "HH:00",
        ),
        (
            |c| schedule(c).daily[0].per_hour.clear(),
            "pools[1].schedule.daily[0].perHour",
            "name a prize",
        ),
        (
            |c| schedule(c).daily = vec![schedule(c).daily[0].clone(); 101],
            "pools[1].schedule.daily",
            "at most 100",
        ),
        (
            |c| schedule(c).special[0].from = "2026-11-29".into(),
            "pools[1].schedule.special[0].from",
            "YYYY-MM-DDTHH:00",
        ),
        (
            |c| schedule(c).special[0].to = schedule(c).special[0].from.clone(),
            "pools[1].schedule.special[0].to",
            "is not after",
        ),
        (
            |c| schedule(c).special[0].multiply = 1,
            "pools[1].schedule.special[0]",
            "changes nothing",
        ),
        (
            |c| schedule(c).special[0].factor = "1.5".into(),
            "pools[1].schedule.special[0].factor",
            "stands beside `multiply`",
        ),
        (
            |c| factor(c, "1.2345"),
            "pools[1].schedule.special[0].factor",
            "has 4 decimals",
        ),
        (
            |c| factor(c, "0"),
            "pools[1].schedule.special[0].factor",
            "is zero",
        ),
        (
            |c| factor(c, "1.0"),
            "pools[1].schedule.special[0]",
            "changes nothing",
        ),
        (
            |c| {
                c.prizes[1].stock = COUNT_MAX;
                factor(c, "10000.5");
            },
            "pools[1].schedule.special[0].factor",
            "makes 1,000 of coupon an hour 10,000,500: at most 10,000,000",
        ),
        (
            |c| {
                schedule(c).per_hour.clear();
                factor(c, "0.5");
                schedule(c).special[0].to = "2026-11-29T20:00".into();
            },
            "pools[1].schedule.special[0].factor",
            "multiplies nothing",
        ),
        (
            |c| {
                schedule(c).per_hour.clear();
                schedule(c).special[0].to = "2026-11-29T20:00".into();
            },
            "pools[1].schedule.special[0].multiply",
            "multiplies nothing",
        ),
        (
            |c| {
                c.prizes[1].stock = COUNT_MAX;
                schedule(c).special[0].multiply = 10_001;
            },
            "pools[1].schedule.special[0].multiply",
            "makes 1,000 of coupon an hour 10,001,000: at most 10,000,000",
        ),
        (
            |c| {
                let overlapping = special("2026-11-28T20:00", "2026-11-29T01:00");
                schedule(c).special.push(overlapping);
            },
            "pools[1].schedule.special[0].from",
            "overlaps special[1] (2026-11-28T20:00 to 2026-11-29T01:00)",
        ),
        (
            |c| {
                let after_the_end = special("2026-12-20T00:00", "2026-12-21T00:00");
                schedule(c).special.push(after_the_end);
            },
            "pools[1].schedule.special[1]",
            "2026-11-20T00:00 to 2026-12-19T23:00",
        ),
        (
            |c| schedule(c).missed = 9,
            "pools[1].schedule.missed",
            "MISSED_SPREAD",
        ),
        (
            |c| schedule(c).unclaimed = -1,
            "pools[1].schedule.unclaimed",
            "UNCLAIMED_KEEP",
        ),
        (
            |c| schedule(c).return_after = Some(seconds(3_600)),
            "pools[1].schedule.returnAfter",
            "UNCLAIMED_RETURN only",
        ),
        (
            |c| {
                schedule(c).unclaimed = proto::Unclaimed::Return.into();
                schedule(c).return_after = Some(seconds(59));
            },
            "pools[1].schedule.returnAfter",
            "1 minute to 30 days",
        ),
        (
            |c| {
                schedule(c).unclaimed = proto::Unclaimed::Return.into();
                schedule(c).return_after = Some(seconds(-60));
            },
            "pools[1].schedule.returnAfter",
            "1 minute to 30 days",
        ),
    ]);
}

fn seconds(seconds: i64) -> Duration {
    Duration { seconds, nanos: 0 }
}

#[test]
fn decks_are_checked() {
    assert_each_is_named(&[
        (
            |c| deck(c).cards.clear(),
            "pools[2].deck",
            "add cards or odds",
        ),
        (
            |c| deck(c).odds = text(&[("coupon", "1%")]),
            "pools[2].deck",
            "both cards and odds",
        ),
        (
            |c| deck(c).cards = map(&[("coupons", 1)]),
            "pools[2].deck.cards.coupons",
            "did you mean coupon?",
        ),
        (
            |c| deck(c).cards = map(&[("coupon", 0)]),
            "pools[2].deck.cards.coupon",
            "is zero",
        ),
        (
            |c| deck(c).cards = map(&[("coupon", 10_001)]),
            "pools[2].deck.size",
            "room for 10,000 cards, but cards sum to 10,001",
        ),
        (
            |c| deck(c).size = 1 << 53,
            "pools[2].deck.size",
            "at most 9,007,199,254,740,991",
        ),
        (
            |c| odds(c, 0, &[("coupon", "1%")]),
            "pools[2].deck.size",
            "is missing",
        ),
        (
            |c| odds(c, 1_000, &[("coupon", "0.001%")]),
            "pools[2].deck.odds.coupon",
            "0.001% of 1,000 cards is less than a card: make the deck at least 100,000 or raise \
             the odds",
        ),
        (
            |c| odds(c, 1_000, &[("coupon", "0")]),
            "pools[2].deck.odds.coupon",
            "is zero",
        ),
        (
            |c| odds(c, 1_000, &[("coupon", "often")]),
            "pools[2].deck.odds.coupon",
            "1/300",
        ),
        (
            |c| odds(c, 1_000, &[("coupon", "70%"), ("car", "1/3")]),
            "pools[2].deck.odds",
            "about 104%: at most 100%",
        ),
        (
            |c| {
                let odds = [
                    ("coupon", "1/9007199254740881"),
                    ("car", "1/9007199254740847"),
                ];
                self::odds(c, COUNT_MAX, &odds);
            },
            "pools[2].deck.odds",
            "common denominator",
        ),
        (
            |c| {
                c.prizes[0].stock = 2;
                deck(c).cards = map(&[("car", 1)]);
            },
            "pools[2].deck.onExhausted",
            "ON_EXHAUSTED_STOP",
        ),
        (
            |c| deck(c).on_exhausted = 3,
            "pools[2].deck.onExhausted",
            "3 is unknown",
        ),
    ]);
}

#[test]
fn the_plan_must_not_need_more_than_the_stock() {
    // 720 hours of 200, two hours of 800 more on 30 days, one day doubled, and 100 cards.
    const NEEDED: u64 = 720 * 200 + 60 * 800 + (22 * 200 + 2 * 1_000) + 100;
    let mut exact = spring_wheel();
    exact.prizes[1].stock = NEEDED;
    assert!(campaign_from_proto(&exact).is_ok());
    assert_each_is_named(&[
        (
            |c| c.prizes[1].stock = NEEDED - 1,
            "prizes[1].stock",
            "stock 198,500 needed, 198,499 given: give 1 more of coupon, or plan less",
        ),
        (
            |c| deck(c).cards = map(&[("car", 1), ("coupon", 1)]),
            "prizes[0].stock",
            "stock 2 needed, 1 given: give 1 more of car, or plan less",
        ),
    ]);
}

#[test]
fn an_hour_has_at_most_ten_million_units_of_all_prizes_and_pools() {
    // From 20:00 the other pool plans 1,000 on a usual day, 2,000 on the 29th.
    fn with_second_pool(campaign: &mut proto::Campaign, per_hour: u64) {
        for prize in &mut campaign.prizes {
            prize.stock = COUNT_MAX;
        }
        let mut second = campaign.pools[1].clone();
        second.id = "second".into();
        second.kind = Some(Kind::Schedule(proto::Schedule {
            per_hour: map(&[("coupon", per_hour)]),
            ..Default::default()
        }));
        campaign.pools.push(second);
    }
    // The car's even share makes one more.
    let mut exact = spring_wheel();
    with_second_pool(&mut exact, 9_997_999);
    assert!(campaign_from_proto(&exact).is_ok());
    assert_each_is_named(&[
        (
            |c| with_second_pool(c, 9_998_000),
            "pools",
            "plan 10,000,001 units in the hour 2026-11-29T20:00, with its even share of total",
        ),
        (
            |c| {
                c.pools.truncate(2);
                c.pools.remove(0);
                c.prizes[1].stock = COUNT_MAX;
                let all = map(&[("coupon", 5_000_000), ("car", 5_000_001)]);
                c.prizes[0].stock = COUNT_MAX;
                *match &mut c.pools[0].kind {
                    Some(Kind::Schedule(schedule)) => schedule,
                    _ => unreachable!("the second pool of the sample has a schedule"),
                } = proto::Schedule {
                    per_hour: all,
                    ..Default::default()
                };
            },
            "pools[0].schedule",
            "plan 10,000,001 units in the hour 2026-11-20T00:00:",
        ),
        (
            |c| {
                // An hour and a half: two thirds of the units are in the first hour.
                c.end_time.as_mut().unwrap().seconds = c.start_time.unwrap().seconds + 5_400;
                c.pools.truncate(1);
                for prize in &mut c.prizes {
                    prize.stock = COUNT_MAX;
                }
                c.pools[0].kind = Some(Kind::Schedule(proto::Schedule {
                    total: map(&[("car", 10_000_000), ("coupon", 9_000_000)]),
                    ..Default::default()
                }));
            },
            "pools[0].schedule",
            "plan 12,666,667 units in the hour 2026-11-20T00:00, with its even share of total",
        ),
    ]);
    // What was accepted before there was a bound stays readable.
    let mut older = exact.clone();
    with_second_pool(&mut older, 10_000_000);
    older.pools[4].id = "third".into();
    assert!(decode(&older.encode_to_vec()).is_ok());
}
