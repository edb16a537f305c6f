//! Personal pools and their guarantees: what is read, and what cannot be meant.

use super::*;
use crate::model::{file, personal::PersonalKind};

/// A campaign with prizes of all kinds and this text of a personal pool.
fn message(personal: &str) -> proto::Campaign {
    let text = format!(
        "
id: gacha
timeZone: Asia/Tokyo
startTime: 2026-12-01T00:00:00+09:00
endTime: 2026-12-22T00:00:00+09:00
prizes:
  - {{id: hero, unlimited: true}}
  - {{id: star, unlimited: true}}
  - {{id: mug, stock: 10}}
  - {{id: capped, unlimited: true, perUser: {{total: 1}}}}
  - {{id: coupon, codes: true}}
pools:
  - {{id: own, personal: {personal}}}
"
    );
    file::parse(&text).unwrap().remove(0)
}

fn refused(message: &proto::Campaign) -> Vec<(String, String)> {
    let problems = campaign_from_proto(message).unwrap_err();
    let problems = problems.0.into_iter();
    problems.map(|it| (it.path, it.message)).collect()
}

#[track_caller]
fn assert_refused(personal: &str, path: &str, word: &str) {
    let found = refused(&message(personal));
    let path = match path {
        "" => "pools[0].personal".into(),
        path => format!("pools[0].personal.{path}"),
    };
    let [(at, text)] = found.as_slice() else {
        panic!("one problem of {personal}: {found:#?}");
    };
    assert!(*at == path && text.contains(word), "{personal}: {found:#?}");
}

#[test]
fn what_is_written_reads_back() {
    let personal = "{odds: {hero: 0.3%, star: 1/300, mug: 5%}, fallback: mug, guarantees: \
                    [{id: ssr, prizes: [hero, star], within: 90, \
                    ramp: [{from: 74, add: 6%}, {from: 80, add: 0.5%}], among: [hero]}]}";
    let campaign = campaign_from_proto(&message(personal)).unwrap();
    assert!(campaign.has_personal_pools());
    let PoolKind::Personal(own) = &campaign.pools[0].kind else {
        panic!("a personal pool");
    };
    let PersonalKind::Odds(odds) = &own.kind else {
        panic!("with odds");
    };
    // Over the common denominator 3,000.
    let weights: Vec<_> = odds.outcomes().map(|(_, weight)| weight).collect();
    assert_eq!(weights, [9, 10, 150, 2831]);
    let ssr = &own.guarantees[0];
    assert_eq!(ssr.raise(79), Some((72, 200)));
    assert_eq!(ssr.raise(80), Some((73, 200)));
    let again = campaign_from_proto(&campaign_to_proto(&campaign)).unwrap();
    assert_eq!(again, campaign);
}

#[test]
fn a_pool_says_in_one_way_what_a_draw_gives() {
    assert_refused("{fallback: mug}", "", "neither odds nor a deck");
    let both = "{odds: {mug: 1%}, deck: {size: 10, cards: {mug: 1}}}";
    assert_refused(both, "", "both odds and a deck");
    let guaranteed = "{deck: {size: 10, cards: {mug: 1}}, \
                      guarantees: [{id: g, prizes: [hero], within: 3}]}";
    assert_refused(guaranteed, "guarantees", "go with odds only");
    let large = "{deck: {size: 1001, cards: {mug: 1}}}";
    assert_refused(large, "deck.size", "at most 1,000");
    assert_refused("{odds: {mug: 60%, hero: 41%}}", "odds", "100%");
    assert_refused(
        "{odds: {mug: 1/999983, hero: 1/999979, star: 1/999961}}",
        "odds",
        "fewer",
    );
    assert_refused("{odds: {cup: 1%}}", "odds.cup", "not a prize");
    assert_refused("{odds: {coupon: 1%}}", "", "codes");
    assert_refused(
        "{odds: {mug: 1%}, fallback: cup}",
        "fallback",
        "not a prize",
    );
}

/// A pool with one guarantee of this text.
fn guaranteed(rest: &str) -> String {
    format!("{{odds: {{hero: 1%, star: 1%}}, guarantees: [{{{rest}}}]}}")
}

#[test]
fn a_guarantee_is_one_that_can_be_kept() {
    let refused = |rest: &str, path: &str, word: &str| {
        let path = format!(
            "guarantees[0]{}{path}",
            if path.is_empty() { "" } else { "." }
        );
        assert_refused(&guaranteed(rest), &path, word);
    };
    refused("id: g, prizes: [hero]", "", "promises nothing");
    refused("id: g, within: 3", "prizes", "is empty");
    refused(
        "id: g, prizes: [mug], within: 3",
        "prizes[0]",
        "not unlimited",
    );
    refused(
        "id: g, prizes: [capped], within: 3",
        "prizes[0]",
        "has a cap",
    );
    refused(
        "id: g, prizes: [hero, hero], within: 3",
        "prizes[1]",
        "there twice",
    );
    refused(
        "id: g, prizes: [hero, cup], within: 3",
        "prizes[1]",
        "not a prize",
    );
    refused(
        "id: g, prizes: [hero], within: 100001",
        "within",
        "at most 100,000",
    );
    refused("id: '', prizes: [hero], within: 3", "id", "");
    refused(
        "id: g, prizes: [hero], among: [star]",
        "among[0]",
        "not one of",
    );
    refused("id: g, prizes: [hero], among: [hero]", "among", "all of");
    let ramp = |entries: &str| format!("id: g, prizes: [hero], ramp: [{entries}]");
    refused(
        &ramp("{from: 0, add: 1%}"),
        "ramp[0].from",
        "not a draw's number",
    );
    refused(
        &ramp("{from: 5, add: 1%}, {from: 5, add: 1%}"),
        "ramp[1].from",
        "not after 5",
    );
    refused(
        &ramp("{from: 5, add: 0.00001%}"),
        "ramp[0].add",
        "four decimals",
    );
    refused(&ramp("{from: 5, add: 1/3}"), "ramp", "four decimals");
    refused(
        &ramp(&vec!["{from: 5, add: 1%}"; 21].join(", ")),
        "ramp",
        "at most 20",
    );
}

#[test]
fn a_guarantees_prize_counts_as_no_win_while_wins_are_limited() {
    let mut message = message(&guaranteed("id: g, prizes: [hero], within: 3"));
    campaign_from_proto(&message).unwrap();
    message.segment_limits = vec![proto::SegmentLimits {
        segment: "gold".into(),
        limits: Some(proto::DrawLimits {
            wins_per_user: Some(3),
            ..Default::default()
        }),
    }];
    let found = refused(&message);
    assert!(found[0].1.contains("winsPerUser"), "{found:?}");
    message.prizes[0].counts_as_win = Some(false);
    campaign_from_proto(&message).unwrap();
}

#[test]
fn guarantees_of_a_campaign_are_few_and_have_ids_of_their_own() {
    let pool = |guarantees: &str| format!("{{odds: {{hero: 1%}}, guarantees: [{guarantees}]}}");
    let one = "{id: g, prizes: [hero], within: 3}";
    assert_refused(&pool(&[one, one].join(", ")), "guarantees[1].id", "already");
    let many: Vec<_> = (0..21)
        .map(|i| format!("{{id: g{i}, prizes: [hero], within: 1}}"))
        .collect();
    let found = refused(&message(&pool(&many.join(", "))));
    assert!(found[0].1.contains("at most 20"), "{found:?}");
    let split = "{id: a, prizes: [hero, star], among: [hero]}, \
                 {id: b, prizes: [star, hero], among: [star]}";
    assert_refused(&pool(split), "guarantees", "two guarantees with");
    let fallback =
        "{odds: {mug: 1%}, fallback: hero, guarantees: [{id: g, prizes: [hero], within: 2}]}";
    assert_refused(fallback, "fallback", "no guarantee has");
    // Their counters are the states of the published odds.
    let states = "{id: a, prizes: [hero], within: 5000}, {id: b, prizes: [star], within: 5001}";
    assert_refused(&pool(states), "guarantees", "lower `within`");
    // A ramp alone counts for as long as it rises.
    let ramp = "{id: slow, prizes: [hero], ramp: [{from: 1, add: 0.0001%}]}";
    assert_refused(
        &pool(ramp),
        "guarantees",
        "the ramp of slow counts up to draw",
    );
}

#[test]
fn a_guarantees_prize_may_be_worth_something_within_a_budget() {
    let mut message = message(&guaranteed("id: g, prizes: [hero], within: 3"));
    let cny = |units| proto::Money {
        currency_code: "CNY".into(),
        units,
        nanos: 0,
    };
    message.budget = Some(proto::Budget {
        per_day: Some(cny(900)),
        total: None,
    });
    for (prize, value) in message
        .prizes
        .iter_mut()
        .zip([300].into_iter().chain([0; 99]))
    {
        prize.value = Some(cny(value));
    }
    let campaign = campaign_from_proto(&message).unwrap();
    let hero = campaign.prize_no("hero").unwrap();
    assert_eq!(campaign.guaranteed_in_budget(), [hero]);
}

/// A campaign with these guarantees over all pools, and one of its pool.
fn promised(guarantees: &str) -> proto::Campaign {
    let own = "{odds: {hero: 1%}, guarantees: [{id: own, prizes: [hero], within: 3}]}";
    let text = format!("guarantees: [{guarantees}]");
    proto::Campaign {
        guarantees: file::parse(&text).unwrap().remove(0).guarantees,
        ..message(own)
    }
}

#[test]
fn guarantees_over_all_pools_are_read_and_written_back_the_same() {
    // Neither stock nor a cap nor a limit of wins is in the way: they stay due meanwhile.
    let mut message =
        promised("{id: a, prizes: [mug, hero], within: 10}, {id: b, prizes: [capped], within: 1}");
    message.limits = Some(proto::DrawLimits {
        wins_per_user: Some(3),
        ..Default::default()
    });
    message.prizes[0].counts_as_win = Some(false);
    let campaign = campaign_from_proto(&message).unwrap();
    let within: Vec<_> = campaign.guarantees.iter().map(|it| it.within).collect();
    assert_eq!(within, [Some(10), Some(1)]);
    let [mug, hero] = ["mug", "hero"].map(|id| campaign.prize_no(id).unwrap());
    assert_eq!(campaign.guarantees[0].prizes, [mug, hero]);
    assert_eq!(campaign_to_proto(&campaign).guarantees, message.guarantees);
    let none = promised("");
    assert!(campaign_from_proto(&none).unwrap().guarantees.is_empty());
}

#[test]
fn a_guarantee_over_all_pools_says_when_it_is_kept_and_leaves_the_rest_to_the_pools() {
    let assert_refused = |guarantees: &str, path: &str, word: &str| {
        let found = refused(&promised(guarantees));
        let is_named = found.iter().any(|it| it.0 == path && it.1.contains(word));
        assert!(is_named, "{path} {word}: {found:?}");
    };
    assert_refused(
        "{id: a, prizes: [mug]}",
        "guarantees[0].within",
        "is missing",
    );
    assert_refused("{id: a, within: 3}", "guarantees[0].prizes", "is empty");
    assert_refused(
        "{id: a, prizes: [mug, cup], within: 3}",
        "guarantees[0].prizes[1]",
        "not a prize",
    );
    assert_refused(
        "{id: a, prizes: [mug, coupon], within: 3}",
        "guarantees[0].prizes[1]",
        "has codes",
    );
    assert_refused(
        "{id: a, prizes: [mug], within: 100001}",
        "guarantees[0].within",
        "at most 100,000",
    );
    let one = "id: a, prizes: [mug, hero], within: 3";
    assert_refused(
        &format!("{{{one}, ramp: [{{from: 2, add: 5%}}]}}"),
        "guarantees[0].ramp",
        "personal pools only",
    );
    assert_refused(
        &format!("{{{one}, among: [mug]}}"),
        "guarantees[0].among",
        "personal pools only",
    );
    assert_refused(
        "{id: own, prizes: [mug], within: 3}",
        "pools[0].personal.guarantees[0].id",
        "already the id of guarantees[0]",
    );
    let many: Vec<_> = (0..20)
        .map(|i| format!("{{id: g{i}, prizes: [mug], within: 1}}"))
        .collect();
    assert_refused(&many.join(", "), "guarantees", "at most 20");
}
