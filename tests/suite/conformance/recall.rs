//! Recalls: the sums hold whatever else happens (P2), and a recalled window stays empty until there
//! is a new plan.

use tombola::{
    chance::Nonce,
    model::{Moment, PoolNo, PrizeNo},
    store::{ApplyCommand, Operation, Refusal, StoreError, view::WindowState},
};

use crate::support::{
    Answer as _, DrawWords as _, Storm, World, at, author, campaign, draw, minutes,
};

promises![
    a_recalled_window_gives_its_unreleased_units_back,
    what_is_released_already_is_not_recalled,
    a_recall_of_one_prize_leaves_the_others,
    a_recall_of_a_prize_that_the_pool_does_not_plan_is_refused,
    withdrawn_units_leave_the_campaign,
    a_recalled_window_is_not_filled_again_until_a_new_plan_says_so,
    a_plan_from_before_a_recall_does_not_fill_its_window_again,
    a_plan_from_before_a_recall_of_one_prize_fills_the_others,
    a_prize_that_a_plan_brings_to_an_hour_can_be_recalled_before,
    a_recall_of_every_window_leaves_coming_ones,
    recalls_during_many_draws_keep_the_sum,
    a_recall_sent_again_recalls_once,
    restock_recall_return_and_close_keep_the_sum,
];

fn two_prizes(per_hour: u32) -> String {
    format!(
        "
        endTime: 2026-11-20T06:00:00+08:00
        consolation: {{id: points}}
        prizes: [{{id: coupon, stock: 50000}}, {{id: mug, stock: 50000}}]
        pools: [{{id: hours, schedule: {{perHour: {{coupon: {per_hour}, mug: {per_hour}}}}}}}]
        "
    )
}

fn one_o_clock() -> Moment {
    at("2026-11-20T01:00:00+08:00")
}

fn recall(window: Option<Moment>, prize: Option<PrizeNo>, withdraw: bool) -> Operation {
    Operation::Recall {
        pool: PoolNo(0),
        window,
        prize,
        withdraw,
    }
}

/// At 00:55, five minutes to one: nobody drew, the first hour runs, and the second one is injected.
async fn five_to_one(world: &World, per_hour: u32) {
    world.begin(&two_prizes(per_hour)).await;
    world.tick().await;
    world.at("2026-11-20T00:55:00+08:00").await;
    world.tick().await;
}

/// The coupons and mugs that are won of those released in the second hour.
async fn won_in_second_hour(world: &World) -> [usize; 2] {
    world.set_time(one_o_clock()).await;
    world.drain().await;
    world.at("2026-11-20T01:30:00+08:00").await;
    world.tick().await;
    world.at("2026-11-20T01:59:59.999999+08:00").await;
    let answers = world.drain().await;
    ["coupon", "mug"].map(|id| answers.iter().map(|answer| answer.count(id)).sum())
}

async fn a_recalled_window_gives_its_unreleased_units_back(world: &mut World) {
    five_to_one(world, 10).await;
    let before = world.prize("coupon").await;
    world
        .operate(recall(Some(one_o_clock()), None, false))
        .await;
    let after = world.prize("coupon").await;
    assert_eq!(after.left, before.left + 10);
    assert_eq!(after.returned, 10);
    let window = &world.windows().await[1];
    assert_eq!(window.state, WindowState::Recalled);
    assert!(window.prizes.iter().all(|(_, units)| units.recalled == 10));
    assert_eq!(won_in_second_hour(world).await, [0, 0]);
}

async fn what_is_released_already_is_not_recalled(world: &mut World) {
    five_to_one(world, 500).await;
    world.set_time(one_o_clock() + minutes(30)).await;
    world
        .operate(recall(Some(one_o_clock()), None, false))
        .await;
    let units = world.windows().await[1].prizes[0].1;
    assert!((100..400).contains(&units.recalled), "{units:?}");
    let answers = world.drain().await;
    let second: usize = answers
        .iter()
        .flat_map(|answer| answer.releases())
        .filter(|release| *release >= one_o_clock())
        .count();
    let kept: u64 = world.windows().await[1]
        .prizes
        .iter()
        .map(|(_, units)| 500 - units.recalled)
        .sum();
    assert_eq!(second as u64, kept);
}

async fn a_recall_of_one_prize_leaves_the_others(world: &mut World) {
    five_to_one(world, 10).await;
    let mug = world.prize_no("mug").await;
    world
        .operate(recall(Some(one_o_clock()), Some(mug), false))
        .await;
    assert_eq!(won_in_second_hour(world).await, [10, 0]);
}

async fn a_recall_of_a_prize_that_the_pool_does_not_plan_is_refused(world: &mut World) {
    let both = two_prizes(10);
    world
        .begin(&both.replace("stock: 50000}]", "stock: 50000}, {id: hat, stock: 5}]"))
        .await;
    world.tick().await;
    let hat = world.prize_no("hat").await;
    let refused = world.try_operate(recall(None, Some(hat), false)).await;
    let Err(StoreError::Refused(Refusal::ChangeRefused(problems))) = refused else {
        panic!("not refused: {refused:?}");
    };
    let text = problems.to_string();
    assert!(
        text.contains("prize_id") && text.contains("`hours`"),
        "{text}"
    );
    let mug = world.prize_no("mug").await;
    world.operate(recall(None, Some(mug), false)).await;
}

async fn withdrawn_units_leave_the_campaign(world: &mut World) {
    five_to_one(world, 10).await;
    let before = world.prize("coupon").await;
    world.operate(recall(Some(one_o_clock()), None, true)).await;
    let after = world.prize("coupon").await;
    assert_eq!((after.withdrawn, after.left), (10, before.left));
    assert_eq!(after.waiting, before.waiting - 10);
}

async fn a_recalled_window_is_not_filled_again_until_a_new_plan_says_so(world: &mut World) {
    five_to_one(world, 10).await;
    world
        .operate(recall(Some(one_o_clock()), None, false))
        .await;
    for _ in 0..3 {
        world.tick().await;
        world.pass(minutes(1)).await;
    }
    assert_eq!(world.windows().await[1].state, WindowState::Recalled);
    world.change(&two_prizes(12)).await;
    assert_eq!(won_in_second_hour(world).await, [12, 12]);
}

async fn a_plan_from_before_a_recall_does_not_fill_its_window_again(world: &mut World) {
    five_to_one(world, 10).await;
    plan_twelve(world).await;
    world
        .operate(recall(Some(one_o_clock()), None, false))
        .await;
    world.tick().await;
    assert_eq!(won_in_second_hour(world).await, [0, 0]);
}

async fn a_plan_from_before_a_recall_of_one_prize_fills_the_others(world: &mut World) {
    five_to_one(world, 10).await;
    recall_mugs_before_a_plan_is_followed(world).await;
}

async fn a_prize_that_a_plan_brings_to_an_hour_can_be_recalled_before(world: &mut World) {
    world.begin(&two_prizes(10).replace(", mug: 10", "")).await;
    world.tick().await;
    world.at("2026-11-20T00:55:00+08:00").await;
    world.tick().await;
    recall_mugs_before_a_plan_is_followed(world).await;
}

/// A new plan has twelve of each in an hour. The injector that should follow it has not done so
/// yet.
async fn plan_twelve(world: &World) {
    let command = ApplyCommand {
        campaign: campaign(&two_prizes(12)),
        base_version: 1,
        nonce: Nonce([0; 32]),
        commitment: String::new(),
        author: author("a-new-plan"),
    };
    world.store().apply(command).await.unwrap();
}

async fn recall_mugs_before_a_plan_is_followed(world: &World) {
    plan_twelve(world).await;
    let mug = world.prize_no("mug").await;
    world
        .operate(recall(Some(one_o_clock()), Some(mug), true))
        .await;
    world.tick().await;
    assert_eq!(won_in_second_hour(world).await, [12, 0]);
}

async fn a_recall_of_every_window_leaves_coming_ones(world: &mut World) {
    five_to_one(world, 10).await;
    world.operate(recall(None, None, false)).await;
    let windows = world.windows().await;
    assert!(windows.iter().all(|w| w.state == WindowState::Recalled));
    assert_eq!(won_in_second_hour(world).await, [0, 0]);
    world.at("2026-11-20T02:00:00+08:00").await;
    world.tick().await;
    world.at("2026-11-20T02:59:59.999999+08:00").await;
    assert_eq!(world.drained().await, 20);
}

async fn recalls_during_many_draws_keep_the_sum(world: &mut World) {
    five_to_one(world, 3000).await;
    world.set_time(one_o_clock() + minutes(20)).await;
    let storm = Storm::of(world, |world, i, _| async move {
        world.draw(draw(&format!("u{i}")).times(5)).await;
    });
    let mug = world.prize_no("mug").await;
    storm.goes_on(world, 20).await;
    world
        .operate(recall(Some(one_o_clock()), Some(mug), false))
        .await;
    assert!(world.stats().await.balanced());
    storm.goes_on(world, 20).await;
    world.set_time(one_o_clock() + minutes(30)).await;
    world.operate(recall(Some(one_o_clock()), None, true)).await;
    assert!(world.stats().await.balanced());
    storm.goes_on(world, 20).await;
    world.change(&two_prizes(2000)).await;
    storm.goes_on(world, 20).await;
    storm.ends().await;
}

async fn a_recall_sent_again_recalls_once(world: &mut World) {
    five_to_one(world, 10).await;
    let recall = recall(Some(one_o_clock()), None, false);
    world.operate_as("recall-1", recall.clone()).await.unwrap();
    world.change(&two_prizes(12)).await;
    let before = world.prize("coupon").await;
    assert!(world.operate_as("recall-1", recall).await.unwrap().replayed);
    assert_eq!(world.prize("coupon").await, before);
    assert_eq!(won_in_second_hour(world).await, [12, 12]);
}

async fn restock_recall_return_and_close_keep_the_sum(world: &mut World) {
    let stocked = |stock: u32| {
        two_prizes(10)
            .replace("50000", &stock.to_string())
            .replace("mug: 10}", "mug: 10}, unclaimed: RETURN, returnAfter: 600s")
    };
    world.begin(&stocked(100)).await;
    world.tick().await;
    world.at("2026-11-20T00:55:00+08:00").await;
    world.tick().await;
    world.draw(draw("u").times(5)).await;
    world.change(&stocked(200)).await;
    world.operate(recall(None, None, false)).await;
    world.change(&stocked(300)).await;
    world.at("2026-11-20T02:30:00+08:00").await;
    world.tick().await;
    world.draw(draw("u").times(5)).await;
    world.operate(recall(None, None, true)).await;
    world.change(&stocked(400)).await;
    world.operate(Operation::Close).await;
    world.tick().await;
    let coupon = world.prize("coupon").await;
    assert_eq!((coupon.stock, coupon.waiting), (400, 0));
    assert_eq!(coupon.left + coupon.won + coupon.withdrawn, 400);
}
