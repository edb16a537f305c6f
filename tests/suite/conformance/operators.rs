//! Operations on users and on a campaign: grants, blocks and pauses, and their retries.

use tombola::{
    model::{Moment, limits::LimitKind},
    store::{Operation, Refusal, StoreError},
};

use crate::support::{
    Answer as _, DrawWords as _, Storm, World, all_of, at, draw, hours, minutes, seconds, users,
};

promises![
    bonus_draws_are_used_after_the_free_quota_and_on_top_of_both_limits,
    bonus_draws_lapse_when_their_grant_says_so,
    bonus_draws_are_not_doubled_by_midnight_or_parallel_draws,
    a_grant_sent_again_grants_once,
    an_operation_sent_again_is_answered_again_and_other_contents_are_refused,
    parallel_retries_of_an_operation_have_one_effect,
    a_blocked_user_gets_the_consolation_only_until_unblocked,
    no_draw_is_made_after_a_pause_is_acknowledged,
    an_operation_on_what_does_not_exist_is_refused,
];

const YAML: &str = "
    limits: {drawsPerDay: 2, paidDrawsPerDay: 1, drawsPerUser: 5}
    consolation: {id: points}
    prizes: [{id: coupon, stock: 10000}]
    pools: [{id: deck, deck: {cards: {coupon: 10000}}}]
";

fn grant(to: &[&str], draws: u32, expires: Moment) -> Operation {
    Operation::Grant {
        users: users(to),
        draws,
        expires,
    }
}

async fn bonus_draws_are_used_after_the_free_quota_and_on_top_of_both_limits(world: &mut World) {
    world.begin(YAML).await;
    let granted = world
        .operate(grant(&["u", "v"], 3, Moment::FAR_FUTURE))
        .await;
    assert_eq!(granted.users, 2);
    let quotas = world.draw(draw("u").times(2)).await.quotas();
    assert_eq!((quotas.draws_today.used, quotas.draws_today.bonus), (2, 3));
    world.refused(draw("u").times(4)).await;
    let quotas = world.draw(draw("u").times(2)).await.quotas();
    assert_eq!((quotas.draws_today.used, quotas.draws_today.bonus), (2, 1));
    assert_eq!(quotas.draws_total.used, 2);
    world.draw(draw("u").paid("order")).await;
    world.refused(draw("u").paid("order-2")).await; // bonus draws are free draws
    world.draw(draw("u")).await;
    world.refused(draw("u")).await;
    world.pass(hours(24)).await;
    world.draw(draw("u").times(2)).await;
    world.pass(hours(24)).await;
    let refusal = world.refused(draw("u")).await;
    assert!(matches!(refusal, Refusal::Limit { reached, .. }
        if reached.limit == LimitKind::DrawsPerUser));
    world.operate(grant(&["u"], 1, Moment::FAR_FUTURE)).await;
    world.draw(draw("u")).await;
    assert_eq!(world.record("u").await.draws, 9);
    assert_eq!(world.record("v").await.bonus_left(), 3);
}

async fn bonus_draws_lapse_when_their_grant_says_so(world: &mut World) {
    world.begin(YAML).await;
    let noon = at("2026-11-20T12:00:00+08:00");
    world.operate(grant(&["u"], 3, noon)).await;
    world.operate(grant(&["u"], 1, noon + hours(1))).await;
    world.draw(draw("u").times(3)).await;
    world.set_time(noon).await;
    let late = world.try_operate(grant(&["u"], 5, noon)).await;
    assert!(matches!(late, Err(StoreError::Refused(_))), "{late:?}");
    assert_eq!(world.record("u").await.bonus_left(), 1);
    world.refused(draw("u").times(2)).await;
    world.draw(draw("u")).await;
    world.refused(draw("u")).await;
}

async fn bonus_draws_are_not_doubled_by_midnight_or_parallel_draws(world: &mut World) {
    world.begin(YAML).await;
    world.operate(grant(&["u"], 10, Moment::FAR_FUTURE)).await;
    let made = async || {
        let storm = world.storm((0..50).map(|_| draw("u")).collect());
        storm.await.into_iter().filter(Result::is_ok).count()
    };
    assert_eq!(made().await, 12);
    world.at("2026-11-21T00:00:00+08:00").await;
    assert_eq!(made().await, 2);
}

async fn a_grant_sent_again_grants_once(world: &mut World) {
    world.begin(YAML).await;
    let grant = grant(&["u"], 3, Moment::FAR_FUTURE);
    let first = world.operate_as("grant-1", grant.clone()).await.unwrap();
    world.reopen().await;
    let again = world.operate_as("grant-1", grant).await.unwrap();
    assert!(!first.replayed && again.replayed);
    assert_eq!((again.ledger, again.users), (first.ledger, 1));
    assert_eq!(world.record("u").await.bonus_left(), 3);
}

async fn an_operation_sent_again_is_answered_again_and_other_contents_are_refused(
    world: &mut World,
) {
    world.begin(YAML).await;
    let first = world.operate_as("op", Operation::Pause).await.unwrap();
    world.operate(Operation::Resume).await;
    let again = world.operate_as("op", Operation::Pause).await.unwrap();
    assert_eq!((again.replayed, again.ledger), (true, first.ledger));
    world.draw(draw("u")).await; // the retry did not pause it again
    for other in [
        Operation::Resume,
        Operation::Close,
        grant(&["u"], 1, Moment::FAR_FUTURE),
    ] {
        let length = world.ledger_length().await;
        let error = world.operate_as("op", other).await.unwrap_err();
        assert_eq!(error, StoreError::Refused(Refusal::RequestIdReused));
        assert_eq!(world.ledger_length().await, length);
    }
}

async fn parallel_retries_of_an_operation_have_one_effect(world: &mut World) {
    world.begin(YAML).await;
    let operated = all_of(50, |_| {
        let world = world.clone();
        let grant = grant(&["u"], 3, Moment::FAR_FUTURE);
        async move { world.operate_as("grant-1", grant).await.unwrap() }
    });
    let first_times = operated.await.into_iter().filter(|o| !o.replayed).count();
    assert_eq!(first_times, 1);
    assert_eq!(world.record("u").await.bonus_left(), 3);
}

async fn a_blocked_user_gets_the_consolation_only_until_unblocked(world: &mut World) {
    world.begin(YAML).await;
    let both = users(&["bad", "worse"]);
    let operated = world.operate(Operation::Block { users: both }).await;
    assert_eq!(operated.users, 2);
    let answer = world.draw(draw("bad").times(2)).await;
    assert_eq!(answer.prizes(), ["-", "-"]);
    world.refused(draw("bad")).await; // limits apply to blocked users too
    assert_eq!(world.draw(draw("good")).await.prizes(), ["coupon"]);
    assert_eq!(world.stats().await.view.blocked_users, 2);
    world.reopen().await;
    assert_eq!(world.draw(draw("worse")).await.prizes(), ["-"]);
    let one = users(&["worse"]);
    world.operate(Operation::Unblock { users: one }).await;
    assert_eq!(world.draw(draw("worse")).await.prizes(), ["coupon"]);
    assert_eq!(world.stats().await.view.blocked_users, 1);
}

async fn no_draw_is_made_after_a_pause_is_acknowledged(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: coupon, stock: 100000}]
            pools: [{id: deck, deck: {cards: {coupon: 100000}}}]
            ",
        )
        .await;
    let storm = Storm::of(world, |world, i, stops| async move {
        let before = stops.now();
        let drawn = world.try_draw(draw(&format!("u{i}"))).await;
        let was_paused = stops.held_since(before);
        assert!(!(was_paused && drawn.is_ok()), "drawn while paused");
    });
    for _ in 0..10 {
        storm.goes_on(world, 50).await;
        world.operate(Operation::Pause).await;
        storm.stops.begin();
        for _ in 0..16 {
            world.refused(draw("late")).await;
        }
        storm.stops.end();
        world.operate(Operation::Resume).await;
    }
    storm.ends().await;
}

async fn an_operation_on_what_does_not_exist_is_refused(world: &mut World) {
    use tombola::model::{PoolNo, PrizeNo};
    world.begin(YAML).await;
    let recall = |pool, window| Operation::Recall {
        pool: PoolNo(pool),
        window,
        prize: None,
        withdraw: false,
    };
    let never = world.time() + minutes(7) + seconds(1);
    for operation in [
        Operation::PausePrize { prize: PrizeNo(9) },
        Operation::ResumePrize { prize: PrizeNo(9) },
        recall(9, None),
        recall(0, Some(never)),
    ] {
        let shown = format!("{operation:?}");
        let length = world.ledger_length().await;
        let operated = world.try_operate(operation).await;
        let is_refused = matches!(operated, Err(StoreError::Refused(_)));
        assert!(is_refused, "{shown}: {operated:?}");
        assert_eq!(world.ledger_length().await, length);
    }
}
