//! No quota is doubled at midnight, whatever the length of the day, and whatever the clock does
//! (P5).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tombola::model::Moment;

use crate::support::{DrawWords as _, World, all_of, at, draw, hours, seconds};

promises![
    a_storm_over_midnight_gets_each_day_its_quota,
    a_storm_over_midnight_gets_each_day_its_paid_quota,
    a_day_of_23_hours_has_one_quota,
    a_day_of_25_hours_has_one_quota,
    days_are_those_of_the_campaign_s_zone,
    a_clock_that_steps_back_gives_nothing_twice,
    a_clock_that_steps_back_gives_nothing_twice_after_a_reopen,
    no_draw_is_made_before_what_a_reader_has_seen,
];

async fn a_storm_over_midnight_gets_each_day_its_quota(world: &mut World) {
    begin(world, "Asia/Shanghai", "2026-11-20T00:00:00+08:00").await;
    let day = (
        at("2026-11-21T00:00:00+08:00"),
        at("2026-11-22T00:00:00+08:00"),
    );
    storm_over(world, day, false).await;
}

async fn a_storm_over_midnight_gets_each_day_its_paid_quota(world: &mut World) {
    begin(world, "Asia/Shanghai", "2026-11-20T00:00:00+08:00").await;
    let day = (
        at("2026-11-21T00:00:00+08:00"),
        at("2026-11-22T00:00:00+08:00"),
    );
    storm_over(world, day, true).await;
}

async fn a_day_of_23_hours_has_one_quota(world: &mut World) {
    begin(world, "America/New_York", "2026-03-01T00:00:00-05:00").await;
    let (start, end) = (
        at("2026-03-08T00:00:00-05:00"),
        at("2026-03-09T00:00:00-04:00"),
    );
    assert_eq!(end.since(start), hours(23));
    one_quota(world, start, end).await;
}

async fn a_day_of_25_hours_has_one_quota(world: &mut World) {
    begin(world, "America/New_York", "2026-10-25T00:00:00-04:00").await;
    let (start, end) = (
        at("2026-11-01T00:00:00-04:00"),
        at("2026-11-02T00:00:00-05:00"),
    );
    assert_eq!(end.since(start), hours(25));
    one_quota(world, start, end).await;
}

async fn days_are_those_of_the_campaign_s_zone(world: &mut World) {
    begin(world, "Asia/Shanghai", "2026-11-20T00:00:00+08:00").await;
    world.at("2026-11-21T07:59:59+08:00").await;
    world.draw(draw("u").times(5)).await;
    world.at("2026-11-21T08:00:00+08:00").await; // a new day in UTC only
    world.refused(draw("u")).await;
    world.at("2026-11-22T00:00:00+08:00").await; // the same day in UTC
    world.draw(draw("u").times(5)).await;
}

async fn a_clock_that_steps_back_gives_nothing_twice(world: &mut World) {
    step_back(world, false).await;
}

async fn a_clock_that_steps_back_gives_nothing_twice_after_a_reopen(world: &mut World) {
    step_back(world, true).await;
}

async fn no_draw_is_made_before_what_a_reader_has_seen(world: &mut World) {
    begin(world, "Asia/Shanghai", "2026-11-20T00:00:00+08:00").await;
    world.draw(draw("u")).await;
    world.at("2026-11-23T00:00:01+08:00").await;
    let seen = world.store().now().await.unwrap();
    world.at("2026-11-22T23:59:00+08:00").await;
    assert!(world.draw(draw("u")).await.at >= seen);
    assert!(world.store().now().await.unwrap() >= seen);
}

async fn step_back(world: &mut World, reopens: bool) {
    begin(world, "Asia/Shanghai", "2026-11-20T00:00:00+08:00").await;
    world.at("2026-11-22T23:00:00+08:00").await;
    world.draw(draw("u").times(3)).await;
    world.at("2026-11-23T00:00:01+08:00").await;
    world.draw(draw("u").times(5)).await;
    let before = world.store().now().await.unwrap();
    world.at("2026-11-22T23:00:00+08:00").await;
    if reopens {
        world.reopen().await;
    }
    assert!(world.store().now().await.unwrap() >= before);
    world.refused(draw("u")).await;
    world.at("2026-11-23T00:00:01+08:00").await;
    world.refused(draw("u")).await;
    world.at("2026-11-24T00:00:00+08:00").await;
    world.draw(draw("u").times(5)).await;
    world.refused(draw("u")).await;
}

async fn begin(world: &World, zone: &str, start: &str) {
    world
        .begin(&format!(
            "
            timeZone: {zone}
            startTime: {start}
            limits: {{drawsPerDay: 5, paidDrawsPerDay: 5}}
            prizes: [{{id: coupon, stock: 1000}}]
            pools: [{{id: deck, deck: {{cards: {{coupon: 1000}}}}}}]
            "
        ))
        .await;
}

/// Checks that a day from `start` to `end` gives five draws in all: at its start, around every
/// hour, and at its end.
async fn one_quota(world: &World, start: Moment, end: Moment) {
    storm_over(world, (start - hours(24), start), false).await;
    let mut now = start + hours(1);
    while now < end {
        world.set_time(now).await;
        world.refused(draw("eager")).await;
        now = now + hours(1);
    }
    let quotas = world.draw(draw("late")).await.quotas();
    assert_eq!(quotas.draws_today.reset, Some(end));
    storm_over(world, (start, end), false).await;
}

/// Eight callers draw without pause while the clock passes the day's end. Five draws must be made
/// on either side.
async fn storm_over(world: &World, (day_start, midnight): (Moment, Moment), is_paid: bool) {
    let began = midnight - seconds(2);
    world.set_time(began).await;
    let calls = Arc::new(AtomicU64::new(0));
    all_of(8, |_| {
        let (world, calls) = (world.clone(), calls.clone());
        async move {
            for _ in 0..50 {
                let free = draw("eager");
                let command = if is_paid { free.paid("order") } else { free };
                let _ = world.try_draw(command).await; // refused or not: counted below
                let call = calls.fetch_add(1, Ordering::SeqCst);
                world.set_time(began + seconds(call) / 100).await; // goes back a little at times
            }
        }
    })
    .await;
    let made = world.draw_times("eager").await;
    let between = |from: Moment, to: Moment| {
        let is_between = |at: &&Moment| from <= **at && **at < to;
        made.iter().filter(is_between).count()
    };
    assert_eq!(between(day_start, midnight), 5, "before midnight");
    assert_eq!(between(midnight, Moment::FAR_FUTURE), 5, "from midnight on");
}
