//! Budgets.

use super::*;
use crate::model::{PrizeNo, budget::Budget};

fn money(currency: &str, units: i64, nanos: i32) -> Option<proto::Money> {
    Some(proto::Money {
        currency_code: currency.into(),
        units,
        nanos,
    })
}

/// A campaign whose prizes are worth 120,000 and 10 yuan.
fn wheel(per_day: Option<proto::Money>, total: Option<proto::Money>) -> proto::Campaign {
    let mut message = spring_wheel();
    for (prize, units) in message.prizes.iter_mut().zip([120_000, 10]) {
        prize.value = money("CNY", units, 0);
    }
    message.budget = Some(proto::Budget { per_day, total });
    message
}

#[track_caller]
fn refused(message: &proto::Campaign, problems: &[(&str, &str)]) {
    let found = campaign_from_proto(message).unwrap_err().0;
    assert_eq!(found.len(), problems.len(), "{found:?}");
    for (found, (path, text)) in found.iter().zip(problems) {
        assert_eq!(&found.path, path);
        assert!(found.message.contains(text), "{found:?}");
    }
}

#[test]
fn a_budget_is_read_in_minor_units_and_comes_back_as_it_was() {
    let message = wheel(money("CNY", 200_000, 500_000_000), money("CNY", 300_000, 0));
    let campaign = campaign_from_proto(&message).unwrap();
    let expected = Budget {
        currency: "CNY".into(),
        per_day: Some(20_000_050),
        total: Some(30_000_000),
        values: vec![12_000_000, 1_000],
    };
    assert_eq!(campaign.budget, Some(expected));
    assert_eq!(campaign_to_proto(&campaign).budget, message.budget);
    assert_eq!(decode(&encode(&campaign)).unwrap(), campaign);

    let only = campaign_from_proto(&wheel(None, money("CNY", 120_000, 0))).unwrap();
    let budget = only.budget.unwrap();
    assert_eq!((budget.per_day, budget.total), (None, Some(12_000_000)));
    assert_eq!(budget.value(PrizeNo(1)), 1_000);
}

#[test]
fn the_value_of_a_currency_with_other_minor_units_is_whole() {
    for (currency, nanos, minor) in [("JPY", 0, 200_000), ("KWD", 1_000_000, 200_000_001)] {
        let mut message = wheel(money(currency, 200_000, nanos), None);
        for prize in &mut message.prizes {
            prize.value = money(currency, 1, 0);
        }
        let budget = campaign_from_proto(&message).unwrap().budget.unwrap();
        assert_eq!(budget.per_day, Some(minor), "{currency}");
    }
}

#[test]
fn a_budget_has_a_bound_and_one_currency() {
    refused(
        &wheel(None, None),
        &[("budget", "add perDay, total or both")],
    );
    refused(
        &wheel(money("CNY", 200_000, 0), money("EUR", 200_000, 0)),
        &[(
            "budget.total.currencyCode",
            "is EUR, and budget.perDay is in CNY",
        )],
    );
    refused(
        &wheel(money("RMB", 1, 0), money("CNY", -1, 0)),
        &[
            ("budget.perDay.currencyCode", "the yuan is CNY"),
            ("budget.total.units", "0 to 2^53 - 1"),
        ],
    );
    refused(
        &wheel(money("CNY", 0, 0), None),
        &[("budget.perDay", "is 0")],
    );
    refused(
        &wheel(None, money("CNY", 200_000, 1)),
        &[("budget.total", "no whole number of minor units")],
    );
    refused(
        &wheel(None, money("CNY", (1 << 53) - 1, 0)),
        &[("budget.total", "at most CNY 90,071,992,547,409.91")],
    );
}

#[test]
fn every_prize_has_a_value_that_the_budget_can_pay() {
    let mut message = wheel(money("CNY", 200_000, 0), None);
    message.prizes[0].value = None;
    message.prizes[1].value = money("EUR", 1, 0);
    refused(
        &message,
        &[
            ("prizes[0].value", "needs each prize's value, in CNY"),
            (
                "prizes[1].value.currencyCode",
                "is EUR, and the budget is in CNY",
            ),
        ],
    );
    message.prizes[0].value = money("CNY", 0, 5_000_000);
    message.prizes[1].value = money("CNY", 0, 0);
    refused(
        &message,
        &[("prizes[0].value", "CNY 0.005 is no whole number")],
    );
    refused(
        &wheel(money("CNY", 119_999, 0), money("CNY", 120_000, 0)),
        &[("prizes[0].value", "more than budget.perDay, CNY 119,999.00")],
    );
}
