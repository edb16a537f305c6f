//! Grabs: one packet per user, and never more than the total, however many calls run in parallel.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::Semaphore;
use tombola::{
    chance,
    store::{GrabCommand, GrabOutcome, Refusal, StoreError, envelope::Phase},
};

use crate::support::{
    EnvelopeWords as _, Outcome as _, World, all_of, envelope, envelope_id,
    envelopes::grab_command, hours, seconds,
};

promises![
    ten_thousand_users_share_five_hundred_packets,
    a_user_who_grabs_a_hundred_times_at_once_has_one_packet,
    grabbed_and_refunded_is_the_total_whenever_time_is_over,
    a_repeated_grab_returns_the_same_packet_in_any_state_of_the_envelope,
    outcomes_are_checked_in_their_order,
    rain_falls_packet_by_packet,
    a_large_envelope_is_filled_as_it_is_grabbed,
    an_equal_split_is_as_equal_as_can_be,
    a_grab_that_comes_too_late_takes_nothing,
    an_unknown_envelope_is_reported,
    replicas_hand_out_the_same_envelope,
    a_store_that_was_closed_goes_on_with_its_envelopes,
];

const MICROSECOND: Duration = Duration::from_micros(1);

/// Ten thousand users, a thousand of them at once.
async fn ten_thousand_users_share_five_hundred_packets(world: &mut World) {
    let total = 1_000_000;
    world.create(&envelope("big", total, 500)).await;
    let hands = all_of(1000, |hand| {
        let world = world.clone();
        async move {
            let mut outcomes = Vec::new();
            for user in 0..10 {
                let user = format!("u{}", user * 1000 + hand);
                outcomes.push(world.grab_patiently("big", &user).await);
            }
            outcomes
        }
    });
    let outcomes: Vec<GrabOutcome> = hands.await.into_iter().flatten().collect();
    let packets: BTreeMap<u32, u64> = outcomes
        .iter()
        .filter_map(GrabOutcome::got)
        .map(|packet| (packet.number, packet.amount_minor))
        .collect();
    assert_eq!(packets.len(), 500, "five hundred users have one each");
    assert_eq!(packets.values().sum::<u64>(), total as u64, "to the unit");
    let empty = |outcome: &&GrabOutcome| **outcome == GrabOutcome::Empty;
    assert_eq!(outcomes.iter().filter(empty).count(), 9_500);
    let view = world.envelope("big").await;
    assert_eq!((view.phase(), view.waiting_minor()), (Phase::Empty, 0));
}

async fn a_user_who_grabs_a_hundred_times_at_once_has_one_packet(world: &mut World) {
    world.create(&envelope("e", 1_000, 10)).await;
    let grabs = all_of(100, |_| {
        let world = world.clone();
        async move { world.grab("e", "eager").await }
    });
    let outcomes = grabs.await;
    let first = outcomes.iter().find_map(GrabOutcome::got).unwrap();
    assert_eq!(outcomes.iter().filter_map(GrabOutcome::got).count(), 1);
    assert!(outcomes.iter().all(|it| it.packet() == Some(first)));
    assert_eq!(world.grabs_of("e").await.len(), 1);
}

/// Two hundred envelopes; each expires in the middle of many grabs.
async fn grabbed_and_refunded_is_the_total_whenever_time_is_over(world: &mut World) {
    const USERS: usize = 12;
    for round in 0..200 {
        let id = format!("e{round}");
        let view = world.create(&envelope(&id, 100, 8).lasting(1)).await;
        let answered = Arc::new(Semaphore::new(0));
        let grabs = all_of(USERS + 1, |user| {
            let (world, id, answered) = (world.clone(), id.clone(), answered.clone());
            async move {
                if user == USERS {
                    let some = (round % (USERS + 1)) as u32;
                    answered.acquire_many(some).await.unwrap().forget();
                    world.set_time(view.expiry).await;
                    return None;
                }
                let outcome = world.grab(&id, &format!("u{user}")).await;
                answered.add_permits(1);
                outcome.got()
            }
        });
        let grabbed: Vec<u64> = grabs
            .await
            .into_iter()
            .flatten()
            .map(|packet| packet.amount_minor)
            .collect();
        world.tick().await;
        let view = world.envelope(&id).await;
        assert_eq!(view.grabbed.packets as usize, grabbed.len());
        let refunded = view
            .refund
            .map_or(0, |refunded| refunded.refund.amount_minor);
        assert_eq!(grabbed.iter().sum::<u64>() + refunded, 100, "to the unit");
        assert!(view.is_settled());
    }
}

async fn a_repeated_grab_returns_the_same_packet_in_any_state_of_the_envelope(world: &mut World) {
    world.create(&envelope("empty", 10, 1)).await;
    world.create(&envelope("cancelled", 10, 2)).await;
    world.create(&envelope("expired", 10, 2)).await;
    let mut had = Vec::new();
    for id in ["empty", "cancelled", "expired"] {
        had.push((id, world.grab(id, "u").await.got().unwrap()));
    }
    world.cancel("cancelled").await;
    assert_eq!(world.grab("empty", "other").await, GrabOutcome::Empty);
    for _ in 0..3 {
        for (id, packet) in &had {
            let again = world.grab(id, "u").await;
            assert_eq!(again, GrabOutcome::AlreadyGrabbed(*packet), "{id}");
        }
        world.pass(hours(30)).await;
        world.tick().await;
    }
}

async fn outcomes_are_checked_in_their_order(world: &mut World) {
    let start = world.time() + hours(1);
    let restricted = envelope("e", 100, 1)
        .starting(start)
        .lasting(3600)
        .only_for(&["a", "b", "c"]);
    world.create(&restricted).await;
    assert_eq!(world.grab("e", "z").await, GrabOutcome::NotAllowed);
    assert_eq!(world.grab("e", "a").await, GrabOutcome::NotStarted);
    world.set_time(start - MICROSECOND).await;
    assert_eq!(world.grab("e", "a").await, GrabOutcome::NotStarted);
    world.set_time(start).await;
    assert_eq!(world.grab("e", "z").await, GrabOutcome::NotAllowed);
    assert!(world.grab("e", "a").await.got().is_some());
    assert_eq!(world.grab("e", "b").await, GrabOutcome::Empty);
    assert_eq!(world.grab("e", "z").await, GrabOutcome::NotAllowed);
    world.set_time(start + hours(1) - MICROSECOND).await;
    assert_eq!(world.grab("e", "b").await, GrabOutcome::Empty);
    world.set_time(start + hours(1)).await;
    assert_eq!(world.grab("e", "b").await, GrabOutcome::Expired);
    assert_eq!(world.grab("e", "z").await, GrabOutcome::NotAllowed);
    assert!(world.grab("e", "a").await.packet().is_some());

    let later = world.time() + hours(1);
    world
        .create(&envelope("gone", 100, 2).starting(later))
        .await;
    world.cancel("gone").await;
    assert_eq!(world.grab("gone", "a").await, GrabOutcome::NotStarted);
    world.set_time(later).await;
    assert_eq!(world.grab("gone", "a").await, GrabOutcome::Expired);
}

async fn rain_falls_packet_by_packet(world: &mut World) {
    let start = world.time() + seconds(5);
    let request = envelope("rain", 5_000, 40)
        .starting(start)
        .lasting(120)
        .raining(60);
    let view = world.create(&request).await;
    let seed = world.injector().envelope_seed(&view);
    let releases = chance::rain(&seed, start, 60_000_000, 40);
    assert!(
        releases
            .iter()
            .all(|at| (start..start + seconds(60)).contains(at))
    );
    world.set_time(start).await;
    for (number, release) in (1..).zip(&releases) {
        let user = format!("u{number}");
        if *release > world.time() {
            world.set_time(*release - MICROSECOND).await;
            assert_eq!(world.grab("rain", &user).await, GrabOutcome::NotYet);
            world.set_time(*release).await;
        }
        let got = world.grab("rain", &user).await.got().unwrap();
        assert_eq!((got.number, got.at), (number, *release));
    }
    assert_eq!(world.grab("rain", "late").await, GrabOutcome::Empty);
}

async fn a_large_envelope_is_filled_as_it_is_grabbed(world: &mut World) {
    let total = 1_000_000;
    let view = world.create(&envelope("large", total, 100_000)).await;
    assert_eq!(view.packets_waiting(), 100_000);
    assert_eq!(view.waiting_minor(), total as u64);
    let grab = |user: usize| {
        let world = world.clone();
        async move { world.grab("large", &format!("u{user}")).await }
    };
    let outcomes = all_of(350, grab).await;
    assert!(outcomes.iter().all(|outcome| outcome.got().is_some()));
    let view = world.envelope("large").await;
    assert_eq!(view.grabbed.packets, 350);
    assert!(
        (350..=1_500).contains(&view.filled),
        "{} filled",
        view.filled
    );
    let reply = world.cancel("large").await;
    assert_eq!(reply.view.refund.unwrap().refund.packets, 99_650);
}

async fn an_equal_split_is_as_equal_as_can_be(world: &mut World) {
    world
        .create(&envelope("e", 1_003, 10).equal().at_least(100))
        .await;
    let mut amounts = Vec::new();
    for user in 0..10 {
        let got = world.grab("e", &format!("u{user}")).await.got();
        amounts.push(got.unwrap().amount_minor);
    }
    assert_eq!(amounts, [101, 101, 101, 100, 100, 100, 100, 100, 100, 100]);
}

async fn a_grab_that_comes_too_late_takes_nothing(world: &mut World) {
    world.create(&envelope("e", 100, 2)).await;
    let now = world.time();
    world.pass(seconds(1)).await;
    let late = |user: &str| GrabCommand {
        not_after: now,
        ..grab_command("e", user)
    };
    let refused = world.try_grab_with(late("u")).await.unwrap_err();
    assert_eq!(refused, StoreError::Refused(Refusal::DeadlineExceeded));
    assert_eq!(world.envelope("e").await.grabbed.packets, 0);
    let packet = world.grab("e", "u").await.got().unwrap();
    let again = world.try_grab_with(late("u")).await.unwrap();
    assert_eq!(again.outcome, GrabOutcome::AlreadyGrabbed(packet));
}

async fn an_unknown_envelope_is_reported(world: &mut World) {
    let missing = StoreError::Refused(Refusal::EnvelopeNotFound);
    assert_eq!(world.try_grab("none", "u").await, Err(missing.clone()));
    assert!(world.is_no_envelope("none").await);
    let id = envelope_id("none");
    let grabs = world.store().grabs(&id, 0, 1);
    assert_eq!(grabs.await, Err(missing));
}

async fn replicas_hand_out_the_same_envelope(world: &mut World) {
    let other = world.another_replica().await;
    world.create(&envelope("e", 100_000, 300)).await;
    let grab = |user: usize| {
        let world = [world, &other][user % 2].clone();
        async move { world.grab("e", &format!("u{user}")).await.got() }
    };
    let packets: Vec<_> = all_of(400, grab).await.into_iter().flatten().collect();
    assert_eq!(packets.len(), 300);
    let sum: u64 = packets.iter().map(|packet| packet.amount_minor).sum();
    assert_eq!(sum, 100_000);
    let (here, there) = (world.envelope("e").await, other.envelope("e").await);
    assert_eq!(here.grabbed, there.grabbed);
}

async fn a_store_that_was_closed_goes_on_with_its_envelopes(world: &mut World) {
    let restricted = envelope("e", 500, 120).only_for(&["a", "b"]);
    world.create(&restricted).await;
    world.create(&envelope("open", 50_000, 250)).await;
    let first = world.grab("e", "a").await.got().unwrap();
    for round in 0..5 {
        for user in 0..30 {
            let got = world.grab("open", &format!("u{round}-{user}")).await.got();
            assert!(got.is_some());
        }
        world.reopen().await;
    }
    assert_eq!(
        world.grab("e", "a").await,
        GrabOutcome::AlreadyGrabbed(first)
    );
    assert_eq!(world.grab("e", "c").await, GrabOutcome::NotAllowed);
    assert!(world.grab("e", "b").await.got().is_some());
    world.pass(hours(24)).await;
    world.reopen().await;
    world.tick().await;
    let refund = world.envelope("open").await.refund.unwrap().refund;
    assert_eq!(refund.packets, 100);
}
