//! Codes: the n-th win of a prize gets code n, whoever draws, retries or restarts.

use std::collections::BTreeSet;

use tombola::{
    model::PoolNo,
    store::{DrawAnswer, DrawCommand, DrawResult, Operation, Sweep, WinOperation, fill::DeckStop},
};

use super::code_imports::refusal;
use crate::support::{
    Answer as _, DrawWords as _, World, campaign, draw, hours,
    words::{SPRING, campaign_id},
};

promises![
    the_n_th_win_gets_code_n,
    a_replay_has_the_same_codes,
    codes_are_given_once_by_parallel_draws_with_retries,
    a_deck_waits_for_codes_and_goes_on_with_them,
    a_schedule_gives_codes_in_the_order_of_wins,
    prizes_with_and_without_codes_are_won_in_one_draw,
    forfeited_cards_have_no_code,
    a_revoked_code_is_withdrawn_for_good,
    unused_codes_are_those_that_nobody_has_won,
    codes_of_lost_draws_are_passed_over,
    units_with_codes_come_back_and_keep_their_order,
    a_campaign_with_codes_adds_up_after_the_end,
    codes_stay_codes_once_they_are_imported,
    many_codes_are_read_back_after_a_reopen,
];

pub(super) const COUPONS: &str = "
    consolation: {id: points}
    prizes: [{id: coupon, codes: true}]
    pools: [{id: deck, deck: {size: 20, cards: {coupon: 20}, onExhausted: RESHUFFLE}}]
";

/// Codes by index.
pub(super) fn codes(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|index| format!("CODE-{index:07}")).collect()
}

/// The texts of the codes of an answer.
pub(super) async fn texts(world: &World, answer: &DrawAnswer) -> Vec<String> {
    let texts = world.injector().codes_of(answer).await.unwrap();
    texts.into_iter().flatten().collect()
}

/// The indexes of the codes of an answer.
fn indexes(answer: &DrawAnswer) -> Vec<u64> {
    let results = answer.entry.results.iter();
    let index = |result: &DrawResult| match result {
        DrawResult::Won { code, .. } => *code,
        DrawResult::NotWon { .. } => None,
    };
    results.filter_map(index).collect()
}

async fn the_n_th_win_gets_code_n(world: &mut World) {
    world.begin(COUPONS).await;
    world.import("coupon", 0, &codes(0..1_000)).await;
    let mut next = 0;
    for count in [1, 3, 100, 7] {
        let answer = world.draw(draw("u").times(count)).await;
        let won = next..next + u64::from(count);
        assert_eq!(indexes(&answer), Vec::from_iter(won.clone()));
        assert_eq!(texts(world, &answer).await, codes(won));
        next += u64::from(count);
    }
    let coupons = world.prize("coupon").await;
    assert_eq!((coupons.stock, coupons.won), (1_000, 111));
    assert_eq!(coupons.codes_left(), 889);
}

async fn a_replay_has_the_same_codes(world: &mut World) {
    world.begin(COUPONS).await;
    world.import("coupon", 0, &codes(0..200)).await;
    let asked = draw("u").times(40);
    let first = world.draw(asked.clone()).await;
    world.draw(draw("u").times(2)).await;
    world.draw(draw("v").times(20)).await;
    world.reopen().await;
    let again = world.draw(asked.clone()).await;
    assert!(again.replayed);
    assert_eq!(again.entry, first.entry);
    assert_eq!(texts(world, &again).await, codes(0..40));
    let found = world
        .store()
        .find_draw(&asked.campaign, &asked.user, &asked.request);
    assert_eq!(found.await.unwrap().entry, first.entry);
}

async fn codes_are_given_once_by_parallel_draws_with_retries(world: &mut World) {
    world.begin(COUPONS).await;
    world.import("coupon", 0, &codes(0..5_000)).await;
    // Each command three times, so that two of them are retries.
    let commands: Vec<DrawCommand> = (0..300)
        .map(|number| draw(&format!("u-{}", number % 50)).times(1 + number % 7))
        .collect();
    let thrice = commands.iter().cycle().take(900).cloned().collect();
    let mut given = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for answer in world.storm(thrice).await {
        let answer = answer.unwrap();
        let of_request = (answer.ledger, indexes(&answer));
        if !seen.insert(of_request.clone()) {
            continue;
        }
        for index in of_request.1 {
            assert!(given.insert(index), "code {index} is given twice");
        }
    }
    let wins: u64 = commands
        .iter()
        .map(|command| u64::from(command.count))
        .sum();
    assert_eq!(seen.len(), commands.len());
    assert!(given.into_iter().eq(0..wins), "no code is left out");
}

async fn a_deck_waits_for_codes_and_goes_on_with_them(world: &mut World) {
    world.begin(COUPONS).await;
    world.tick().await;
    assert_eq!(world.draw(draw("u").times(5)).await.count("-"), 5);
    let lacking = world.stats().await.decks[0].stopped;
    assert_eq!(lacking, Some(DeckStop::OutOfStock));
    world.import("coupon", 0, &codes(0..30)).await;
    assert_eq!(world.stats().await.decks[0].stopped, None);
    // A deck is dealt by chunks of a whole round.
    let answer = world.draw(draw("u").times(50)).await;
    assert_eq!((answer.count("coupon"), answer.count("-")), (20, 30));
    world.import("coupon", 30, &codes(30..60)).await;
    let answer = world.draw(draw("u").times(50)).await;
    assert_eq!(indexes(&answer), Vec::from_iter(20..60));
    assert_eq!(texts(world, &answer).await, codes(20..60));
}

async fn a_schedule_gives_codes_in_the_order_of_wins(world: &mut World) {
    let yaml = "
        endTime: 2026-11-20T06:00:00+08:00
        prizes: [{id: coupon, codes: true}, {id: mug, stock: 500}]
        pools: [{id: hours, schedule: {perHour: {coupon: 50, mug: 50}}}]
    ";
    let definition = campaign(yaml);
    world.try_apply(definition.clone(), 0).await.unwrap();
    world.import("coupon", 0, &codes(0..80)).await;
    world.set_time(definition.start).await;
    for hour in 1..4 {
        world.tick().await;
        world.set_time(definition.start + hours(hour)).await;
        let answer = world.draw(draw("u").times(100)).await;
        // Stock gives the first hour all, the second one the rest, the third one nothing.
        let granted = match hour {
            1 => 0..50,
            2 => 50..80,
            _ => 80..80,
        };
        assert_eq!(indexes(&answer), Vec::from_iter(granted.clone()));
        assert_eq!(texts(world, &answer).await, codes(granted));
        assert_eq!(answer.count("mug"), 50);
    }
}

async fn prizes_with_and_without_codes_are_won_in_one_draw(world: &mut World) {
    world
        .begin(
            "
            prizes:
              - {id: voucher, codes: true}
              - {id: mug, stock: 1000, perUser: {total: 3}}
              - {id: coupon, codes: true, perUser: {total: 10}}
            pools:
              - id: deck
                deck: {size: 30, cards: {voucher: 10, mug: 10, coupon: 10}, onExhausted: RESHUFFLE}
            ",
        )
        .await;
    world.import("coupon", 0, &codes(0..100)).await;
    world.import("voucher", 0, &codes(500..600)).await;
    let answer = world.draw(draw("u").times(60)).await;
    assert_eq!(
        ["voucher", "mug", "coupon"].map(|prize| answer.count(prize)),
        [20, 3, 10]
    );
    assert_eq!(answer.forfeited(), 27);
    let mut of_prize = texts(world, &answer).await;
    of_prize.sort_unstable();
    assert_eq!(of_prize, [codes(0..10), codes(500..520)].concat());
    let answer = world.draw(draw("v").times(30)).await;
    assert_eq!((answer.count("mug"), indexes(&answer).len()), (3, 20));
}

async fn forfeited_cards_have_no_code(world: &mut World) {
    world
        .begin(
            "
            limits: {winsPerUser: 2}
            prizes: [{id: coupon, codes: true}, {id: pin, stock: 900, countsAsWin: false}]
            pools:
              - id: deck
                deck: {size: 20, cards: {coupon: 10, pin: 10}, onExhausted: RESHUFFLE}
            ",
        )
        .await;
    world.import("coupon", 0, &codes(0..100)).await;
    for (number, user) in (0..).zip(["u", "v", "w"]) {
        let asked = draw(user).times(20);
        let answer = world.draw(asked.clone()).await;
        let given = 2 * number..2 * number + 2;
        assert_eq!(indexes(&answer), Vec::from_iter(given.clone()));
        assert_eq!((answer.forfeited(), answer.count("pin")), (8, 10));
        world.reopen().await;
        let replayed = world.draw(asked).await;
        assert_eq!(replayed.entry, answer.entry);
        assert_eq!(texts(world, &replayed).await, codes(given));
    }
}

async fn a_revoked_code_is_withdrawn_for_good(world: &mut World) {
    world.begin(COUPONS).await;
    world.import("coupon", 0, &codes(0..60)).await;
    let asked = draw("u").times(3);
    let answer = world.draw(asked.clone()).await;
    let second = answer.won_units().remove(1);
    let revoke = WinOperation::Revoke { withdraw: false };
    world.try_operate_win(&second, revoke).await.unwrap();
    let again = world.draw(asked).await;
    let texts = world.injector().codes_of(&again).await.unwrap();
    let kept = codes(0..3);
    assert_eq!(texts, [Some(kept[0].clone()), None, Some(kept[2].clone())]);
    let coupons = world.prize("coupon").await;
    assert_eq!((coupons.revoked, coupons.withdrawn), (1, 1));
    // The unit is withdrawn with its code: there are as many units left as codes.
    let mut given = Vec::new();
    for _ in 0..6 {
        given.extend(indexes(&world.draw(draw("v").times(20)).await));
    }
    assert_eq!(given, Vec::from_iter(3..60));
}

async fn unused_codes_are_those_that_nobody_has_won(world: &mut World) {
    world.begin(COUPONS).await;
    world.import("coupon", 0, &codes(0..300)).await;
    let answer = world.draw(draw("u").times(70)).await;
    assert_eq!(answer.wins(), 70);
    let view = world.store().campaign(&campaign_id(SPRING)).await.unwrap();
    let prize = world.prize_no("coupon").await;
    let mut unused = Vec::new();
    let (mut from, mut has_more) = (0, true);
    while has_more {
        let page;
        (page, has_more) = world
            .injector()
            .unused_codes(&view, prize, from, 100)
            .await
            .unwrap();
        from = page.last().map_or(from, |(index, _)| index + 1);
        unused.extend(page);
    }
    let indexes: Vec<u64> = unused.iter().map(|(index, _)| *index).collect();
    assert_eq!(indexes, Vec::from_iter(70..300));
    let texts: Vec<String> = unused.into_iter().map(|(_, code)| code).collect();
    assert_eq!(texts, codes(70..300));
}

/// Draws in entries that were lost may have won the units that waited, and given their codes.
async fn codes_of_lost_draws_are_passed_over(world: &mut World) {
    let yaml = "
        prizes: [{id: coupon, codes: true}]
        pools: [{id: deck, deck: {size: 100, cards: {coupon: 100}, onExhausted: RESHUFFLE}}]
    ";
    let begun = world.begin(yaml).await;
    world.import("coupon", 0, &codes(0..400)).await;
    assert_eq!(indexes(&world.draw(draw("u").times(2)).await), [0, 1]);
    let waiting = world.prize("coupon").await.waiting;
    assert!(waiting > 0);
    let until = world.time();
    let sweep = Sweep::Recovery { until };
    while world.store().sweep(&begun.id, sweep).await.unwrap().more {}
    let coupons = world.prize("coupon").await;
    assert_eq!((coupons.withdrawn, coupons.skipped), (waiting, waiting));
    let next = 2 + waiting;
    let rest = world.draw(draw("u")).await;
    assert_eq!(indexes(&rest), [next]);
    assert_eq!(texts(world, &rest).await, codes(next..next + 1));
    let left = world.prize("coupon").await.codes_left();
    assert_eq!(left, 400 - next - 1);
}

async fn units_with_codes_come_back_and_keep_their_order(world: &mut World) {
    let yaml = "
        endTime: 2026-11-20T06:00:00+08:00
        prizes: [{id: coupon, codes: true}]
        pools: [{id: hours, schedule: {perHour: {coupon: 50}}}]
    ";
    let definition = campaign(yaml);
    world.try_apply(definition.clone(), 0).await.unwrap();
    world.import("coupon", 0, &codes(0..200)).await;
    world.set_time(definition.start).await;
    world.tick().await;
    world
        .operate(Operation::Recall {
            pool: PoolNo(0),
            window: None,
            prize: None,
            withdraw: true,
        })
        .await;
    let withdrawn = world.prize("coupon").await.withdrawn;
    assert!(withdrawn > 0);
    world.set_time(definition.start + hours(1)).await;
    world.tick().await;
    world.set_time(definition.start + hours(2)).await;
    let answer = world.draw(draw("u").times(100)).await;
    let given = indexes(&answer);
    assert_eq!(given, Vec::from_iter(0..given.len() as u64));
    assert!(!given.is_empty());
}

async fn a_campaign_with_codes_adds_up_after_the_end(world: &mut World) {
    let begun = world.begin(COUPONS).await;
    world.import("coupon", 0, &codes(0..100)).await;
    world.draw(draw("u").times(30)).await;
    world.set_time(begun.end).await;
    world.tick().await;
    let coupons = world.prize("coupon").await;
    assert_eq!((coupons.won, coupons.waiting, coupons.left), (30, 0, 70));
    assert_eq!(coupons.codes_left(), 70);
    let text = refusal(world, "coupon", 100, &codes(100..101)).await;
    assert!(text.contains("ended") || text.contains("closed"), "{text}");
}

async fn codes_stay_codes_once_they_are_imported(world: &mut World) {
    let definition = campaign(COUPONS);
    world.try_apply(definition.clone(), 0).await.unwrap();
    // Before the first import, everything may change.
    let stocked = COUPONS.replace("codes: true", "stock: 100");
    world.change(&stocked).await;
    world.change(COUPONS).await;
    world.import("coupon", 0, &codes(0..100)).await;
    for other in ["stock: 100", "unlimited: true"] {
        let other = campaign(&COUPONS.replace("codes: true", other));
        let refused = world.try_apply(other, 3).await.unwrap_err().to_string();
        assert!(refused.contains("prizes[0].codes"), "{refused}");
    }
    world.change(&COUPONS.replace("points", "pearls")).await;
    world.set_time(definition.start).await;
    assert_eq!(indexes(&world.draw(draw("u")).await), [0]);
}

async fn many_codes_are_read_back_after_a_reopen(world: &mut World) {
    world.begin(COUPONS).await;
    // Several groups of blocks on Redis.
    for first in (0..40_000).step_by(10_000) {
        world
            .import("coupon", first, &codes(first..first + 10_000))
            .await;
    }
    world.reopen().await;
    let view = world.store().campaign(&campaign_id(SPRING)).await.unwrap();
    let prize = world.prize_no("coupon").await;
    let injector = world.injector();
    for from in [0, 16_383, 16_384, 39_990] {
        let (page, _) = injector.unused_codes(&view, prize, from, 20).await.unwrap();
        let until = (from + 20).min(40_000);
        let texts: Vec<String> = page.into_iter().map(|(_, code)| code).collect();
        assert_eq!(texts, codes(from..until));
    }
    let text = refusal(world, "coupon", 40_000, &codes(17_000..17_001)).await;
    assert!(text.contains("code 17,000 "), "{text}");
}
