//! What may change when, and how a difference is shown.

use std::time::Duration;

use super::*;
use crate::{
    model::convert::{campaign_from_proto, decode, encode, tests::spring_wheel},
    proto::{self, pool::Kind},
};

type Edit = fn(&mut proto::Campaign);

const HOUR: Duration = Duration::from_secs(3_600);

fn campaign(edit: Edit) -> Campaign {
    let mut message = spring_wheel();
    edit(&mut message);
    campaign_from_proto(&message).unwrap()
}

fn before_start(touched: bool) -> Standing {
    let now = campaign(|_| {}).start - HOUR;
    Standing { now, touched }
}

fn running() -> Standing {
    let now = campaign(|_| {}).start + HOUR;
    Standing { now, touched: true }
}

fn refused(edit: Edit, standing: Standing) -> Vec<(String, String)> {
    let problems = check(&campaign(|_| {}), &campaign(edit), standing);
    let problems = problems.0.into_iter();
    problems.map(|it| (it.path, it.message)).collect()
}

fn schedule(message: &mut proto::Campaign) -> &mut proto::Schedule {
    match &mut message.pools[1].kind {
        Some(Kind::Schedule(schedule)) => schedule,
        _ => unreachable!("the second pool of the sample has a schedule"),
    }
}

fn deck(message: &mut proto::Campaign) -> &mut proto::Deck {
    match &mut message.pools[2].kind {
        Some(Kind::Deck(deck)) => deck,
        _ => unreachable!("the third pool of the sample has a deck"),
    }
}

/// Each edit with the path and a piece of the reason why a running campaign refuses it.
const REFUSED: [(Edit, &str, &str); 12] = [
    (|c| c.time_zone = "UTC".into(), "timeZone", "Asia/Shanghai"),
    (
        |c| c.start_time.as_mut().unwrap().seconds += 60,
        "startTime",
        "stays 2026-11-19T16:00:00Z",
    ),
    (
        |c| c.end_time.as_mut().unwrap().seconds -= 60,
        "endTime",
        "close the campaign",
    ),
    (
        |c| c.prizes[1].stock -= 1,
        "prizes[1].stock",
        "from 300,000",
    ),
    (
        |c| c.prizes[1].stock -= 1,
        "prizes[1].stock",
        "recall --withdraw",
    ),
    (
        |c| c.prizes[0].grand = false,
        "prizes[0].grand",
        "stays true",
    ),
    (|c| deck(c).size = 20_000, "pools[2].deck.size", "10,000"),
    (
        |c| *deck(c).cards.get_mut("coupon").unwrap() = 99,
        "pools[2].deck.cards",
        "stay {coupon: 100}",
    ),
    (
        |c| deck(c).on_exhausted = proto::OnExhausted::Stop.into(),
        "pools[2].deck.onExhausted",
        "ON_EXHAUSTED_RESHUFFLE",
    ),
    (
        |c| c.pools[1].kind = c.pools[2].kind.clone(),
        "pools[1]",
        "stays a schedule",
    ),
    (
        |c| drop(c.pools.pop()),
        "pools[2]",
        "everyday cannot be removed",
    ),
    (
        |c| c.pools[2].id = "other".into(),
        "pools[2]",
        "everyday cannot be removed",
    ),
];

#[test]
fn a_running_campaign_keeps_what_was_promised() {
    for (edit, path, hint) in REFUSED {
        let problems = refused(edit, running());
        assert_eq!(problems.len(), 1, "{path}: {problems:?}");
        assert_eq!(problems[0].0, path);
        assert!(problems[0].1.contains(hint), "{problems:?} lacks {hint}");
        assert!(problems[0].1.contains("has started"), "{problems:?}");
    }
}

#[test]
fn a_touched_campaign_keeps_it_before_its_start_too() {
    for (edit, path, _) in REFUSED {
        let problems = refused(edit, before_start(true));
        assert_eq!(problems.len(), 1, "{path}: {problems:?}");
        assert!(problems[0].1.contains("injected"), "{problems:?}");
    }
}

#[test]
fn an_unlimited_prize_stays_so_once_units_may_exist() {
    let unlimited = campaign(|c| (c.prizes[1].stock, c.prizes[1].unlimited) = (0, true));
    let limited = campaign(|_| {});
    let problems = check(&unlimited, &limited, running()).0;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].path, "prizes[1].unlimited");
    assert!(problems[0].message.contains("pause it"), "{problems:?}");
    assert!(check(&unlimited, &limited, before_start(false)).is_empty());
}

#[test]
fn codes_are_decided_before_units_may_exist() {
    let with = campaign(|c| (c.prizes[1].stock, c.prizes[1].codes) = (0, true));
    let without = campaign(|_| {});
    for (before, after) in [(&with, &without), (&without, &with)] {
        let problems = check(before, after, running()).0;
        assert_eq!(problems[0].path, "prizes[1].codes", "{problems:?}");
        assert!(check(before, after, before_start(false)).is_empty());
    }
}

#[test]
fn an_untouched_campaign_that_waits_may_change_in_all_but_its_id() {
    for (edit, path, _) in REFUSED {
        assert_eq!(refused(edit, before_start(false)), [], "{path}");
    }
    let problems = refused(|c| c.id = "other".into(), before_start(false));
    assert_eq!(problems[0].0, "id");
}

#[test]
fn places_stay() {
    let problems = refused(|c| c.pools.swap(0, 1), running());
    let paths: Vec<&str> = problems.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["pools[1]", "pools[0]"], "{problems:?}");
    let problems = refused(|c| c.prizes.swap(0, 1), running());
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].1.contains("car must stay at prizes[0]"));
}

#[test]
fn a_running_campaign_may_be_corrected() {
    let allowed: [Edit; 12] = [
        |c| schedule(c).per_hour.clear(),
        |c| c.limits = None,
        |c| c.prizes[1].stock += 1,
        |c| (c.prizes[1].stock, c.prizes[1].unlimited) = (0, true),
        |c| {
            c.prizes[1].per_user = Some(proto::PrizeCap {
                total: Some(1),
                per_day: None,
            })
        },
        |c| c.end_time.as_mut().unwrap().seconds += 60,
        |c| c.name = "Summer wheel".into(),
        |c| c.prizes[0].value = None,
        |c| c.consolation = None,
        |c| c.pools[2].unlock_after_draws = 0,
        |c| c.publish_plan = proto::PlanPublication::Hourly.into(),
        |c| {
            let mut prize = c.prizes[1].clone();
            prize.id = "mug".into();
            c.prizes.push(prize);
            let mut pool = c.pools[2].clone();
            pool.id = "mugs".into();
            c.pools.push(pool);
        },
    ];
    for (i, edit) in allowed.into_iter().enumerate() {
        assert_eq!(refused(edit, running()), [], "{i}");
    }
}

/// Sets a budget of a day, in which each prize is worth 1.
fn set_budget(message: &mut proto::Campaign, currency: &str, units: i64) {
    let money = |units| {
        Some(proto::Money {
            currency_code: currency.into(),
            units,
            nanos: 0,
        })
    };
    for prize in &mut message.prizes {
        prize.value = money(1);
    }
    message.budget = Some(proto::Budget {
        per_day: money(units),
        total: None,
    });
}

#[test]
fn a_budget_comes_goes_and_changes_but_not_its_currency() {
    let yuan = campaign(|c| set_budget(c, "CNY", 10));
    let more = campaign(|c| set_budget(c, "CNY", 20));
    let euro = campaign(|c| set_budget(c, "EUR", 10));
    let none = campaign(|_| {});
    for (before, after) in [
        (&yuan, &more),
        (&more, &yuan),
        (&none, &euro),
        (&yuan, &none),
    ] {
        assert_eq!(check(before, after, running()).0, []);
    }
    let problems = check(&yuan, &euro, running()).0;
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].path, "budget");
    assert!(problems[0].message.contains("stays in CNY, and is in EUR"));
    assert_eq!(check(&yuan, &euro, before_start(false)).0, []);
}

#[test]
fn an_ended_campaign_does_not_change() {
    let over = Standing {
        now: campaign(|_| {}).end,
        touched: false,
    };
    let problems = refused(|c| c.name.clear(), over);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].1.contains("ended at 2026-12-19T16:00:00Z"));
    let later = refused(|c| c.end_time.as_mut().unwrap().seconds += 60, over);
    assert_eq!(later.len(), 1);
    assert_eq!(refused(|_| {}, over), []);
}

#[test]
fn differences_are_leaves_with_names() {
    let before = campaign(|_| {});
    assert_eq!(differences(&before, &before), []);
    let after = campaign(|c| {
        c.name = "Summer wheel".into();
        c.prizes[1].stock = 400_000;
        c.limits.as_mut().unwrap().draws_per_day = None;
        schedule(c).special[0].multiply = 3;
        schedule(c).unclaimed = proto::Unclaimed::Return.into();
        c.pools.swap(0, 1);
    });
    let shown: Vec<(String, String, String)> = differences(&before, &after)
        .into_iter()
        .map(|it| (it.path, it.before, it.after))
        .collect();
    let expected = [
        ("limits.drawsPerDay", "3", ""),
        ("name", "\"Spring wheel\"", "\"Summer wheel\""),
        (
            "pools",
            "[\"headline\",\"coupons\",\"everyday\"]",
            "[\"coupons\",\"headline\",\"everyday\"]",
        ),
        ("pools[coupons].schedule.returnAfter", "", "\"3600s\""),
        (
            "pools[coupons].schedule.special[2026-11-29T00:00].multiply",
            "2",
            "3",
        ),
        (
            "pools[coupons].schedule.unclaimed",
            "\"UNCLAIMED_KEEP\"",
            "\"UNCLAIMED_RETURN\"",
        ),
        ("prizes[coupon].stock", "300000", "400000"),
    ];
    let expected = expected.map(|(path, a, b)| (path.into(), a.into(), b.into()));
    assert_eq!(shown, expected);
}

/// A campaign with this text of a personal pool.
fn with_own(personal: &str) -> Campaign {
    let text = format!(
        "
id: own
timeZone: Asia/Tokyo
startTime: 2026-12-01T00:00:00+09:00
endTime: 2026-12-22T00:00:00+09:00
prizes: [{{id: hero, unlimited: true}}, {{id: mug, stock: 10}}]
pools: [{{id: own, personal: {personal}}}]
"
    );
    let message = crate::model::file::parse(&text).unwrap().remove(0);
    campaign_from_proto(&message).unwrap()
}

#[test]
fn odds_of_a_personal_pool_change_and_its_deck_stays() {
    let problems = |before: &str, after: &str| -> Vec<(String, String)> {
        let (before, after) = (with_own(before), with_own(after));
        let now = before.start + HOUR;
        let problems = check(&before, &after, Standing { now, touched: true }).0;
        problems
            .into_iter()
            .map(|it| (it.path, it.message))
            .collect()
    };
    let odds = "{odds: {mug: 1%}, fallback: hero}";
    let other = "{odds: {mug: 2%}, guarantees: [{id: g, prizes: [hero], within: 5}]}";
    assert_eq!(problems(odds, other), []);
    let deck = "{deck: {size: 10, cards: {mug: 1}}}";
    assert_eq!(
        problems(deck, "{deck: {size: 10, cards: {mug: 1}}, fallback: hero}"),
        []
    );
    let more = problems(deck, "{deck: {size: 10, cards: {mug: 2}}}");
    assert!(more[0].0.starts_with("pools[0].personal.deck"), "{more:?}");
    for (before, after, stays) in [(deck, odds, "with a deck"), (odds, deck, "with odds")] {
        let found = problems(before, after);
        assert_eq!(found[0].0, "pools[0].personal");
        assert!(found[0].1.contains(stays), "{found:?}");
    }
}

#[test]
fn a_step_of_an_address_is_the_id_of_nothing_new() {
    let plain = campaign(|_| {});
    let odd = campaign(|c| {
        c.id = "..".into();
        c.prizes.push(proto::Prize {
            id: "..".into(),
            stock: 1,
            ..proto::Prize::default()
        });
        c.pools[2].id = ".".into();
    });
    let refused = |before| -> Vec<String> {
        let problems = check_new_ids(before, &odd).0.into_iter();
        problems.map(|it| it.path).collect()
    };
    assert_eq!(refused(None), ["id", "prizes[2].id", "pools[2].id"]);
    assert_eq!(refused(Some(&plain)), ["prizes[2].id", "pools[2].id"]);
    // What an earlier version has accepted stays, and can be read.
    assert_eq!(refused(Some(&odd)), [""; 0]);
    assert_eq!(decode(&encode(&odd)), Ok(odd));
    assert!(check_new_ids(None, &plain).is_empty());
}
