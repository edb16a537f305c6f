//! Whatever is written is answered without a panic, and what this module writes it reads back the
//! same.

use std::collections::BTreeMap;

use proptest::prelude::*;
use prost_types::{Duration, Timestamp};

use super::{tests::samples, *};
use crate::model::convert::COUNT_MAX;
use proto::pool::Kind;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9 :#,.{}\\[\\]'\"&*!|>%@`\\\\-]{0,12}",
        any::<String>(),
        prop::sample::select(vec![
            "null",
            "~",
            "Yes",
            "NO",
            "1e3",
            "0x10",
            ".inf",
            "Infinity",
            "2026-11-20",
            " a ",
            "手机券，10元！",
            "👩‍👩‍👧",
            "---",
            "a\r\nb",
            "\u{85}\u{2028}\u{feff}"
        ])
        .prop_map(str::to_owned),
    ]
}

const ZONES: [&str; 4] = ["", "Asia/Kathmandu", "America/St_Johns", "Nowhere"];

/// Id, stock, whether it counts as a win, and its cap.
fn prize() -> impl Strategy<Value = (String, u64, Option<bool>, Option<proto::PrizeCap>)> {
    let cap = |(total, per_day)| proto::PrizeCap { total, per_day };
    let bound = || prop::option::of(any::<u32>());
    (
        text(),
        0..=COUNT_MAX,
        prop::option::of(any::<bool>()),
        prop::option::of((bound(), bound()).prop_map(cap)),
    )
}

fn money_of((currency_code, units, nanos): (String, i64, i32)) -> proto::Money {
    proto::Money {
        currency_code,
        units,
        nanos,
    }
}

fn consolation_of(attributes: BTreeMap<String, String>) -> proto::Consolation {
    proto::Consolation {
        attributes,
        ..Default::default()
    }
}

fn failed(problems: &Problems, text: &str) -> TestCaseError {
    TestCaseError::fail(format!("{problems}\n{text}"))
}

fn quantities() -> impl Strategy<Value = BTreeMap<String, u64>> {
    prop::collection::btree_map(text(), 0..=COUNT_MAX, 0..4)
}

fn pool() -> impl Strategy<Value = proto::Pool> {
    let schedule = (
        quantities(),
        quantities(),
        text(),
        0..4_i32,
        prop::option::of((0..9_i64, 0..999_999_999_i32)),
    )
        .prop_map(|(total, per_hour, from, missed, after)| {
            Kind::Schedule(proto::Schedule {
                total,
                daily: vec![
                    proto::DailyHours {
                        from,
                        per_hour,
                        ..Default::default()
                    };
                    2
                ],
                missed,
                return_after: after.map(|(seconds, nanos)| Duration { seconds, nanos }),
                ..Default::default()
            })
        });
    let deck = (0..=COUNT_MAX, quantities(), 0..3_i32).prop_map(|(size, cards, on_exhausted)| {
        Kind::Deck(proto::Deck {
            size,
            cards,
            on_exhausted,
            ..Default::default()
        })
    });
    (
        text(),
        any::<u32>(),
        prop::option::of(prop_oneof![schedule, deck]),
    )
        .prop_map(|(id, unlock_after_draws, kind)| proto::Pool {
            segments: (unlock_after_draws % 3 == 1).then(|| proto::SegmentRule {
                any: vec![id.clone()],
                none: Vec::new(),
            }),
            id,
            unlock_after_draws,
            lock_after_wins: unlock_after_draws % 2,
            unlock_after_draws_today: unlock_after_draws % 5,
            kind,
        })
}

prop_compose! {
    fn campaign()(
        (id, name) in (text(), text()),
        time_zone in prop::sample::select(ZONES.to_vec()),
        start in prop::option::of((-3_000_000_000_i64..200_000_000_000, 0..1_000_000_000_i32)),
        limits in prop::option::of((prop::option::of(any::<u32>()), prop::option::of(0..2_u32))),
        attributes in prop::option::of(prop::collection::btree_map(text(), text(), 0..5)),
        prizes in prop::collection::vec(prize(), 0..4),
        pools in prop::collection::vec(pool(), 0..3),
        money in prop::option::of((text(), any::<i64>(), any::<i32>())),
        publish_plan in 0..3_i32,
    ) -> proto::Campaign {
        let prize = |(id, stock, counts_as_win, per_user)| proto::Prize {
            id,
            stock,
            counts_as_win,
            per_user,
            unlimited: stock % 2 == 1,
            codes: stock % 3 == 1,
            value: money.clone().map(money_of),
            attributes: attributes.clone().unwrap_or_default(),
            ..Default::default()
        };
        proto::Campaign {
            id,
            name,
            time_zone: time_zone.into(),
            start_time: start.map(|(seconds, nanos)| Timestamp { seconds, nanos }),
            limits: limits.map(|(draws_per_day, wins_per_user)| proto::DrawLimits {
                draws_per_day, wins_per_user, ..Default::default()
            }),
            consolation: attributes.clone().map(consolation_of),
            prizes: prizes.into_iter().map(prize).collect(),
            pools,
            publish_plan,
            approval_required: publish_plan == 1,
            ..Default::default()
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_answered_without_a_panic(text in any::<String>()) {
        let _ = parse(&text);
        let _ = parse_schedule(&text);
    }

    #[test]
    fn a_sample_with_slips_is_answered_without_a_panic(
        pick in any::<prop::sample::Index>(),
        slips in prop::collection::vec((any::<prop::sample::Index>(), 0..20_usize, text()), 1..6),
    ) {
        let samples = samples();
        let mut chars: Vec<char> = pick.get(&samples).1.chars().collect();
        for (position, cut, insert) in slips {
            let start = position.index(chars.len() + 1);
            let end = (start + cut).min(chars.len());
            chars.splice(start..end, insert.chars());
        }
        let _ = parse(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn any_campaign_is_written_and_read_back_the_same(campaign in campaign()) {
        let yaml = to_yaml(&campaign);
        let back = parse(&yaml).map_err(|problems| failed(&problems, &yaml))?;
        prop_assert_eq!(&back, std::slice::from_ref(&campaign), "{}", yaml);
        let json = to_json("tombola.v1.Campaign", &campaign).to_string();
        let back = parse(&json).map_err(|problems| failed(&problems, &json))?;
        prop_assert_eq!(&back, std::slice::from_ref(&campaign), "{}", json);
    }
}
