//! Any number of injectors may run at once, and any may die at any moment: each window gets what was planned, once.

use std::sync::Arc;

use tombola::{
    model::{Campaign, Moment, PoolNo},
    store::{fill::PoolFilling, view::WindowState},
};

use crate::support::{Answer, World, all_of, draw, hours, minutes};

promises![
    eight_injectors_at_once_give_each_window_what_was_planned,
    eight_injectors_and_draws_at_once_deal_each_round_of_a_deck_once,
    an_injector_that_dies_between_chunks_is_finished_by_another,
    an_injector_that_dies_between_chunks_is_finished_by_a_draw_after_a_reopen,
    a_plan_enlarged_between_chunks_is_followed_exactly,
    a_plan_cut_between_chunks_is_followed_exactly,
    eight_injectors_return_what_the_end_leaves_once,
];

/// Twelve hours with so many coupons each.
fn twelve_hours(per_hour: u32) -> String {
    format!(
        "
        endTime: 2026-11-20T12:00:00+08:00
        prizes: [{{id: coupon, stock: 1000000}}]
        pools: [{{id: hours, schedule: {{perHour: {{coupon: {per_hour}}}}}}}]
        "
    )
}

async fn eight_injectors_at_once_give_each_window_what_was_planned(world: &mut World) {
    let campaign = world.begin(&twelve_hours(2500)).await;
    for hour in 1..=12 {
        eight_injectors(world, &campaign).await;
        world
            .set_time(campaign.start + hours(hour) - minutes(3))
            .await;
    }
    eight_injectors(world, &campaign).await;
    let windows = world.windows().await;
    assert_eq!(windows.len(), 12);
    for window in windows {
        let units = window.prizes[0].1;
        assert_eq!(window.state, WindowState::Injected, "{window:?}");
        assert_eq!((units.planned, units.injected), (2500, 2500), "{window:?}");
    }
    let coupon = world.prize("coupon").await;
    assert_eq!(coupon.waiting + coupon.won, 30_000);
}

async fn eight_injectors_and_draws_at_once_deal_each_round_of_a_deck_once(world: &mut World) {
    let campaign = world
        .begin(
            "
            prizes: [{id: coupon, stock: 100000}]
            pools: [{id: deck, deck: {size: 100, cards: {coupon: 10}, onExhausted: RESHUFFLE}}]
            ",
        )
        .await;
    for _ in 0..20 {
        eight_injectors(world, &campaign).await;
    }
    let made = world.stats().await.draws;
    let rest = 100 - (made.wins + made.nothings) % 100;
    for _ in 0..rest {
        world.draw(draw("last")).await;
    }
    let made = world.stats().await.draws;
    assert_eq!(made.wins * 10, made.wins + made.nothings);
}

/// Eight injectors tick, settle and draw, all at once.
async fn eight_injectors(world: &World, campaign: &Arc<Campaign>) {
    all_of(8, |i| {
        let (world, campaign) = (world.clone(), campaign.clone());
        async move {
            let injector = world.another_injector();
            if i % 2 == 0 {
                injector.tick().await.unwrap();
            }
            for _ in 0..5 {
                world.draw(draw(&format!("u{i}"))).await;
            }
            injector.settle(&campaign.id).await.unwrap();
        }
    })
    .await;
}

async fn an_injector_that_dies_between_chunks_is_finished_by_another(world: &mut World) {
    let campaign = world.begin(&twelve_hours(20_000)).await;
    inject_half(world, &campaign).await;
    world.another_injector().settle(&campaign.id).await.unwrap();
    assert_eq!(injected(world, campaign.start).await, 20_000);
    assert_eq!(in_pool(world, &campaign).await, 20_000);
}

async fn an_injector_that_dies_between_chunks_is_finished_by_a_draw_after_a_reopen(
    world: &mut World,
) {
    let campaign = world.begin(&twelve_hours(20_000)).await;
    inject_half(world, &campaign).await;
    world.reopen().await;
    let last = campaign.start + hours(1) - std::time::Duration::from_micros(1);
    world.set_time(last).await;
    assert_eq!(world.drained().await, 20_000);
}

async fn a_plan_enlarged_between_chunks_is_followed_exactly(world: &mut World) {
    let campaign = world.begin(&twelve_hours(20_000)).await;
    inject_half(world, &campaign).await;
    world.change(&twelve_hours(25_000)).await;
    world.another_injector().settle(&campaign.id).await.unwrap();
    assert_eq!(injected(world, campaign.start).await, 25_000);
    assert_eq!(in_pool(world, &campaign).await, 25_000);
}

async fn a_plan_cut_between_chunks_is_followed_exactly(world: &mut World) {
    let campaign = world.begin(&twelve_hours(20_000)).await;
    inject_half(world, &campaign).await;
    world.change(&twelve_hours(5_000)).await;
    world.another_injector().settle(&campaign.id).await.unwrap();
    assert_eq!(injected(world, campaign.start).await, 5_000);
    assert_eq!(in_pool(world, &campaign).await, 5_000);
}

async fn eight_injectors_return_what_the_end_leaves_once(world: &mut World) {
    let campaign = world.begin(&twelve_hours(5000)).await;
    world.tick().await;
    let won = world.drained().await as u64;
    world.set_time(campaign.end).await;
    all_of(8, |_| {
        let world = world.clone();
        async move { world.another_injector().tick().await.unwrap() }
    })
    .await;
    let coupon = world.prize("coupon").await;
    assert_eq!((coupon.waiting, coupon.left), (0, 1_000_000 - won));
}

/// An injector dies when it has put some of the first window's units in, and not all.
async fn inject_half(world: &World, campaign: &Campaign) {
    let (injector, id) = (world.another_injector(), campaign.id.clone());
    let doomed = tokio::spawn(async move { injector.settle(&id).await });
    while filled(world, campaign).await == 0 {
        tokio::task::yield_now().await;
    }
    doomed.abort();
    let died = doomed.await.is_err_and(|error| error.is_cancelled());
    assert!(died, "it was done before it died: take more chunks");
    let filled = filled(world, campaign).await;
    assert!((1..20_000).contains(&filled), "{filled}");
}

/// Units of open fills that are in the pool.
async fn filled(world: &World, campaign: &Campaign) -> u64 {
    let filling = world.store().filling(&campaign.id).await.unwrap();
    match &filling.pools[0] {
        PoolFilling::Schedule(schedule) => schedule.open.iter().map(|fill| fill.filled).sum(),
        PoolFilling::Deck(_) => panic!("a schedule"),
    }
}

/// What a window has of stock.
async fn injected(world: &World, start: Moment) -> u64 {
    let windows = world.windows().await;
    let window = windows.iter().find(|w| w.start == start).unwrap();
    assert_eq!(window.state, WindowState::Injected);
    let units = window.prizes[0].1;
    units.injected - units.recalled
}

/// What draws find in the pool by the end of the first hour.
async fn in_pool(world: &World, campaign: &Campaign) -> usize {
    assert_eq!(campaign.pool_no("hours"), Some(PoolNo(0)));
    let last = campaign.start + hours(1) - std::time::Duration::from_micros(1);
    world.set_time(last).await;
    let answers = world.drain().await;
    let first_hour = |release: &Moment| *release < campaign.start + hours(1);
    let releases = answers.iter().flat_map(Answer::releases);
    releases.filter(first_hour).count()
}
