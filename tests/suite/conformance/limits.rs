//! Limits hold under any concurrency (P1, P5).

use tombola::{
    model::{
        Moment, PoolNo,
        limits::{LimitKind, LimitReached},
    },
    store::{DrawAnswer, DrawCommand, Operation, Refusal, Result, StoreError},
};

use crate::support::{
    Answer as _, DrawWords as _, World, at, draw, hours, minutes, seconds, users,
};

promises![
    a_unit_of_a_deck_is_won_once_by_a_thousand_parallel_draws,
    a_unit_of_a_schedule_is_won_once_by_a_thousand_parallel_draws,
    a_hundred_parallel_calls_get_five_free_draws,
    a_hundred_parallel_calls_get_five_paid_draws,
    a_hundred_parallel_calls_get_five_draws_in_all,
    a_hundred_parallel_calls_get_five_draws_of_an_hour,
    an_hour_is_one_of_the_campaign_s_zone,
    a_clock_that_goes_back_half_an_hour_gives_one_quota,
    hours_are_the_windows_of_the_schedule_where_clocks_change,
    a_storm_over_a_full_hour_gets_each_hour_its_quota,
    draws_of_an_hour_are_on_top_of_nothing_but_bonus_draws,
    free_and_paid_draws_share_the_limit_of_all_draws,
    draws_are_admitted_all_or_none,
    a_draw_of_more_than_the_wins_left_wins_what_is_left,
    wins_are_limited_under_parallel_draws,
    an_absent_limit_is_unlimited_and_zero_is_none,
    the_response_has_the_limits_after_the_draw,
];

async fn a_unit_of_a_deck_is_won_once_by_a_thousand_parallel_draws(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: coupon, stock: 10}]
            pools: [{id: deck, deck: {size: 1000, cards: {coupon: 10}}}]
            ",
        )
        .await;
    let answers = world.storm(by_a_thousand_users()).await;
    assert_eq!(wins(&answers), 10);
    assert_eq!(world.prize("coupon").await.won, 10);
}

async fn a_unit_of_a_schedule_is_won_once_by_a_thousand_parallel_draws(world: &mut World) {
    world
        .begin(
            "
            endTime: 2026-11-20T02:00:00+08:00
            prizes: [{id: coupon, stock: 10}]
            pools: [{id: hours, schedule: {total: {coupon: 10}}}]
            ",
        )
        .await;
    world.tick().await;
    world.pass(hours(1)).await;
    world.tick().await;
    world.pass(hours(1) - seconds(1)).await;
    let almost_all = wins(&world.storm(by_a_thousand_users()).await);
    world.at("2026-11-20T01:59:59.999999+08:00").await;
    let rest = wins(&world.storm(by_a_thousand_users()).await);
    assert_eq!(almost_all + rest, 10);
}

async fn a_hundred_parallel_calls_get_five_free_draws(world: &mut World) {
    world.begin(&everyone_wins("{drawsPerDay: 5}")).await;
    let calls = (0..100).map(|_| draw("eager")).collect();
    let refused = five_of_a_hundred(&world.storm(calls).await);
    let free = LimitReached {
        limit: LimitKind::DrawsPerDay,
        resets: true,
        asked: 1,
        left: 0,
    };
    assert!(refused.iter().all(|reached| *reached == free));
    assert_eq!(world.record("eager").await.free_today, 5);
}

async fn a_hundred_parallel_calls_get_five_paid_draws(world: &mut World) {
    world.begin(&everyone_wins("{paidDrawsPerDay: 5}")).await;
    let calls = (0..100).map(|i| draw("eager").paid(&format!("order-{i}")));
    let refused = five_of_a_hundred(&world.storm(calls.collect()).await);
    let paid = LimitReached {
        limit: LimitKind::PaidDrawsPerDay,
        resets: true,
        asked: 1,
        left: 0,
    };
    assert!(refused.iter().all(|reached| *reached == paid));
    assert_eq!(world.record("eager").await.paid_today, 5);
}

async fn a_hundred_parallel_calls_get_five_draws_in_all(world: &mut World) {
    world.begin(&everyone_wins("{drawsPerUser: 5}")).await;
    let calls = (0..100).map(|i| match i % 2 {
        0 => draw("eager"),
        _ => draw("eager").paid(&format!("order-{i}")),
    });
    let refused = five_of_a_hundred(&world.storm(calls.collect()).await);
    let all = LimitReached {
        limit: LimitKind::DrawsPerUser,
        resets: false,
        asked: 1,
        left: 0,
    };
    assert!(refused.iter().all(|reached| *reached == all));
    assert_eq!(world.record("eager").await.draws, 5);
}

async fn a_hundred_parallel_calls_get_five_draws_of_an_hour(world: &mut World) {
    world.begin(&everyone_wins("{drawsPerHour: 5}")).await;
    let calls = (0..100).map(|_| draw("eager")).collect();
    let refused = five_of_a_hundred(&world.storm(calls).await);
    let hour = LimitReached {
        limit: LimitKind::DrawsPerHour,
        resets: true,
        asked: 1,
        left: 0,
    };
    assert!(refused.iter().all(|reached| *reached == hour));
    let quota = world.draw(draw("late").times(2)).await.quotas();
    let quota = quota.draws_this_hour.unwrap();
    assert_eq!((quota.used, quota.remaining()), (2, Some(3)));
    assert_eq!(quota.reset, Some(at("2026-11-20T01:00:00+08:00")));
}

async fn an_hour_is_one_of_the_campaign_s_zone(world: &mut World) {
    let zone = "timeZone: Asia/Kolkata\nstartTime: 2026-11-20T00:00:00+05:30\n";
    let deck = everyone_wins("{drawsPerHour: 2, drawsPerDay: 5}");
    world.begin(&format!("{zone}{}", unindented(&deck))).await;
    world.at("2026-11-20T10:30:00+05:30").await; // a full hour in UTC only
    world.draw(draw("u").times(2)).await;
    world.at("2026-11-20T10:59:59.999999+05:30").await;
    match world.refused(draw("u")).await {
        Refusal::Limit {
            reached, retry_at, ..
        } => {
            assert_eq!(reached.limit, LimitKind::DrawsPerHour);
            assert_eq!(retry_at, Some(at("2026-11-20T11:00:00+05:30")));
        }
        other => panic!("{other}"),
    }
    world.at("2026-11-20T11:00:00+05:30").await;
    world.draw(draw("u").times(2)).await;
    world.reopen().await;
    world.at("2026-11-20T12:00:00+05:30").await;
    world.draw(draw("u")).await;
    let refusal = world.refused(draw("u")).await;
    assert_eq!(reached(&refusal).limit, LimitKind::DrawsPerDay);
}

async fn a_clock_that_goes_back_half_an_hour_gives_one_quota(world: &mut World) {
    // On Lord Howe Island the clocks go back from 02:00 to 01:30: that hour has 90 minutes.
    let zone = "timeZone: Australia/Lord_Howe\nstartTime: 2026-04-01T00:00:00+11:00\n";
    let deck = everyone_wins("{drawsPerHour: 2}");
    world.begin(&format!("{zone}{}", unindented(&deck))).await;
    world.at("2026-04-05T01:00:00+11:00").await;
    world.draw(draw("u").times(2)).await;
    for time in ["2026-04-05T01:45:00+11:00", "2026-04-05T01:45:00+10:30"] {
        world.at(time).await;
        world.refused(draw("u")).await;
    }
    world.at("2026-04-05T02:00:00+10:30").await;
    world.draw(draw("u").times(2)).await;
}

async fn hours_are_the_windows_of_the_schedule_where_clocks_change(world: &mut World) {
    // The minutes of each local hour: one is skipped, one longer, one shorter, one is there twice.
    let [york, howe] = ["America/New_York", "Australia/Lord_Howe"];
    for (id, zone, start, lengths) in [
        ("skipped", york, "2026-03-08T00:00:00-05:00", &[60; 4][..]),
        (
            "longer",
            howe,
            "2026-04-05T00:00:00+11:00",
            &[60, 90, 60, 60],
        ),
        (
            "shorter",
            howe,
            "2026-10-04T00:00:00+10:30",
            &[60, 60, 30, 60],
        ),
        ("twice", york, "2026-11-01T00:00:00-04:00", &[60; 5]),
    ] {
        let end = at(start) + minutes(lengths.iter().sum());
        let campaign = format!(
            "
            id: {id}
            timeZone: {zone}
            startTime: {start}
            endTime: {end}
            limits: {{drawsPerHour: 2}}
            prizes: [{{id: coupon, stock: 1000}}]
            pools: [{{id: hours, schedule: {{perHour: {{coupon: 1}}}}}}]
            "
        );
        let campaign = world.begin(&campaign).await;
        let (mut from, mut hours) = (campaign.start, Vec::new());
        for length in lengths {
            let until = from + minutes(*length);
            world.set_time(from).await;
            world.tick().await;
            world.draw(draw("u").of(id).times(2)).await;
            world
                .set_time(until - std::time::Duration::from_micros(1))
                .await;
            match world.refused(draw("u").of(id)).await {
                Refusal::Limit {
                    reached, retry_at, ..
                } => {
                    assert_eq!(reached.limit, LimitKind::DrawsPerHour);
                    assert_eq!(retry_at, Some(until), "{id}");
                }
                other => panic!("{other}"),
            }
            hours.push((from, until));
            from = until;
        }
        let store = world.store();
        let windows = store.windows(&campaign.id, PoolNo(0), Moment::EPOCH, 10);
        let windows = windows.await.unwrap().into_iter();
        let windows: Vec<_> = windows.map(|it| (it.start, it.end)).collect();
        assert_eq!(windows, hours, "{id}");
    }
}

async fn a_storm_over_a_full_hour_gets_each_hour_its_quota(world: &mut World) {
    let campaign = world.begin(&everyone_wins("{drawsPerHour: 5}")).await;
    for hour in 1..10 {
        let calls = || (0..20).map(|_| draw("eager")).collect();
        world
            .set_time(campaign.start + hours(hour) - seconds(1))
            .await;
        let before = wins(&world.storm(calls()).await);
        assert_eq!(before, if hour == 1 { 5 } else { 0 }, "{hour}");
        world.set_time(campaign.start + hours(hour)).await;
        assert_eq!(wins(&world.storm(calls()).await), 5, "{hour}");
    }
}

async fn draws_of_an_hour_are_on_top_of_nothing_but_bonus_draws(world: &mut World) {
    world.begin(&everyone_wins("{drawsPerHour: 2}")).await;
    world.draw(draw("u").paid("order").times(9)).await;
    let command = draw("u").times(2);
    let first = world.draw(command.clone()).await;
    world
        .operate(Operation::Grant {
            users: users(&["u"]),
            draws: 3,
            expires: Moment::FAR_FUTURE,
        })
        .await;
    let again = world.draw(command).await;
    assert_eq!((again.replayed, again.quotas()), (true, first.quotas()));
    let bonus = world.draw(draw("u").times(3)).await.quotas();
    assert_eq!(bonus.draws_this_hour.unwrap().used, 2);
    world.refused(draw("u")).await;
    world.draw(draw("u").paid("order").times(9)).await;
    world.pass(hours(1)).await;
    let next = world.draw(draw("u")).await.quotas();
    assert_eq!(next.draws_this_hour.unwrap().used, 1);
}

async fn free_and_paid_draws_share_the_limit_of_all_draws(world: &mut World) {
    let limits = "{drawsPerDay: 3, paidDrawsPerDay: 3, drawsPerUser: 4}";
    world.begin(&everyone_wins(limits)).await;
    world.draw(draw("u").times(3)).await;
    world.draw(draw("u").paid("a")).await;
    let refusal = world.refused(draw("u").paid("b")).await;
    assert_eq!(reached(&refusal).limit, LimitKind::DrawsPerUser);
}

async fn draws_are_admitted_all_or_none(world: &mut World) {
    world.begin(&everyone_wins("{drawsPerDay: 5}")).await;
    world.draw(draw("u").times(3)).await;
    let refusal = world.refused(draw("u").times(3)).await;
    let tomorrow = at("2026-11-21T00:00:00+08:00");
    match refusal {
        Refusal::Limit {
            retry_at,
            now,
            reached,
        } => {
            assert_eq!((retry_at, now), (Some(tomorrow), world.time()));
            assert_eq!((reached.asked, reached.left), (3, 2));
        }
        other => panic!("{other}"),
    }
    let refusal = world.refused(draw("u").times(6)).await;
    assert!(!reached(&refusal).resets, "no day has six");
    world.draw(draw("u").times(2)).await;
}

async fn a_draw_of_more_than_the_wins_left_wins_what_is_left(world: &mut World) {
    world.begin(&everyone_wins("{winsPerUser: 3}")).await;
    let answer = world.draw(draw("lucky").times(10)).await;
    let prizes = answer.prizes();
    assert_eq!(prizes[..3], ["coupon"; 3]);
    assert_eq!(prizes[3..], ["-"; 7]);
    let again = world.draw(draw("lucky").times(2)).await;
    assert_eq!(again.prizes(), ["-", "-"]);
    assert_eq!(world.prize("coupon").await.won, 3);
}

async fn wins_are_limited_under_parallel_draws(world: &mut World) {
    world.begin(&everyone_wins("{winsPerUser: 5}")).await;
    let calls = (0..100).map(|i| draw("lucky").times(1 + i % 3)).collect();
    assert_eq!(wins(&world.storm(calls).await), 5);
    assert_eq!(world.record("lucky").await.wins, 5);
}

async fn an_absent_limit_is_unlimited_and_zero_is_none(world: &mut World) {
    world.begin(&everyone_wins("{drawsPerDay: 0}")).await;
    let refusal = world.refused(draw("u")).await;
    assert!(!reached(&refusal).resets);
    world.draw(draw("u").paid("order").times(100)).await;
}

async fn the_response_has_the_limits_after_the_draw(world: &mut World) {
    world
        .begin(&everyone_wins("{drawsPerDay: 5, winsPerUser: 9}"))
        .await;
    let quotas = world.draw(draw("u").times(2)).await.quotas();
    assert_eq!(quotas.draws_today.used, 2);
    assert_eq!(quotas.draws_today.remaining(), Some(3));
    assert_eq!(
        quotas.draws_today.reset,
        Some(at("2026-11-21T00:00:00+08:00"))
    );
    assert_eq!(quotas.paid_draws_today.limit, None);
    assert_eq!(quotas.draws_total.used, 2);
    assert_eq!(quotas.wins_total.remaining(), Some(7));
}

/// Lines without their indentation; each key of the campaign is on one line.
fn unindented(yaml: &str) -> String {
    let lines = yaml.lines().map(|line| format!("{}\n", line.trim_start()));
    lines.collect()
}

/// A campaign in which every draw wins.
fn everyone_wins(limits: &str) -> String {
    format!(
        "
        limits: {limits}
        consolation: {{id: points}}
        prizes: [{{id: coupon, stock: 1000}}]
        pools: [{{id: deck, deck: {{cards: {{coupon: 1000}}}}}}]
        "
    )
}

fn by_a_thousand_users() -> Vec<DrawCommand> {
    (0..1000).map(|i| draw(&format!("u{i}"))).collect()
}

fn wins(answers: &[Result<DrawAnswer>]) -> usize {
    answers.iter().flatten().map(|answer| answer.wins()).sum()
}

fn five_of_a_hundred(answers: &[Result<DrawAnswer>]) -> Vec<LimitReached> {
    let refused: Vec<_> = answers
        .iter()
        .filter_map(|answer| match answer {
            Ok(_) => None,
            Err(StoreError::Refused(refusal)) => Some(reached(refusal)),
            Err(error) => panic!("{error}"),
        })
        .collect();
    assert_eq!((answers.len(), refused.len()), (100, 95));
    refused
}

fn reached(refusal: &Refusal) -> LimitReached {
    match refusal {
        Refusal::Limit { reached, .. } => *reached,
        other => panic!("{other}"),
    }
}
