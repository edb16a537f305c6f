//! Creating envelopes: an id names one envelope for ever.

use std::time::Duration;

use tombola::{
    chance::Nonce,
    model::convert::envelope_from_proto,
    proto::CreateEnvelopeRequest,
    store::{CreateEnvelope, GrabOutcome, Refusal, StoreError, envelope::Phase},
};

use crate::support::{
    EnvelopeWords as _, Outcome as _, World, all_of, envelope, envelope_id, hours, seconds,
    world::key,
};

promises![
    the_same_request_gives_the_same_envelope,
    other_contents_under_an_id_in_use_are_refused,
    an_envelope_created_a_hundred_times_at_once_is_one,
    an_envelope_that_would_have_expired_is_refused_and_a_retry_is_not,
    an_id_is_not_used_again_after_its_envelope_was_removed,
    ten_thousand_users_may_grab_and_no_one_else,
    an_envelope_s_state_follows_the_clock,
    few_packets_come_with_their_envelope_and_many_after_it,
    an_envelope_whose_packets_come_later_is_like_any_other,
    envelopes_created_at_once_are_each_one,
    every_packet_can_be_recomputed_from_the_seed,
    grabs_are_read_in_pages_of_any_size,
    sums_are_reported_by_currency,
];

const EXISTS: StoreError = StoreError::Refused(Refusal::EnvelopeExists);

async fn the_same_request_gives_the_same_envelope(world: &mut World) {
    let request = envelope("e", 1_000, 10)
        .only_for(&["b", "a", "b"])
        .raining(5);
    let first = world.create(&request).await;
    let packet = world.grab("e", "a").await;
    world.pass(hours(1)).await;
    let mut reordered = request.clone();
    reordered.allowed_user_ids = vec!["a".into(), "b".into()];
    for request in [&request, &reordered] {
        let again = world.try_create(request).await.unwrap();
        assert!(again.replayed);
        assert_eq!(again.view.commitment, first.commitment);
        assert_eq!(again.view.created, first.created);
        assert_eq!(again.view.expiry, first.expiry, "not counted again");
        assert_eq!(again.view.ledger, first.ledger);
    }
    assert!(packet.got().is_some() || world.grab("e", "a").await.got().is_some());
}

async fn other_contents_under_an_id_in_use_are_refused(world: &mut World) {
    let request = envelope("e", 1_000, 10).only_for(&["a"]).lasting(60);
    world.create(&request).await;
    let edits: [fn(&mut CreateEnvelopeRequest); 11] = [
        |r| r.sender_id = "other".into(),
        |r| r.total_minor += 1,
        |r| r.currency = "EUR".into(),
        |r| r.packets += 1,
        |r| r.set_split(tombola::proto::Split::Equal),
        |r| r.min_minor = 2,
        |r| r.start_time = Some(prost_types::Timestamp::default()),
        |r| r.ttl.as_mut().unwrap().seconds += 1,
        |r| {
            r.rain = Some(prost_types::Duration {
                seconds: 1,
                nanos: 0,
            })
        },
        |r| r.allowed_user_ids.clear(),
        |r| drop(r.attributes.insert("a".into(), "b".into())),
    ];
    for (number, edit) in edits.iter().enumerate() {
        let mut other = request.clone();
        edit(&mut other);
        let refused = world.try_create(&other).await.unwrap_err();
        assert_eq!(refused, EXISTS, "edit {number}");
    }
    assert_eq!(
        world.store().envelope_sums().await.unwrap().sums[0].envelopes,
        1
    );
}

async fn an_envelope_created_a_hundred_times_at_once_is_one(world: &mut World) {
    let replies = all_of(100, |_| {
        let world = world.clone();
        async move { world.try_create(&envelope("e", 1_000, 10)).await.unwrap() }
    });
    let replies = replies.await;
    assert_eq!(replies.iter().filter(|reply| !reply.replayed).count(), 1);
    let first = &replies[0].view.commitment;
    assert!(replies.iter().all(|reply| reply.view.commitment == *first));
}

async fn an_envelope_that_would_have_expired_is_refused_and_a_retry_is_not(world: &mut World) {
    let start = world.time();
    let request = envelope("e", 1_000, 10).starting(start).lasting(60);
    let mut late = request.clone();
    late.envelope_id = "late".into();
    world.create(&request).await;
    world.pass(seconds(60)).await;
    let refused = world.try_create(&late).await.unwrap_err();
    let StoreError::Refused(Refusal::EnvelopeRefused(problems)) = refused else {
        panic!("{refused}");
    };
    assert_eq!(problems.0[0].path, "start_time");
    assert!(world.try_create(&request).await.unwrap().replayed);
}

async fn an_id_is_not_used_again_after_its_envelope_was_removed(world: &mut World) {
    let request = envelope("e", 10, 1);
    world.create(&request).await;
    world.grab("e", "u").await;
    world.pass(hours(9 * 24)).await;
    world.tick().await;
    assert!(world.is_no_envelope("e").await);
    for _ in 0..2 {
        assert_eq!(world.try_create(&request).await.unwrap_err(), EXISTS);
        world.reopen().await;
    }
}

async fn ten_thousand_users_may_grab_and_no_one_else(world: &mut World) {
    let ids: Vec<String> = (0..10_000).map(|n| format!("user-{n}")).collect();
    let mut request = envelope("e", 1_000, 3);
    request.allowed_user_ids = ids;
    let view = world.create(&request).await;
    assert_eq!(view.envelope.allowed_users, 10_000);
    for user in ["user-0", "user-5000", "user-9999"] {
        assert!(world.grab("e", user).await.got().is_some(), "{user}");
    }
    for user in ["user-10000", "user", "USER-0"] {
        let outcome = world.grab("e", user).await;
        assert_eq!(outcome, tombola::store::GrabOutcome::NotAllowed);
    }
    world.pass(hours(9 * 24)).await;
    world.tick().await;
    assert!(world.is_no_envelope("e").await);
}

async fn an_envelope_s_state_follows_the_clock(world: &mut World) {
    let start = world.time() + hours(1);
    world.create(&envelope("e", 100, 2).starting(start)).await;
    assert_eq!(world.envelope("e").await.phase(), Phase::Scheduled);
    world.set_time(start).await;
    assert_eq!(world.envelope("e").await.phase(), Phase::Open);
    world.grab("e", "a").await;
    world.pass(seconds(30)).await;
    world.grab("e", "b").await;
    let view = world.envelope("e").await;
    assert_eq!(view.phase(), Phase::Empty);
    assert_eq!(view.grabbed.last.unwrap().since(view.start), seconds(30));
    let luckiest = world.injector().luckiest(&view).await.unwrap().unwrap();
    let grabs = world.grabs_of("e").await;
    let most = grabs.iter().map(|grab| grab.packet.amount_minor).max();
    assert_eq!(Some(luckiest.packet.amount_minor), most);
    assert!(grabs.contains(&luckiest));
    world.set_time(view.expiry).await;
    world.tick().await;
    let view = world.envelope("e").await;
    assert_eq!((view.phase(), view.refund), (Phase::Empty, None));

    world.create(&envelope("equal", 300, 3).equal()).await;
    for user in ["c", "b", "a"] {
        world.grab("equal", user).await;
    }
    let view = world.envelope("equal").await;
    let luckiest = world.injector().luckiest(&view).await.unwrap().unwrap();
    assert_eq!(luckiest.user.as_str(), "c", "the earliest of equals");
}

async fn few_packets_come_with_their_envelope_and_many_after_it(world: &mut World) {
    for (id, packets, filled) in [("one", 1, 1), ("few", 100, 100), ("many", 101, 0)] {
        let request = envelope(id, 12_345, packets).raining(60);
        let created = world.create(&request).await;
        assert_eq!(created.filled, filled, "{id}");
        let again = world.try_create(&request).await.unwrap();
        assert!(again.replayed);
        assert_eq!(again.view.commitment, created.commitment);
        world.pass(seconds(60)).await;
        let grab = |n: usize| {
            let world = world.clone();
            async move { world.grab(id, &format!("u{n}")).await }
        };
        let outcomes = all_of(packets as usize, grab).await;
        assert!(outcomes.iter().all(|outcome| outcome.got().is_some()));
        let grabbed = world.envelope(id).await.grabbed;
        assert_eq!((grabbed.packets, grabbed.amount_minor), (packets, 12_345));
    }
}

/// A service of an earlier version, which shares the store, creates envelopes without packets.
async fn an_envelope_whose_packets_come_later_is_like_any_other(world: &mut World) {
    let nonce = Nonce([9; 32]);
    let create = |id: &str| {
        let (envelope, users) = envelope_from_proto(&envelope(id, 1_000, 10)).unwrap();
        let command = CreateEnvelope {
            allowed_users: users.into(),
            created_by: None,
            nonce,
            commitment: key().envelope_seed(&envelope.id, &nonce).commitment(),
            packets: Vec::new(),
            envelope: envelope.into(),
        };
        let store = world.store().clone();
        async move { store.create_envelope(command).await.unwrap() }
    };
    for id in ["grabbed", "cancelled", "expired"] {
        assert_eq!(create(id).await.view.filled, 0);
        let again = world.try_create(&envelope(id, 1_000, 10)).await.unwrap();
        assert!(again.replayed);
    }
    for n in 0..10 {
        assert!(
            world
                .grab("grabbed", &format!("u{n}"))
                .await
                .got()
                .is_some()
        );
    }
    assert_eq!(world.grab("grabbed", "late").await, GrabOutcome::Empty);
    world.grab("cancelled", "u").await;
    world.cancel("cancelled").await;
    world.pass(hours(24)).await;
    world.tick().await;
    for id in ["cancelled", "expired"] {
        let view = world.envelope(id).await;
        let refund = view.refund.unwrap().refund;
        assert_eq!(refund.packets, 10 - view.grabbed.packets, "{id}");
    }
}

/// Creations of a partition share a script; each id is created once, whatever the others are.
async fn envelopes_created_at_once_are_each_one(world: &mut World) {
    const IDS: usize = 60;
    let early = world.create(&envelope("early", 1_000, 4)).await.created;
    world.pass(hours(1)).await;
    let create = |n: usize| {
        let world = world.clone();
        let id = format!("e{}", n % IDS);
        // Of the six calls of each id one has other contents, and one would have expired.
        let request = match n / IDS {
            0 => envelope(&id, 1_000, 4),
            5 => envelope(&id, 1_000, 4).lasting(1).starting(early),
            _ => envelope(&id, 2_000, 4),
        };
        async move { (n, world.try_create(&request).await) }
    };
    let mut made = [0; IDS];
    for (n, reply) in all_of(IDS * 6, create).await {
        match reply {
            Ok(reply) => {
                assert_ne!(n / IDS, 5);
                made[n % IDS] += usize::from(!reply.replayed);
            }
            Err(StoreError::Refused(Refusal::EnvelopeRefused(_))) => assert_eq!(n / IDS, 5),
            Err(error) => assert_eq!(error, EXISTS),
        }
    }
    assert_eq!(made, [1; IDS]);
    let sums = world.store().envelope_sums().await.unwrap().sums;
    assert_eq!((sums[0].envelopes, sums[0].open), (61, 61));
    for n in 0..IDS {
        let id = format!("e{n}");
        for user in ["a", "b", "c", "d"] {
            assert!(world.grab(&id, user).await.got().is_some());
        }
    }
}

async fn every_packet_can_be_recomputed_from_the_seed(world: &mut World) {
    let view = world.create(&envelope("e", 12_345, 20).at_least(7)).await;
    let seed = world.injector().envelope_seed(&view);
    assert_eq!(seed.commitment(), view.commitment);
    let split = tombola::chance::split(&seed, view.envelope.split, 12_345, 20, 7);
    for (user, amount) in split.iter().enumerate() {
        let got = world.grab("e", &format!("u{user}")).await.got().unwrap();
        assert_eq!(got.amount_minor, *amount);
    }
    let other = world.create(&envelope("f", 12_345, 20).at_least(7)).await;
    assert_ne!(other.commitment, view.commitment);
}

async fn grabs_are_read_in_pages_of_any_size(world: &mut World) {
    world.create(&envelope("e", 5_000, 200)).await;
    for user in 0..150 {
        world.grab("e", &format!("u{user}")).await;
    }
    let whole = world.grabs_of("e").await;
    assert_eq!(whole.len(), 150);
    assert!(
        whole
            .iter()
            .zip(1..)
            .all(|(grab, n)| grab.packet.number == n)
    );
    for size in [1, 7, 150, 1000] {
        let mut read = Vec::new();
        loop {
            let last = read
                .last()
                .map_or(0, |grab: &tombola::store::GrabView| grab.packet.number);
            let page = world.store().grabs(&envelope_id("e"), last, size).await;
            let page = page.unwrap();
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= size);
            read.extend(page);
        }
        assert_eq!(read, whole);
    }
}

async fn sums_are_reported_by_currency(world: &mut World) {
    let most = (1 << 53) - 1;
    world.create(&envelope("a", 1_000, 10)).await;
    world.create(&envelope("b", 500, 5)).await;
    world
        .create(&envelope("c", most, 2).in_currency("JPY"))
        .await;
    world
        .create(&envelope("d", most, 2).in_currency("JPY"))
        .await;
    for user in ["u", "v"] {
        for id in ["a", "b", "c"] {
            world.grab(id, user).await;
        }
    }
    world.cancel("b").await;
    world.pass(hours(24) - Duration::from_micros(1)).await;
    world.tick().await;
    world.pass(Duration::from_micros(1)).await;
    world.tick().await;
    let sums = world.store().envelope_sums().await.unwrap().sums;
    let currencies: Vec<_> = sums.iter().map(|sum| sum.currency.as_str()).collect();
    assert_eq!(currencies, ["CNY", "JPY"]);
    assert!(sums.iter().all(|sum| sum.balanced() && sum.open == 0));
    assert_eq!(sums[0].created_minor, 1_500);
    assert_eq!(sums[0].grabbed_minor + sums[0].refunded_minor, 1_500);
    assert_eq!(sums[1].grabbed_minor, most as u128);
    assert_eq!(sums[1].refunded_minor, most as u128);
}
