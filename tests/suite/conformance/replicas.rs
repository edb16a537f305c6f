//! Several replicas of the service on the same data: what one does, all others see at once.

use std::{future::poll_fn, task::Poll};

use tombola::{
    model::PoolNo,
    store::{Drawn, Operation, Refusal},
};

use crate::support::{
    Answer as _, DrawWords as _, Storm, World, all_of, campaign, draw, hours, minutes, users,
};

promises![
    a_retry_through_another_replica_is_answered_as_the_first,
    a_draw_is_found_through_another_replica,
    what_one_replica_has_injected_is_drawn_through_another,
    a_pause_through_one_replica_holds_for_all,
    a_prize_held_through_one_replica_is_given_by_none,
    a_user_blocked_through_one_replica_wins_through_none,
    a_grant_through_one_replica_is_used_through_another,
    a_plan_changed_through_one_replica_is_drawn_through_another,
    a_new_version_through_one_replica_is_followed_by_draws_through_another,
    a_campaign_laid_out_anew_through_one_replica_is_drawn_through_another,
    versions_follow_each_other_while_another_replica_draws,
    eight_replicas_inject_while_many_draws_go_through_all_of_them,
    draws_that_do_not_wait_for_each_other_keep_their_order,
];

const DECK: &str = "
    limits: {drawsPerDay: 10}
    consolation: {id: points}
    prizes: [{id: coupon, stock: 5000}]
    pools: [{id: deck, deck: {size: 5000, cards: {coupon: 5000}}}]
";

async fn a_retry_through_another_replica_is_answered_as_the_first(world: &mut World) {
    world.begin(DECK).await;
    let two = world.another_replica().await;
    let command = draw("u").times(7).named("once");
    let first = world.draw(command.clone()).await;
    for replica in [&two, world] {
        let again = replica.draw(command.clone()).await;
        assert!(again.replayed);
        assert_eq!((&again.entry, again.ledger), (&first.entry, first.ledger));
        assert_eq!((again.at, again.quotas()), (first.at, first.quotas()));
        let other = replica.refused(command.clone().times(6)).await;
        assert_eq!(other, Refusal::RequestIdReused);
    }
}

async fn a_draw_is_found_through_another_replica(world: &mut World) {
    world.begin(DECK).await;
    let two = world.another_replica().await;
    let command = draw("u").times(10);
    let first = world.draw(command.clone()).await;
    let (id, user, request) = (&command.campaign, &command.user, &command.request);
    let found = two.store().find_draw(id, user, request).await.unwrap();
    assert_eq!((found.entry, found.ledger), (first.entry, first.ledger));
}

async fn what_one_replica_has_injected_is_drawn_through_another(world: &mut World) {
    let campaign = world.begin(&per_hour(300)).await;
    let two = world.another_replica().await;
    for hour in 1..4 {
        let (injects, draws) = if hour % 2 == 0 {
            (&two, &*world)
        } else {
            (&*world, &two)
        };
        injects.tick().await;
        world.set_time(campaign.start + hours(hour)).await;
        injects.tick().await;
        assert_eq!(draws.drained().await, 300);
    }
}

async fn a_pause_through_one_replica_holds_for_all(world: &mut World) {
    world.begin(DECK).await;
    let two = world.another_replica().await;
    for _ in 0..3 {
        two.draw(draw("u")).await;
        world.operate(Operation::Pause).await;
        assert_eq!(two.refused(draw("u")).await, Refusal::Paused);
        two.operate(Operation::Resume).await;
        world.draw(draw("u")).await;
    }
}

async fn a_prize_held_through_one_replica_is_given_by_none(world: &mut World) {
    world.begin(DECK).await;
    let two = world.another_replica().await;
    let prize = world.prize_no("coupon").await;
    for _ in 0..3 {
        assert_eq!(two.draw(draw("u")).await.wins(), 1);
        world.operate(Operation::PausePrize { prize }).await;
        assert_eq!(two.draw(draw("u")).await.wins(), 0);
        two.operate(Operation::ResumePrize { prize }).await;
        assert_eq!(world.draw(draw("u")).await.wins(), 1);
    }
}

async fn a_user_blocked_through_one_replica_wins_through_none(world: &mut World) {
    world.begin(DECK).await;
    let two = world.another_replica().await;
    let users = users(&["u", "never-seen"]);
    for _ in 0..3 {
        assert_eq!(two.draw(draw("u")).await.wins(), 1);
        let blocked = users.clone();
        world.operate(Operation::Block { users: blocked }).await;
        assert_eq!(two.draw(draw("u")).await.wins(), 0);
        assert_eq!(world.draw(draw("u")).await.wins(), 0);
        let unblocked = users.clone();
        two.operate(Operation::Unblock { users: unblocked }).await;
    }
}

async fn a_grant_through_one_replica_is_used_through_another(world: &mut World) {
    let campaign = world.begin(DECK).await;
    let two = world.another_replica().await;
    two.draw(draw("u").times(10)).await;
    for _ in 0..3 {
        assert!(matches!(
            two.refused(draw("u")).await,
            Refusal::Limit { .. }
        ));
        let grant = Operation::Grant {
            users: users(&["u"]),
            draws: 2,
            expires: campaign.end,
        };
        world.operate(grant).await;
        two.draw(draw("u")).await;
        world.draw(draw("u")).await;
    }
}

async fn a_plan_changed_through_one_replica_is_drawn_through_another(world: &mut World) {
    let campaign = world.begin(&per_hour(300)).await;
    let two = world.another_replica().await;
    two.tick().await;
    two.draw(draw("u")).await;
    world.change(&per_hour(500)).await;
    world.set_time(campaign.start + minutes(59)).await;
    let early = two.drained().await;
    world.set_time(campaign.start + hours(1)).await;
    let won = two.stats().await.draws.wins;
    assert!(early > 300);
    two.drained().await;
    let windows = two.windows().await;
    assert_eq!(windows[0].prizes[0].1.injected, 500);
    assert!(won <= 500);
}

async fn a_new_version_through_one_replica_is_followed_by_draws_through_another(world: &mut World) {
    world.begin(DECK).await;
    let two = world.another_replica().await;
    two.draw(draw("u")).await;
    let next = "
        limits: {drawsPerDay: 3}
        consolation: {id: points}
        prizes: [{id: coupon, stock: 6000}, {id: mug, stock: 5000}]
        pools:
          - {id: deck, deck: {size: 5000, cards: {coupon: 5000}}}
          - {id: hours, schedule: {perHour: {mug: 5}}}
    ";
    world.change(next).await;
    let answer = two.draw(draw("u")).await;
    assert_eq!(answer.campaign, campaign(next));
    assert_eq!(answer.entry.version, 2);
    two.draw(draw("u")).await;
    assert!(matches!(
        two.refused(draw("u")).await,
        Refusal::Limit { .. }
    ));
    assert_eq!(two.windows().await, world.windows().await);
    let pools = two.store().campaign(&answer.campaign.id).await.unwrap();
    assert_eq!(pools.campaign.pools.len(), 2);
}

async fn a_campaign_laid_out_anew_through_one_replica_is_drawn_through_another(world: &mut World) {
    let first = campaign(DECK);
    world.try_apply(first.clone(), 0).await.unwrap();
    let two = world.another_replica().await;
    two.tick().await;
    assert!(matches!(
        two.refused(draw("u")).await,
        Refusal::NotStarted(_)
    ));
    world.change(&per_hour(300)).await;
    world.set_time(first.start + hours(1)).await;
    let stats = two.stats().await;
    assert_eq!(stats.prizes.len(), 1);
    let windows = two.store().windows(&first.id, PoolNo(0), first.start, 10);
    assert_eq!(windows.await.unwrap(), []);
    two.draw(draw("u")).await;
    two.tick().await;
    world.set_time(first.start + hours(2)).await;
    two.drained().await;
}

async fn versions_follow_each_other_while_another_replica_draws(world: &mut World) {
    world.begin(&per_hour(300)).await;
    let two = world.another_replica().await;
    let storm = Storm::of(world, move |_, i, _| {
        let two = two.clone();
        async move {
            two.draw(draw(&format!("u{i}"))).await;
        }
    });
    for n in 1..=20 {
        storm.goes_on(world, 10).await;
        world.pass(minutes(3)).await;
        world.change(&per_hour(300 + n % 3 * 50)).await;
    }
    storm.ends().await;
}

async fn eight_replicas_inject_while_many_draws_go_through_all_of_them(world: &mut World) {
    world
        .begin(
            "
            consolation: {id: points}
            prizes: [{id: coupon, stock: 2000000}, {id: mug, stock: 100000}]
            pools:
              - id: hours
                schedule:
                  {perHour: {coupon: 2500, mug: 20}, unclaimed: RETURN, returnAfter: 1800s}
              - {id: deck, deck: {size: 100, cards: {mug: 10}, onExhausted: RESHUFFLE}}
            ",
        )
        .await;
    let mut replicas = Vec::new();
    for _ in 0..8 {
        replicas.push(world.another_replica().await);
    }
    let callers = replicas.clone();
    let storm = Storm::of(world, move |_, i, _| {
        let (here, there) = (callers[i].clone(), callers[(i + 1) % 8].clone());
        async move {
            let command = draw(&format!("u{}", i % 3)).times(1 + i as u32);
            let first = here.draw(command.clone()).await;
            let again = there.draw(command).await;
            assert!(again.replayed);
            assert_eq!((again.entry, again.ledger), (first.entry, first.ledger));
        }
    });
    for _ in 0..12 {
        let ticking = replicas.clone();
        all_of(8, |i| {
            let replica = ticking[i].clone();
            async move { replica.tick().await }
        })
        .await;
        storm.goes_on(world, 20).await;
        world.pass(minutes(17)).await;
    }
    storm.ends().await;
    for window in replicas[3].windows().await {
        let planned: Vec<_> = window.prizes.iter().map(|(_, u)| u.planned).collect();
        let injected: Vec<_> = window.prizes.iter().map(|(_, u)| u.injected).collect();
        assert_eq!((planned, injected), (vec![2500, 20], vec![2500, 20]));
    }
}

async fn draws_that_do_not_wait_for_each_other_keep_their_order(world: &mut World) {
    world
        .begin(
            "consolation: {id: points}\nprizes: [{id: coupon, stock: 10}]\npools: [{id: deck, \
        deck: {size: 10, cards: {coupon: 1}}}]",
        )
        .await;
    let names = ["one", "two", "three"];
    let commands = (0..1500u32).map(|n| draw(names[n as usize % 3]).times(1 + n % 7));
    let store = world.store();
    let mut calls: Vec<_> = commands
        .map(|command| Box::pin(store.draw(command.consolation_only().into())))
        .collect();
    let mut answers: Vec<_> = calls.iter().map(|_| None).collect();
    // Each draw is polled, and so sent, before the next.
    poll_fn(|context| {
        for (call, answer) in calls.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(drawn) = call.as_mut().poll(context)
            {
                *answer = Some(drawn);
            }
        }
        if answers.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    for user in 0..3 {
        let mut last = None;
        for answer in answers.iter().skip(user).step_by(3) {
            let Some(Ok(Drawn::Done(answer))) = answer else {
                panic!("{answer:?}");
            };
            assert!(Some(answer.ledger) > last, "{answer:?}");
            last = Some(answer.ledger);
        }
    }
}

fn per_hour(coupons: u64) -> String {
    format!(
        "
        consolation: {{id: points}}
        prizes: [{{id: coupon, stock: 500000}}]
        pools: [{{id: hours, schedule: {{perHour: {{coupon: {coupons}}}}}}}]
        "
    )
}
