//! The end of envelopes: what nobody grabbed is refunded once, and only the ledger keeps an
//! envelope for ever.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Semaphore;
use tombola::{
    injector::Injector,
    store::{
        GrabOutcome,
        entry::{Body, RefundCause},
        envelope::Phase,
    },
};

use crate::support::{
    EnvelopeWords as _, Outcome as _, World, all_of, audit, envelope, envelope_id, hours, minutes,
    seconds, world::key,
};

promises![
    the_rest_goes_back_after_hours_away,
    a_grab_after_the_end_causes_the_refund,
    reading_an_expired_envelope_causes_the_refund,
    replicas_refund_once,
    a_cancelled_envelope_gives_its_rest_back_at_once,
    cancelling_what_is_over_changes_nothing,
    cancelling_during_many_grabs_loses_nothing,
    cancelling_succeeds_while_grabs_never_pause,
    a_thousand_refunds_are_done_in_one_tick,
    an_envelope_is_kept_to_the_microsecond_and_removed_in_steps,
    envelopes_are_kept_as_long_as_the_service_says,
    envelopes_go_while_their_neighbours_stay,
];

const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
const MICROSECOND: Duration = Duration::from_micros(1);

async fn refunds(world: &World) -> usize {
    let entries = audit::ledger(&**world.store()).await;
    let is_refund = |entry: &&_| {
        matches!(
            tombola::store::Entry::clone(entry).body,
            Body::Refund { .. }
        )
    };
    entries.iter().filter(is_refund).count()
}

async fn the_rest_goes_back_after_hours_away(world: &mut World) {
    let view = world.create(&envelope("e", 1_000, 10)).await;
    world.grab("e", "u").await;
    world.set_time(view.expiry + hours(30)).await;
    world.reopen().await;
    assert_eq!(world.envelope("e").await.phase(), Phase::Expired);
    for _ in 0..3 {
        world.tick().await;
    }
    let view = world.envelope("e").await;
    let refund = view.refund.unwrap().refund;
    assert_eq!(refund.cause, RefundCause::Expired);
    assert_eq!(refund.packets, 9);
    assert_eq!(refund.amount_minor + view.grabbed.amount_minor, 1_000);
    assert_eq!(refunds(world).await, 1);
}

async fn a_grab_after_the_end_causes_the_refund(world: &mut World) {
    let view = world.create(&envelope("e", 1_000, 10)).await;
    world.set_time(view.expiry).await;
    assert_eq!(world.grab("e", "u").await, GrabOutcome::Expired);
    while world.envelope("e").await.refund.is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(refunds(world).await, 1);
}

async fn reading_an_expired_envelope_causes_the_refund(world: &mut World) {
    let view = world.create(&envelope("e", 1_000, 10)).await;
    world.set_time(view.expiry).await;
    let view = world.injector().envelope(&envelope_id("e")).await.unwrap();
    assert_eq!(view.refund.unwrap().refund.amount_minor, 1_000);
}

async fn replicas_refund_once(world: &mut World) {
    for n in 0..20 {
        world.create(&envelope(&format!("e{n}"), 1_000, 10)).await;
    }
    world.pass(hours(24)).await;
    let mut replicas = vec![world.clone()];
    for _ in 0..3 {
        replicas.push(world.another_replica().await);
    }
    let replicas = Arc::new(replicas);
    let tick = |n: usize| {
        let replicas = replicas.clone();
        async move { replicas[n].tick().await }
    };
    all_of(4, tick).await;
    assert_eq!(refunds(world).await, 20);
}

async fn a_cancelled_envelope_gives_its_rest_back_at_once(world: &mut World) {
    world.create(&envelope("e", 1_000, 10)).await;
    let packet = world.grab("e", "u").await.got().unwrap();
    let reply = world.cancel("e").await;
    assert!(!reply.replayed);
    let refund = reply.view.refund.unwrap();
    assert_eq!(refund.refund.amount_minor, 1_000 - packet.amount_minor);
    assert_eq!(reply.view.phase(), Phase::Cancelled);
    assert_eq!(world.grab("e", "v").await, GrabOutcome::Expired);
    let again = world.cancel("e").await;
    assert!(again.replayed);
    assert_eq!(again.view.refund, Some(refund));
    world.pass(hours(48)).await;
    world.tick().await;
    assert_eq!(world.envelope("e").await.phase(), Phase::Cancelled);
    assert_eq!(refunds(world).await, 1);
}

async fn cancelling_what_is_over_changes_nothing(world: &mut World) {
    world.create(&envelope("empty", 10, 1)).await;
    world.grab("empty", "u").await;
    let view = world.create(&envelope("expired", 10, 1)).await;
    let reply = world.cancel("empty").await;
    assert!(reply.replayed);
    assert_eq!(
        (reply.view.phase(), reply.view.refund),
        (Phase::Empty, None)
    );
    world.set_time(view.expiry).await;
    let reply = world.cancel("expired").await;
    assert!(reply.replayed, "its time was over");
    let refund = reply.view.refund.unwrap().refund;
    assert_eq!(refund.cause, RefundCause::Expired);
}

async fn cancelling_during_many_grabs_loses_nothing(world: &mut World) {
    for round in 0..30 {
        let id = format!("e{round}");
        world.create(&envelope(&id, 500, 20)).await;
        let grabs = all_of(30, |user| {
            let (world, id) = (world.clone(), id.clone());
            async move {
                if user == round {
                    world.cancel(&id).await;
                    return 0;
                }
                let outcome = world.grab(&id, &format!("u{user}")).await;
                outcome.got().map_or(0, |packet| packet.amount_minor)
            }
        });
        let grabbed: u64 = grabs.await.iter().sum();
        let view = world.envelope(&id).await;
        let refunded = view
            .refund
            .map_or(0, |refunded| refunded.refund.amount_minor);
        assert_eq!(grabbed + refunded, 500);
    }
}

async fn cancelling_succeeds_while_grabs_never_pause(world: &mut World) {
    const PACKETS: u32 = 50_000;
    world.create(&envelope("e", 100_000, PACKETS)).await;
    let (users, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let begun = Arc::new(Semaphore::new(0));
    let storm = all_of(1500, |_| {
        let (world, users, is_over) = (world.clone(), users.clone(), is_over.clone());
        let begun = begun.clone();
        async move {
            while !is_over.load(Ordering::SeqCst) {
                let user = format!("u{}", users.fetch_add(1, Ordering::SeqCst));
                begun.add_permits(1);
                let outcome = world.grab("e", &user).await;
                is_over.fetch_or(outcome == GrabOutcome::Expired, Ordering::SeqCst);
            }
        }
    });
    let cancel = async {
        begun.acquire_many(2_000).await.unwrap().forget();
        let reply = world.cancel("e").await;
        is_over.store(true, Ordering::SeqCst);
        reply
    };
    let (reply, _) = tokio::join!(cancel, storm);
    let refund = reply.view.refund.unwrap().refund;
    assert!(refund.packets > PACKETS / 2, "{refund:?}");
    let grabs = world.grabs_of("e").await;
    assert_eq!(grabs.len() + refund.packets as usize, PACKETS as usize);
}

async fn a_thousand_refunds_are_done_in_one_tick(world: &mut World) {
    let world = &*world;
    let create = |n: usize| {
        let world = world.clone();
        async move { drop(world.create(&envelope(&format!("e{n}"), 100, 4)).await) }
    };
    all_of(1000, create).await;
    world.pass(hours(24)).await;
    world.tick().await;
    assert_eq!(refunds(world).await, 1000);
    let due = world.store().due_envelopes(0, KEPT, 10).await.unwrap();
    assert_eq!(due, []);
}

/// More grabs and allowed users than one step removes.
async fn an_envelope_is_kept_to_the_microsecond_and_removed_in_steps(world: &mut World) {
    let users: Vec<String> = (0..1200).map(|n| format!("u{n}")).collect();
    let names: Vec<&str> = users.iter().map(String::as_str).collect();
    let request = envelope("e", 100_000, 1100).only_for(&names);
    world.create(&request).await;
    let grab = |n: usize| {
        let world = world.clone();
        async move { world.grab("e", &format!("u{n}")).await }
    };
    all_of(1050, grab).await;
    let settled = world.cancel("e").await.view.now;
    world.set_time(settled + KEPT - MICROSECOND).await;
    world.tick().await;
    assert!(world.grab("e", "u7").await.packet().is_some());
    world.set_time(settled + KEPT).await;

    let id = envelope_id("e");
    let mut steps = 1;
    while world.store().settle_envelope(&id, KEPT).await.unwrap().more {
        assert!(world.is_no_envelope("e").await, "from the first step on");
        assert!(world.try_grab("e", "u7").await.is_err());
        assert!(world.try_create(&request).await.is_err());
        steps += 1;
        if steps == 3 {
            world.reopen().await;
        }
    }
    assert_eq!(steps, 23, "2,250 rows, 100 a step");
    assert!(world.is_no_envelope("e").await);
    assert!(world.try_create(&request).await.is_err());
    world.tick().await;
    let sums = world.store().envelope_sums().await.unwrap().sums;
    assert_eq!((sums[0].envelopes, sums[0].created_minor), (1, 100_000));
}

async fn envelopes_are_kept_as_long_as_the_service_says(world: &mut World) {
    world.create(&envelope("e", 10, 1)).await;
    world.grab("e", "u").await;
    let store = world.store().clone();
    let forgetful = Injector::new(store, key(), minutes(5)).keeping_envelopes(minutes(10));
    let forgetful = Arc::new(forgetful);
    world.pass(minutes(10) - MICROSECOND).await;
    forgetful.tick().await.unwrap();
    assert!(!world.is_no_envelope("e").await);
    world.pass(MICROSECOND).await;
    world.tick().await;
    assert!(!world.is_no_envelope("e").await, "this one keeps it");
    forgetful.tick().await.unwrap();
    assert!(world.is_no_envelope("e").await);
}

async fn envelopes_go_while_their_neighbours_stay(world: &mut World) {
    for n in 0..6 {
        world
            .create(&envelope(&format!("e{n}"), 100, 3).lasting(3600))
            .await;
        for user in ["a", "b"] {
            world.grab(&format!("e{n}"), user).await;
        }
        world.pass(hours(24)).await;
    }
    world.tick().await;
    world.pass(KEPT - hours(3 * 24) + seconds(1)).await;
    world.tick().await;
    let kept: BTreeSet<usize> = {
        let mut kept = BTreeSet::new();
        for n in 0..6 {
            if !world.is_no_envelope(&format!("e{n}")).await {
                assert_eq!(world.grabs_of(&format!("e{n}")).await.len(), 2);
                kept.insert(n);
            }
        }
        kept
    };
    assert_eq!(kept.len(), 6, "refunded by the tick, kept from then on");
    world.pass(hours(3 * 24)).await;
    world.tick().await;
    for n in 0..6 {
        assert!(world.is_no_envelope(&format!("e{n}")).await);
    }
}
