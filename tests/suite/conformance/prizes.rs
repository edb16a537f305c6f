//! Which prize a draw gives: stopped prizes, locked pools, what counts as a win, and what a draw
//! without a win gives.

use tombola::{
    model::PrizeNo,
    store::{Operation, Refusal},
};

use crate::support::{
    Answer as _, DrawWords as _, Storm, World, campaign, draw, hours,
    words::{SPRING, campaign_id},
};

promises![
    no_draw_that_begins_after_a_stop_is_acknowledged_wins_the_prize,
    a_stopped_prize_s_units_wait_and_come_back_with_resume,
    a_stopped_prize_stays_stopped_after_a_reopen,
    a_stopped_prize_stays_stopped_when_a_version_gives_it_another_index,
    a_locked_pool_opens_with_the_draws_of_the_user_within_one_call,
    a_prize_that_does_not_count_as_a_win_is_won_beyond_the_limit_of_wins,
    consolations_are_not_wins,
    a_draw_that_asks_for_the_consolation_only_does_not_touch_the_pools,
    a_draw_without_a_win_gives_nothing_if_there_is_no_consolation,
    pools_are_tried_in_their_order,
    a_prize_is_neither_stopped_nor_resumed_after_the_end,
];

const TWO_PRIZES: &str = "
    endTime: 2026-11-20T06:00:00+08:00
    consolation: {id: points}
    prizes: [{id: coupon, stock: 100000}, {id: mug, stock: 100000}]
    pools: [{id: hours, schedule: {perHour: {coupon: 4000, mug: 4000}}}]
";

async fn no_draw_that_begins_after_a_stop_is_acknowledged_wins_the_prize(world: &mut World) {
    let campaign = world.begin(TWO_PRIZES).await;
    world.tick().await;
    world.set_time(campaign.start + hours(1)).await;
    world.tick().await;
    let prize = world.prize_no("coupon").await;
    let storm = Storm::of(world, |world, i, stops| async move {
        let before = stops.now();
        let answer = world.draw(draw(&format!("u{i}")).times(3)).await;
        assert!(!stops.held_since(before) || answer.count("coupon") == 0);
    });
    for _ in 0..10 {
        storm.goes_on(world, 30).await;
        world.operate(Operation::PausePrize { prize }).await;
        storm.stops.begin();
        storm.goes_on(world, 30).await;
        storm.stops.end();
        world.operate(Operation::ResumePrize { prize }).await;
    }
    storm.ends().await;
}

async fn a_stopped_prize_s_units_wait_and_come_back_with_resume(world: &mut World) {
    let campaign = world.begin(&TWO_PRIZES.replace("4000", "50")).await;
    let prize = world.prize_no("coupon").await;
    world.operate(Operation::PausePrize { prize }).await;
    world.tick().await;
    world.set_time(campaign.start + hours(1)).await;
    let held = world.draw(draw("u").times(100)).await;
    assert_eq!([held.count("coupon"), held.count("mug")], [0, 50]);
    world.operate(Operation::ResumePrize { prize }).await;
    let back = world.draw(draw("u").times(100)).await;
    assert_eq!([back.count("coupon"), back.count("mug")], [50, 0]);
    assert!(back.releases().is_sorted());
}

async fn a_stopped_prize_stays_stopped_after_a_reopen(world: &mut World) {
    let campaign = world.begin(&TWO_PRIZES.replace("4000", "50")).await;
    let prize = world.prize_no("coupon").await;
    world.operate(Operation::PausePrize { prize }).await;
    world.reopen().await;
    world.tick().await;
    world.set_time(campaign.start + hours(1)).await;
    assert_eq!(world.draw(draw("u").times(100)).await.count("coupon"), 0);
    assert_eq!(*world.stats().await.view.paused_prizes, [prize]);
}

async fn a_stopped_prize_stays_stopped_when_a_version_gives_it_another_index(world: &mut World) {
    let definition = |prizes: &str| {
        format!(
            "
            consolation: {{id: points}}
            prizes: [{prizes}{{id: mug, stock: 50}}, {{id: pen, stock: 0}}]
            pools: [{{id: deck, deck: {{size: 100, cards: {{mug: 50}}}}}}]
            "
        )
    };
    let stopped = async || {
        let view = world.store().campaign(&campaign_id(SPRING)).await.unwrap();
        view.paused_prizes.to_vec()
    };
    let first = campaign(&definition("{id: car, stock: 1}, "));
    world.try_apply(first, 0).await.unwrap();
    for id in ["car", "mug"] {
        let prize = world.prize_no(id).await;
        world.operate(Operation::PausePrize { prize }).await;
    }
    assert_eq!(stopped().await, [PrizeNo(0), PrizeNo(1)]);
    world.change(&definition("")).await;
    assert_eq!(stopped().await, [world.prize_no("mug").await]);
    world.at("2026-11-20T00:00:00+08:00").await;
    assert_eq!(world.draw(draw("u").times(100)).await.wins(), 0);
}

async fn a_locked_pool_opens_with_the_draws_of_the_user_within_one_call(world: &mut World) {
    world
        .begin(
            "
            consolation: {id: points}
            prizes: [{id: mug, stock: 1000}]
            pools: [{id: loyal, unlockAfterDraws: 10, deck: {cards: {mug: 1000}}}]
            ",
        )
        .await;
    assert_eq!(world.draw(draw("u").times(4)).await.prizes(), ["-"; 4]);
    let answer = world.draw(draw("u").times(10)).await;
    assert_eq!(answer.prizes()[..6], ["-"; 6]);
    assert_eq!(answer.prizes()[6..], ["mug"; 4], "the eleventh draw on");
    assert_eq!(world.draw(draw("new")).await.prizes(), ["-"]);
}

async fn a_prize_that_does_not_count_as_a_win_is_won_beyond_the_limit_of_wins(world: &mut World) {
    world
        .begin(
            "
            limits: {winsPerUser: 2}
            prizes: [{id: sticker, stock: 1000, countsAsWin: false}]
            pools: [{id: deck, deck: {cards: {sticker: 1000}}}]
            ",
        )
        .await;
    assert_eq!(world.draw(draw("u").times(50)).await.count("sticker"), 50);
    assert_eq!(world.record("u").await.wins, 0);
}

async fn consolations_are_not_wins(world: &mut World) {
    world
        .begin(
            "
            limits: {winsPerUser: 1}
            consolation: {id: points}
            prizes: [{id: mug, stock: 1}]
            pools: [{id: deck, deck: {size: 100, cards: {mug: 1}}}]
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(100)).await;
    assert_eq!([answer.count("mug"), answer.count("-")], [1, 99]);
    assert_eq!(world.record("u").await.wins, 1);
}

async fn a_draw_that_asks_for_the_consolation_only_does_not_touch_the_pools(world: &mut World) {
    world
        .begin(
            "
            limits: {drawsPerDay: 3}
            consolation: {id: points}
            prizes: [{id: mug, stock: 2}]
            pools: [{id: deck, deck: {cards: {mug: 2}}}]
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(2).consolation_only()).await;
    assert_eq!(answer.prizes(), ["-", "-"]);
    world.refused(draw("u").times(2)).await; // it is a draw
    assert_eq!(
        world.draw(draw("v").times(3)).await.prizes(),
        ["mug", "mug", "-"]
    );
}

async fn a_draw_without_a_win_gives_nothing_if_there_is_no_consolation(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: mug, stock: 1}]
            pools: [{id: deck, deck: {cards: {mug: 1}}}]
            ",
        )
        .await;
    assert_eq!(
        world.draw(draw("u").times(3)).await.prizes(),
        ["mug", "", ""]
    );
    assert_eq!(world.stats().await.draws.nothings, 2);
}

async fn pools_are_tried_in_their_order(world: &mut World) {
    let campaign = world
        .begin(
            "
            endTime: 2026-11-20T06:00:00+08:00
            prizes: [{id: first, stock: 60}, {id: second, stock: 60}, {id: third, stock: 100}]
            pools:
              - {id: a, schedule: {perHour: {first: 10}}}
              - {id: b, schedule: {perHour: {second: 10}}}
              - {id: c, deck: {cards: {third: 100}}}
            ",
        )
        .await;
    world.tick().await;
    world.set_time(campaign.start + hours(1)).await;
    let answer = world.draw(draw("u").times(25)).await;
    assert_eq!(answer.prizes()[..10], ["first"; 10]);
    assert_eq!(answer.prizes()[10..20], ["second"; 10]);
    assert_eq!(answer.prizes()[20..], ["third"; 5]);
}

async fn a_prize_is_neither_stopped_nor_resumed_after_the_end(world: &mut World) {
    let campaign = world.begin(TWO_PRIZES).await;
    let prize = world.prize_no("coupon").await;
    world.set_time(campaign.end).await;
    for operation in [
        Operation::PausePrize { prize },
        Operation::ResumePrize { prize },
    ] {
        let refused = world.try_operate(operation).await.unwrap_err();
        assert_eq!(refused, Refusal::Ended(campaign.end).into());
    }
}
