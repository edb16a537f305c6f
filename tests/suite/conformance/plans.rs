//! A new plan: injected windows are changed by the difference, later windows follow the new plan.

use tombola::store::view::WindowUnits;

use crate::support::{Answer as _, DrawWords as _, World, at, draw, hours};

promises![
    an_injected_window_is_topped_up_to_a_larger_plan,
    an_injected_window_gives_back_what_a_smaller_plan_leaves_out,
    a_running_window_keeps_what_is_released_and_follows_the_plan_with_the_rest,
    coming_windows_follow_the_new_plan,
    a_prize_that_a_new_plan_adds_comes_in_injected_windows_too,
    a_plan_changed_there_and_back_leaves_what_was_planned,
    a_total_that_is_raised_gives_the_new_total,
    a_total_that_is_lowered_is_not_exceeded_by_what_missed_hours_left,
    stock_added_while_units_wait_is_stock_left,
];

fn planned(per_hour: &str) -> String {
    format!(
        "
        endTime: 2026-11-20T06:00:00+08:00
        prizes: [{{id: coupon, stock: 1000}}, {{id: mug, stock: 100}}]
        pools: [{{id: hours, schedule: {{perHour: {{{per_hour}}}}}}}]
        "
    )
}

/// At 00:55, five minutes to one: the first hour runs, and the second one is injected.
async fn five_to_one(world: &World, per_hour: &str) {
    world.begin(&planned(per_hour)).await;
    world.tick().await;
    world.at("2026-11-20T00:55:00+08:00").await;
    world.tick().await;
}

/// The units of a prize in the window that begins at this hour.
async fn window(world: &World, hour: u64, prize: &str) -> WindowUnits {
    let start = at("2026-11-20T00:00:00+08:00") + hours(hour);
    let no = world.prize_no(prize).await;
    let windows = world.windows().await;
    let window = windows.iter().find(|window| window.start == start).unwrap();
    let units = window.prizes.iter().find(|(prize, _)| *prize == no);
    units.map(|(_, units)| *units).unwrap_or_default()
}

/// The number of wins of a prize in the hour from this one on, drawn at the hour's end.
async fn won_in_hour(world: &World, hour: u64, prize: &str) -> usize {
    let start = at("2026-11-20T00:00:00+08:00") + hours(hour);
    world.set_time(start).await;
    world.drain().await;
    world
        .set_time(start + hours(1) - std::time::Duration::from_micros(1))
        .await;
    let answers = world.drain().await;
    assert!(answers[0].releases().iter().all(|at| start <= *at));
    answers.iter().map(|answer| answer.count(prize)).sum()
}

async fn an_injected_window_is_topped_up_to_a_larger_plan(world: &mut World) {
    five_to_one(world, "coupon: 10").await;
    world.change(&planned("coupon: 25")).await;
    world.tick().await;
    let units = window(world, 1, "coupon").await;
    assert_eq!((units.planned, units.injected, units.recalled), (25, 25, 0));
    assert_eq!(won_in_hour(world, 1, "coupon").await, 25);
}

async fn an_injected_window_gives_back_what_a_smaller_plan_leaves_out(world: &mut World) {
    five_to_one(world, "coupon: 10").await;
    let before = world.prize("coupon").await;
    world.change(&planned("coupon: 4")).await;
    world.tick().await;
    let units = window(world, 1, "coupon").await;
    assert_eq!((units.planned, units.recalled), (4, 6));
    let after = world.prize("coupon").await;
    assert!(after.left >= before.left + 6, "{after:?}");
    assert_eq!(won_in_hour(world, 1, "coupon").await, 4);
}

async fn a_running_window_keeps_what_is_released_and_follows_the_plan_with_the_rest(
    world: &mut World,
) {
    world.begin(&planned("coupon: 100")).await;
    world.tick().await;
    world.at("2026-11-20T00:30:00+08:00").await;
    let early = world.drained().await;
    assert!((10..90).contains(&early), "half of a hundred, roughly");
    world.change(&planned("coupon: 5")).await;
    world.at("2026-11-20T00:59:59.999999+08:00").await;
    assert_eq!(world.drained().await, 0, "more than five are out already");
    world.change(&planned("coupon: 120")).await;
    assert_eq!(early + world.drained().await, 120);
}

async fn coming_windows_follow_the_new_plan(world: &mut World) {
    five_to_one(world, "coupon: 10").await;
    world.change(&planned("coupon: 3")).await;
    for hour in 2..4 {
        assert_eq!(won_in_hour(world, hour, "coupon").await, 3);
        assert_eq!(window(world, hour, "coupon").await.planned, 3);
    }
    world.change(&planned("coupon: 30")).await;
    assert_eq!(won_in_hour(world, 4, "coupon").await, 30);
}

async fn a_prize_that_a_new_plan_adds_comes_in_injected_windows_too(world: &mut World) {
    five_to_one(world, "coupon: 10").await;
    world.change(&planned("coupon: 10, mug: 2")).await;
    assert_eq!(window(world, 1, "coupon").await.injected, 10);
    assert_eq!(won_in_hour(world, 1, "mug").await, 2);
    assert_eq!(won_in_hour(world, 2, "mug").await, 2);
}

async fn a_plan_changed_there_and_back_leaves_what_was_planned(world: &mut World) {
    five_to_one(world, "coupon: 10").await;
    for per_hour in [40, 2, 17, 0, 10] {
        world.change(&planned(&format!("coupon: {per_hour}"))).await;
    }
    let units = window(world, 1, "coupon").await;
    assert_eq!(units.injected - units.recalled, 10, "{units:?}");
    assert_eq!(won_in_hour(world, 1, "coupon").await, 10);
}

async fn a_total_that_is_raised_gives_the_new_total(world: &mut World) {
    let total = |units: u32| {
        format!(
            "
            endTime: 2026-11-21T00:00:00+08:00
            prizes: [{{id: coupon, stock: 1000}}]
            pools: [{{id: hours, schedule: {{total: {{coupon: {units}}}}}}}]
            "
        )
    };
    let campaign = world.begin(&total(100)).await;
    let mut won = 0;
    for hour in 1..=24 {
        world.tick().await;
        won += world.draw(draw("u").times(100)).await.wins();
        if hour == 7 {
            world.change(&total(250)).await;
        }
        let last = campaign.start + hours(hour) - std::time::Duration::from_micros(1);
        world.set_time(last).await;
        won += world.drained().await;
    }
    assert_eq!(won, 250);
}

async fn a_total_that_is_lowered_is_not_exceeded_by_what_missed_hours_left(world: &mut World) {
    let total = |coupons: u32| {
        format!(
            "
            endTime: 2026-11-20T08:00:00+08:00
            prizes: [{{id: coupon, stock: 1000}}]
            pools: [{{id: hours, schedule: {{total: {{coupon: {coupons}}}}}}}]
            "
        )
    };
    let injected = async || -> u64 {
        let windows = world.windows().await;
        let units = windows.iter().flat_map(|window| &window.prizes);
        units.map(|(_, units)| units.injected).sum()
    };
    let campaign = world.begin(&total(400)).await;
    world.set_time(campaign.start + hours(4)).await;
    world.tick().await;
    let before = injected().await;
    assert!((50..200).contains(&before), "{before}");
    world.change(&total(10)).await;
    for hour in 5..8 {
        world.set_time(campaign.start + hours(hour)).await;
        world.tick().await;
    }
    assert_eq!(injected().await, before);
}

async fn stock_added_while_units_wait_is_stock_left(world: &mut World) {
    five_to_one(world, "coupon: 10").await;
    let before = world.prize("coupon").await;
    world
        .change(&planned("coupon: 10").replace("stock: 1000", "stock: 1500"))
        .await;
    let after = world.prize("coupon").await;
    assert_eq!(after.stock, before.stock + 500);
    assert_eq!(after.left, before.left + 500);
    assert_eq!(after.waiting, before.waiting);
}
