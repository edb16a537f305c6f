//! Caps, unlimited prizes and codes.

use super::*;
use crate::model::caps::PrizeCap;

fn problem(edit: impl Fn(&mut proto::Prize)) -> (String, String) {
    let mut message = spring_wheel();
    edit(&mut message.prizes[1]);
    let problems = campaign_from_proto(&message).unwrap_err().0;
    let [problem] = &problems[..] else {
        panic!("one problem: {problems:?}");
    };
    (problem.path.clone(), problem.message.clone())
}

#[test]
fn a_cap_that_bounds_nothing_or_everything_is_refused() {
    let cap = |total, per_day| Some(proto::PrizeCap { total, per_day });
    let (path, message) = problem(|prize| prize.per_user = cap(None, None));
    assert_eq!(path, "prizes[1].perUser");
    assert!(message.contains("add total, perDay or both"), "{message}");
    for (total, per_day, field) in [(Some(0), Some(1), "total"), (Some(3), Some(0), "perDay")] {
        let (path, message) = problem(|prize| prize.per_user = cap(total, per_day));
        assert_eq!(path, format!("prizes[1].perUser.{field}"));
        assert!(message.contains("nobody could win"), "{message}");
    }
}

#[test]
fn an_unlimited_prize_has_no_stock_and_is_never_short() {
    let (path, message) = problem(|prize| prize.unlimited = true);
    assert_eq!(path, "prizes[1].stock");
    assert!(message.contains("leave stock out"), "{message}");
    let mut message = spring_wheel();
    (message.prizes[1].stock, message.prizes[1].unlimited) = (0, true);
    let campaign = campaign_from_proto(&message).unwrap();
    assert!(campaign.prizes[1].unlimited);
}

#[test]
fn a_prize_with_codes_has_no_stock_and_is_neither_short_nor_unlimited() {
    let (path, message) = problem(|prize| prize.codes = true);
    assert_eq!(path, "prizes[1].stock");
    assert!(message.contains("leave stock out"), "{message}");
    let (path, message) = problem(|prize| {
        (prize.stock, prize.unlimited, prize.codes) = (0, true, true);
    });
    assert_eq!(path, "prizes[1].codes");
    assert!(message.contains("not unlimited"), "{message}");
    let mut message = spring_wheel();
    (message.prizes[1].stock, message.prizes[1].codes) = (0, true);
    let campaign = campaign_from_proto(&message).unwrap();
    assert!(campaign.prizes[1].codes);
    assert_eq!(decode(&encode(&campaign)).unwrap(), campaign);
}

#[test]
fn a_campaign_without_caps_is_encoded_as_before_there_were_any() {
    let plain = campaign_from_proto(&spring_wheel()).unwrap();
    let mut message = spring_wheel();
    message.prizes[1].per_user = Some(proto::PrizeCap {
        total: Some(3),
        per_day: None,
    });
    let capped = campaign_from_proto(&message).unwrap();
    let cap = PrizeCap {
        total: Some(3),
        per_day: None,
    };
    assert_eq!(capped.prizes[1].per_user, Some(cap));
    // Tag and length of `per_user`, tag and value of `total`.
    assert_eq!(encode(&capped).len(), encode(&plain).len() + 4);
    assert_eq!(decode(&encode(&capped)).unwrap(), capped);
}
