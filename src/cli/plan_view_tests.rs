//! Tests of plans as tables.

use super::*;
use crate::proto::{Money, PrizeQuantity};

/// The hour `index` hours after 2026-11-20 00:00 in Shanghai.
fn hour(index: i64, units: u64) -> PlannedHour {
    let start = 1_795_104_000 + index * 3_600;
    let moment = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let zone = jiff::tz::TimeZone::get("Asia/Shanghai").unwrap();
    let local = jiff::Timestamp::from_second(start).unwrap().to_zoned(zone);
    PlannedHour {
        pool_id: "coupons".into(),
        start_time: moment(start),
        end_time: moment(start + 3_600),
        prizes: vec![PrizeQuantity {
            prize_id: "coupon".into(),
            units,
        }],
        local_start: local.strftime("%Y-%m-%dT%H:%M%:z").to_string(),
    }
}

fn table(hours: &[PlannedHour]) -> Vec<String> {
    let hours: Vec<_> = hours.iter().collect();
    let text = pool_table(&hours).render();
    text.lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn equal_hours_in_a_row_are_one_line() {
    let units = |hour: i64| if (20..22).contains(&hour) { 1_000 } else { 200 };
    let hours: Vec<_> = (0..24).map(|index| hour(index, units(index))).collect();
    assert_eq!(
        table(&hours),
        [
            "11-20 00:00 … 19:00 200 each",
            "11-20 20:00 … 21:00 1,000 each",
            "11-20 22:00 … 23:00 200 each"
        ]
    );
}

#[test]
fn equal_days_in_a_row_are_one_block() {
    let units = |index: i64| {
        if (20..22).contains(&(index % 24)) {
            1_000
        } else {
            200
        }
    };
    let hours: Vec<_> = (0..72).map(|index| hour(index, units(index))).collect();
    assert_eq!(
        table(&hours),
        [
            "11-20 … 11-22 daily 00:00 … 19:00 200 each",
            "11-20 … 11-22 daily 20:00 … 21:00 1,000 each",
            "11-20 … 11-22 daily 22:00 … 23:00 200 each"
        ]
    );
}

#[test]
fn a_run_goes_past_midnight_and_a_gap_ends_it() {
    let hours: Vec<_> = [22, 23, 24, 25, 30].map(|index| hour(index, 5)).into();
    assert_eq!(
        table(&hours),
        ["11-20 22:00 … 11-21 01:00 5 each", "11-21 06:00 5 each"]
    );
}

#[test]
fn sums_show_what_is_short_and_what_it_is_worth() {
    let money = |units, nanos| {
        Some(Money {
            currency_code: "CNY".into(),
            units,
            nanos,
        })
    };
    let text = plan(&PlanSummary {
        prizes: vec![PrizePlan {
            prize_id: "coupon".into(),
            stock: 50_000,
            planned: 70_400,
            planned_value: money(35_200, 500_000_000),
            stock_value: money(25_000, 0),
            ..PrizePlan::default()
        }],
        hours_omitted: 3,
        ..PlanSummary::default()
    });
    for part in [
        "3 hours more",
        "70,400",
        "20,400 short",
        "CNY 35,200.50",
        "CNY 25,000",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("round"), "{text}");
}

#[test]
fn a_deck_says_how_far_stock_brings_it() {
    let prize = |units| {
        vec![PrizeQuantity {
            prize_id: "mug".into(),
            units,
        }]
    };
    let once = DeckPlan {
        pool_id: "everyday".into(),
        size: 100,
        rounds: 1,
        lacking: prize(20),
        left_over: prize(5),
        ..DeckPlan::default()
    };
    assert_eq!(
        deck(&once),
        [
            "pool everyday: stock pays for 1 round of 100 cards, then the deck stops: 20 mug more \
             would pay for another round; 5 mug left over"
        ]
    );
    let shared = DeckPlan {
        rounds: 40,
        left_over: vec![],
        shares_stock: true,
        ..once.clone()
    };
    let lines = deck(&shared).join("");
    assert!(lines.contains("at most 40 rounds"), "{lines}");
    assert!(lines.contains("nothing is left over"), "{lines}");
    let ends = DeckPlan {
        lacking: vec![],
        ..once
    };
    assert!(deck(&ends).is_empty(), "it ends by itself");
}

#[test]
fn odds_that_are_no_whole_cards_are_noted() {
    let card = CardCount {
        prize_id: "mug".into(),
        cards: 33,
        size: 100,
        written_odds: "33.333%".into(),
    };
    let plan = DeckPlan {
        pool_id: "everyday".into(),
        rounded: vec![card],
        ..DeckPlan::default()
    };
    assert_eq!(
        deck(&plan),
        [
            "pool everyday: 33.333% of 100 cards is no whole number of cards: mug gets 33 of 100, \
             which is 33%"
        ]
    );
}
