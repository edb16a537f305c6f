//! Schedules: the seed decides when units come, none early and none late, whoever fills the pools,
//! and whenever (P7).

use tombola::{
    chance::{Fill, scatter},
    model::{Moment, PoolNo},
    store::{Lifecycle, Refusal, entry::Body, view::WindowState},
};

use crate::support::{
    Answer as _, DrawWords as _, World, at, audit, draw, hours, minutes, seconds,
};

promises![
    units_leave_in_the_order_of_their_release_none_early_and_none_late,
    every_release_time_can_be_recomputed_from_seed_and_ledger,
    a_late_injector_does_not_make_a_draw_lose,
    a_running_hour_is_filled_into_what_is_left_of_it,
    a_window_is_injected_its_lead_before_it_begins,
    missed_hours_are_spread_over_as_many_of_the_next,
    missed_hours_are_skipped_if_the_plan_says_so,
    missed_hours_are_released_at_once_if_the_plan_says_so,
    missed_hours_that_are_released_late_are_not_returned_at_once,
    units_nobody_took_wait,
    units_nobody_took_go_back_to_stock_if_the_plan_says_so,
    a_schedule_without_a_due_unit_passes_to_the_next_pool,
    the_end_returns_every_unit_and_closes,
    a_car_of_the_whole_campaign_is_given_exactly_once_hour_by_hour,
    a_car_of_the_whole_campaign_is_there_for_whoever_draws_last,
    hours_of_a_plan_are_local_and_a_later_layer_overrides,
];

/// Six hours with ten coupons each.
fn six_hours(extra: &str) -> String {
    format!(
        "
        endTime: 2026-11-20T06:00:00+08:00
        consolation: {{id: points}}
        prizes: [{{id: coupon, stock: 100}}]
        pools: [{{id: hours, schedule: {{perHour: {{coupon: 10}}{extra}}}}}]
        "
    )
}

async fn units_leave_in_the_order_of_their_release_none_early_and_none_late(world: &mut World) {
    let campaign = world.begin(&six_hours("")).await;
    world.tick().await;
    let mut seen = campaign.start;
    let mut won = 0;
    while seen < campaign.start + hours(2) {
        let now = seen + minutes(1);
        world.set_time(now).await;
        let answer = world.draw(draw("u").times(100)).await;
        let releases = answer.releases();
        assert!(releases.is_sorted());
        for release in &releases {
            assert!(*release <= now, "early");
            assert!(*release > seen || seen == campaign.start, "late");
        }
        won += releases.len();
        seen = now;
    }
    assert_eq!(won, 20);
}

async fn every_release_time_can_be_recomputed_from_seed_and_ledger(world: &mut World) {
    let campaign = world.begin(&six_hours("")).await;
    world.tick().await;
    let view = world.store().campaign(&campaign.id).await.unwrap();
    let seed = world.injector().seed(&view);
    assert_eq!(seed.commitment(), *view.commitment);
    let entries = audit::ledger(&**world.store()).await;
    let injected = entries.iter().find_map(|entry| match &entry.body {
        Body::Injected(injected) if injected.window == campaign.start => Some(injected),
        _ => None,
    });
    let injected = injected.unwrap();
    let releases = scatter(
        &seed,
        &Fill {
            pool: &campaign.pool(PoolNo(0)).id,
            window_start: injected.window,
            generation: injected.generation,
            from: injected.from,
            until: injected.until,
            granted: &injected.granted,
        },
    );
    assert_eq!(releases.len(), 10);
    for release in releases {
        let before = release.at - std::time::Duration::from_micros(1);
        if before > world.time() {
            world.set_time(before).await;
            assert_eq!(world.draw(draw("u")).await.prizes(), ["-"]);
        }
        world.set_time(release.at).await;
        let answer = world.draw(draw("u")).await;
        assert_eq!(answer.releases(), [release.at]);
    }
}

async fn a_late_injector_does_not_make_a_draw_lose(world: &mut World) {
    let campaign = world.begin(&six_hours("")).await;
    let mut won = 0;
    for hour in 1..=6 {
        // The draw causes the fill: no injector ever ticks.
        won += world.draw(draw("early")).await.wins();
        let last = campaign.start + hours(hour) - std::time::Duration::from_micros(1);
        world.set_time(last).await;
        won += world.drained().await;
        world.set_time(campaign.start + hours(hour)).await;
        if hour < 6 {
            won += world.drained().await;
        }
    }
    assert_eq!(won, 60);
}

async fn a_running_hour_is_filled_into_what_is_left_of_it(world: &mut World) {
    world.begin(&six_hours("")).await;
    let half_past = at("2026-11-20T00:30:00+08:00");
    world.set_time(half_past).await;
    let mut releases = world.draw(draw("u")).await.releases();
    world.at("2026-11-20T00:59:59.999999+08:00").await;
    releases.extend(world.drain().await[0].releases());
    assert_eq!(releases.len(), 10);
    assert!(releases.iter().all(|release| *release >= half_past));
}

async fn a_window_is_injected_its_lead_before_it_begins(world: &mut World) {
    let campaign = world.begin(&six_hours("")).await;
    let second = campaign.start + hours(1);
    let has_second = async || {
        world.tick().await;
        world.windows().await.iter().any(|w| w.start == second)
    };
    world.set_time(second - minutes(5) - seconds(1)).await;
    assert!(!has_second().await);
    world.set_time(second - minutes(5)).await;
    assert!(has_second().await);
    let windows = world.windows().await;
    assert!(windows.iter().all(|w| w.prizes[0].1.injected == 10));
    assert!(windows.iter().all(|w| w.end == w.start + hours(1)));
}

/// Two hours pass before the first tick, then everybody draws. Returns the wins at once, and the
/// wins in all.
async fn miss_two_hours(world: &World, missed: &str) -> (usize, usize) {
    world.begin(&six_hours(missed)).await;
    world.at("2026-11-20T02:00:00+08:00").await;
    world.tick().await;
    let at_once = world.drained().await;
    let mut all = at_once;
    for hour in 2..6 {
        world.at(&format!("2026-11-20T0{hour}:55:00+08:00")).await;
        world.tick().await;
        world
            .at(&format!("2026-11-20T0{hour}:59:59.999999+08:00"))
            .await;
        all += world.drained().await;
    }
    (at_once, all)
}

async fn missed_hours_are_spread_over_as_many_of_the_next(world: &mut World) {
    let (at_once, all) = miss_two_hours(world, "").await;
    assert!(at_once < 10);
    assert_eq!(all, 60);
    let windows = world.windows().await;
    assert_eq!(windows[0].state, WindowState::Missed);
    let sum = |i: usize| windows[i].prizes[0].1;
    assert_eq!([2, 3, 4, 5].map(|i| sum(i).carried), [10, 10, 0, 0]);
    assert_eq!([2, 3, 4, 5].map(|i| sum(i).injected), [20, 20, 10, 10]);
    assert_eq!([0, 1].map(|i| sum(i).injected), [0, 0]);
}

async fn missed_hours_are_skipped_if_the_plan_says_so(world: &mut World) {
    let (at_once, all) = miss_two_hours(world, ", missed: SKIP").await;
    assert!(at_once < 10);
    assert_eq!(all, 40);
}

async fn missed_hours_are_released_at_once_if_the_plan_says_so(world: &mut World) {
    let (at_once, all) = miss_two_hours(world, ", missed: RELEASE").await;
    assert!((20..30).contains(&at_once));
    assert_eq!(all, 60);
}

async fn missed_hours_that_are_released_late_are_not_returned_at_once(world: &mut World) {
    let late = ", missed: RELEASE, unclaimed: RETURN, returnAfter: 3600s";
    world.begin(&six_hours(late)).await;
    world.at("2026-11-20T03:00:00+08:00").await;
    world.tick().await;
    world.at("2026-11-20T03:58:00+08:00").await;
    world.tick().await;
    assert_eq!(world.prize("coupon").await.returned, 0);
    let releases = world.drain().await[0].releases();
    let three = at("2026-11-20T03:00:00+08:00");
    assert!(
        releases
            .iter()
            .all(|release| *release >= three - seconds(1))
    );
    assert!(releases.len() >= 30);
}

async fn units_nobody_took_wait(world: &mut World) {
    world.begin(&six_hours("")).await;
    for hour in 0..5 {
        world.at(&format!("2026-11-20T0{hour}:55:00+08:00")).await;
        world.tick().await;
    }
    world.at("2026-11-20T05:00:00+08:00").await;
    assert!(world.drained().await >= 50);
}

async fn units_nobody_took_go_back_to_stock_if_the_plan_says_so(world: &mut World) {
    let returns = ", unclaimed: RETURN, returnAfter: 3600s";
    world.begin(&six_hours(returns)).await;
    for hour in 0..3 {
        world.at(&format!("2026-11-20T0{hour}:55:00+08:00")).await;
        world.tick().await;
    }
    world.at("2026-11-20T03:00:00+08:00").await; // an hour after the last moment of the second hour
    world.tick().await;
    let windows = world.windows().await;
    let returned = |i: usize| windows[i].prizes[0].1.returned;
    assert_eq!([0, 1, 2].map(returned), [10, 10, 0]);
    assert_eq!(world.prize("coupon").await.returned, 20);
    let releases = world.drain().await[0].releases();
    let two = at("2026-11-20T02:00:00+08:00");
    assert!(releases.iter().all(|release| *release >= two));
    assert!(releases.len() >= 10);
}

async fn a_schedule_without_a_due_unit_passes_to_the_next_pool(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: car, stock: 1}, {id: mug, stock: 100}]
            pools:
              - {id: headline, schedule: {total: {car: 1}}}
              - {id: everyday, deck: {cards: {mug: 100}}}
            ",
        )
        .await;
    let prizes = world.draw(draw("u").times(10)).await;
    assert_eq!(prizes.count("mug") + prizes.count("car"), 10);
    world.at("2026-12-19T23:59:59.999999+08:00").await;
    assert_eq!(world.draw(draw("u").times(2)).await.prizes().len(), 2);
    assert_eq!(world.prize("car").await.won, 1);
}

async fn the_end_returns_every_unit_and_closes(world: &mut World) {
    let campaign = world.begin(&six_hours("")).await;
    world.at("2026-11-20T03:30:00+08:00").await;
    world.tick().await;
    let won = world.drained().await as u64;
    world.set_time(campaign.end - minutes(1)).await;
    world.tick().await;
    world.set_time(campaign.end).await;
    let refusal = world.refused(draw("u")).await;
    assert_eq!(refusal, Refusal::Ended(campaign.end));
    world.tick().await;
    let coupon = world.prize("coupon").await;
    assert_eq!((coupon.waiting, coupon.left), (0, 100 - won));
    assert_eq!(world.stats().await.view.lifecycle, Lifecycle::Closed);
    world.refused(draw("u")).await;
}

fn one_car() -> &'static str {
    "
    endTime: 2026-11-23T00:00:00+08:00
    prizes: [{id: car, stock: 1}]
    pools: [{id: headline, schedule: {total: {car: 1}}}]
    "
}

async fn a_car_of_the_whole_campaign_is_given_exactly_once_hour_by_hour(world: &mut World) {
    let campaign = world.begin(one_car()).await;
    let mut cars = 0;
    for hour in 1..=72 {
        world.tick().await;
        let last = campaign.start + hours(hour) - seconds(1);
        world.set_time(last).await;
        cars += world.draw(draw("u").times(5)).await.wins();
    }
    world
        .set_time(campaign.end - std::time::Duration::from_micros(1))
        .await;
    cars += world.draw(draw("u").times(5)).await.wins();
    assert_eq!(cars, 1);
}

async fn a_car_of_the_whole_campaign_is_there_for_whoever_draws_last(world: &mut World) {
    let campaign = world.begin(one_car()).await;
    let last: Moment = campaign.end - std::time::Duration::from_micros(1);
    world.set_time(last).await;
    assert_eq!(world.draw(draw("u")).await.wins(), 1);
    assert_eq!(world.draw(draw("u")).await.wins(), 0);
}

async fn hours_of_a_plan_are_local_and_a_later_layer_overrides(world: &mut World) {
    world
        .begin(
            "
            endTime: 2026-11-20T06:00:00+08:00
            prizes: [{id: coupon, stock: 100}]
            pools:
              - id: hours
                schedule:
                  perHour: {coupon: 1}
                  daily: [{from: \"01:00\", to: \"03:00\", perHour: {coupon: 5}}]
                  special: [{from: 2026-11-20T02:00, to: 2026-11-20T04:00, multiply: 2}]
            ",
        )
        .await;
    for hour in 0..6 {
        world.at(&format!("2026-11-20T0{hour}:30:00+08:00")).await;
        world.tick().await;
    }
    let windows = world.windows().await;
    let injected: Vec<_> = windows.iter().map(|w| w.prizes[0].1.injected).collect();
    assert_eq!(injected, [1, 5, 10, 2, 1, 1]);
}
