//! Another program writes other values into the keys of an envelope: it stops with nothing half
//! done, and other envelopes go on.

use std::sync::Arc;

use tombola::{
    model::convert::envelope_from_proto,
    store::{CreateEnvelope, GrabCommand, GrabOutcome, StoreError},
};

use crate::support::{
    EnvelopeWords as _, Outcome as _, World, all_of, envelope, envelope_id,
    envelopes::grab_command, hours, on_redis::OnRedis, redis_server::RedisServer,
};

/// Three envelopes in one partition: `one`, which some users may grab, `two`, and `last`, which has
/// one packet.
struct Stall {
    redis: Arc<RedisServer>,
    world: World,
    tag: String,
}

impl Stall {
    async fn new() -> Self {
        let redis = Arc::new(RedisServer::start(&[("enable-debug-command", "yes")]));
        let host = OnRedis::at(&redis.url(), redis.clone()).undivided();
        let tag = host.tag();
        let world = World::new(host).await;
        let users = ["a", "b", "c", "d", "e", "f"];
        let requests = [
            envelope("one", 10_000, 60).only_for(&users),
            envelope("two", 1_000_000, 5_000),
            envelope("last", 10, 1),
        ];
        for request in &requests {
            world.create(request).await;
            while world.envelope(&request.envelope_id).await.filled == 0 {
                tokio::task::yield_now().await;
            }
        }
        for id in ["one", "two"] {
            assert!(world.grab(id, "a").await.got().is_some());
        }
        Self { redis, world, tag }
    }

    /// Puts a text into a key of ours, or into a key that does not exist yet.
    fn spoil(&self, key: &str) {
        self.redis.command(&["RENAME", key, "kept"]); // an error if there is nothing yet
        assert_eq!(self.redis.command(&["SET", key, "x"]), "OK");
    }

    fn restore(&self, key: &str) {
        assert_eq!(self.redis.command(&["DEL", key]), "1");
        self.redis.command(&["RENAME", "kept", key]);
    }

    /// Asserts that an attempt is refused as contradicting data and writes nothing. The world's
    /// service works at the same time, so the attempt may be repeated.
    async fn refused<T>(&self, what: &str, attempt: impl AsyncFn() -> Result<T, StoreError>) {
        for _ in 0..5 {
            let before = self.redis.digest();
            match attempt().await {
                Err(StoreError::Corrupt { detail: text, .. }) => {
                    assert!(!text.contains("user_script"), "{text}")
                }
                Err(error) => panic!("{what}: {error:?}"),
                Ok(_) => panic!("{what}: done"),
            }
            if self.redis.digest() == before {
                return;
            }
        }
        panic!("{what}: something was written");
    }

    /// Users grab from both envelopes in the same batches: those of the second one get their
    /// packets.
    async fn both_at_once(&self, what: &str, round: usize) {
        let outcomes = all_of(40, |n| {
            let (world, id) = (self.world.clone(), ["one", "two"][n % 2]);
            async move { world.try_grab(id, &format!("u-{round}-{n}")).await }
        });
        for (n, outcome) in outcomes.await.into_iter().enumerate() {
            match outcome {
                Ok(outcome) if n % 2 == 1 => assert!(outcome.got().is_some()),
                // No user asks for a packet if it is known before that there is none.
                Ok(outcome) => assert_eq!(outcome, GrabOutcome::NotAllowed),
                Err(StoreError::Corrupt { .. }) if n % 2 == 0 => {}
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

fn grab(world: &World, command: GrabCommand) -> impl Future<Output = Result<(), StoreError>> {
    let store = world.store().clone();
    async move { store.grab(command).await.map(drop) }
}

/// Creates an envelope without the injector.
fn create(world: &World, id: &str) -> impl Future<Output = Result<(), StoreError>> + use<> {
    let (envelope, users) = envelope_from_proto(&envelope(id, 10, 1)).unwrap();
    let command = CreateEnvelope {
        envelope: Arc::new(envelope),
        allowed_users: users.into(),
        created_by: None,
        nonce: tombola::chance::Nonce([9; 32]),
        commitment: String::new(),
        packets: Vec::new(),
    };
    let store = world.store().clone();
    async move { store.create_envelope(command).await.map(drop) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grab_that_meets_a_foreign_value_writes_nothing_and_other_envelopes_go_on() {
    let stall = Stall::new().await;
    let world = &stall.world;
    let kinds = ["envelope:one", "packets:one", "allowed:one", "grabs:one:0"];
    for ((round, kind), user) in kinds.into_iter().enumerate().zip(["b", "c", "d", "e"]) {
        let key = format!("{}{kind}", stall.tag);
        stall.spoil(&key);
        stall
            .refused(kind, async || grab(world, grab_command("one", user)).await)
            .await;
        stall.both_at_once(kind, round).await;
        stall.restore(&key);
        assert!(world.grab("one", user).await.got().is_some(), "{kind}");
    }
    // Values that contradict each other.
    let key = format!("{}envelope:one", stall.tag);
    for field in ["gate", "grabbed", "created"] {
        let before = stall.redis.command(&["HGET", &key, field]);
        let keep = format!(
            "redis.call('RENAME', KEYS[1], 'kept') redis.call('COPY', 'kept', KEYS[1]) \
             redis.call('HSET', KEYS[1], '{field}', 'x')"
        );
        assert!(!before.is_empty());
        stall.redis.command(&["EVAL", &keep, "1", &key]);
        stall
            .refused(field, async || grab(world, grab_command("one", "f")).await)
            .await;
        stall.restore(&key);
    }
    world.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_meets_a_foreign_value_writes_nothing_and_others_go_on() {
    let stall = Stall::new().await;
    let world = &stall.world;
    for (round, kind) in ["envelope", "packets", "allowed"].into_iter().enumerate() {
        let id = format!("new-{kind}");
        let key = format!("{}{kind}:{id}", stall.tag);
        stall.spoil(&key);
        stall.refused(kind, async || create(world, &id).await).await;
        // Creations of one batch: those of other ids are made.
        let created = all_of(20, |n| {
            let other = format!("other-{round}-{n}");
            create(world, if n % 2 == 0 { &id } else { &other })
        });
        for (n, created) in created.await.into_iter().enumerate() {
            match created {
                Ok(()) => assert_eq!(n % 2, 1),
                Err(StoreError::Corrupt { .. }) => assert_eq!(n % 2, 0),
                Err(error) => panic!("{kind}: {error}"),
            }
        }
        stall.restore(&key);
        create(world, &id).await.unwrap();
    }
    let sums = format!("{}envelopes:sums", stall.tag);
    for field in ["CNY:created", "CNY:waiting:high", "CNY:envelopes"] {
        let before = stall.redis.command(&["HGET", &sums, field]);
        stall.redis.command(&["HSET", &sums, field, "x"]);
        let new = || create(world, "new");
        stall.refused(field, async || new().await).await;
        stall.redis.command(&["HDEL", &sums, field]);
        if !before.is_empty() {
            stall.redis.command(&["HSET", &sums, field, &before]);
        }
    }
    create(world, "new").await.unwrap();
    assert!(world.grab("new", "u").await.got().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_all_envelopes_share_stops_who_needs_it_with_nothing_half_done() {
    let stall = Stall::new().await;
    let world = &stall.world;
    let last = || grab(world, grab_command("last", "u"));
    for kind in [
        "ledger",
        "envelopes:open",
        "envelopes:settled",
        "envelopes:sums",
    ] {
        let key = format!("{}{kind}", stall.tag);
        stall.spoil(&key);
        stall.refused(kind, async || last().await).await;
        stall
            .refused(kind, async || create(world, "new").await)
            .await;
        stall.restore(&key);
    }
    let sums = format!("{}envelopes:sums", stall.tag);
    for field in ["CNY:grabbed", "CNY:waiting:high", "CNY:open"] {
        let before = stall.redis.command(&["HGET", &sums, field]);
        stall.redis.command(&["HSET", &sums, field, "x"]);
        stall.refused(field, async || last().await).await;
        stall.redis.command(&["HDEL", &sums, field]);
        if !before.is_empty() {
            stall.redis.command(&["HSET", &sums, field, &before]);
        }
    }
    assert!(world.grab("last", "u").await.got().is_some());
    assert!(world.grab("two", "u").await.got().is_some());
    world.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_an_envelope_that_meets_a_foreign_value_writes_nothing() {
    let stall = Stall::new().await;
    let world = &stall.world;
    let (id, kept) = (envelope_id("one"), std::time::Duration::from_secs(60));
    let settle = || {
        let (store, id) = (world.store().clone(), id.clone());
        async move { store.settle_envelope(&id, kept).await.map(drop) }
    };
    let end = world.envelope("one").await.expiry;
    world.set_time(end).await;
    for kind in [
        "envelope:one",
        "packets:one",
        "envelopes:open",
        "envelopes:sums",
        "ledger",
    ] {
        let key = format!("{}{kind}", stall.tag);
        stall.spoil(&key);
        stall.refused(kind, async || settle().await).await;
        stall.restore(&key);
    }
    settle().await.unwrap();
    assert!(world.envelope("one").await.refund.is_some());
    world.pass(kept).await;
    for kind in [
        "envelope:one",
        "grabs:one:0",
        "allowed:one",
        "envelopes:settled",
    ] {
        let key = format!("{}{kind}", stall.tag);
        stall.spoil(&key);
        stall.refused(kind, async || settle().await).await;
        stall.restore(&key);
    }
    settle().await.unwrap();
    assert!(world.is_no_envelope("one").await);
}

/// There are more damaged ones than a tick settles at once, and they are due before the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_tick_refunds_envelopes_behind_many_damaged_ones_and_these_once_they_are_repaired() {
    const EACH: usize = 70;
    let redis = Arc::new(RedisServer::start(&[]));
    let host = OnRedis::at(&redis.url(), redis.clone()).undivided();
    let tag = host.tag();
    let world = World::new(host).await;
    let mut kept = Vec::new();
    for n in 0..EACH {
        let id = format!("damaged-{n}");
        world.create(&envelope(&id, 100, 2).lasting(3600)).await;
        let key = format!("{tag}envelope:{id}");
        let record = redis.command(&["HGET", &key, "record"]);
        assert!(record.starts_with('{'), "{record}");
        assert_eq!(redis.command(&["HSET", &key, "record", "x"]), "0");
        kept.push((id, key, record));
    }
    for n in 0..EACH {
        let sound = envelope(&format!("sound-{n}"), 100, 2).lasting(7200);
        world.create(&sound).await;
    }
    world.pass(hours(24)).await;
    let ticked = world.injector().tick().await;
    assert!(
        matches!(ticked, Err(StoreError::Corrupt { .. })),
        "{ticked:?}"
    );
    for n in 0..EACH {
        let sound = world.envelope(&format!("sound-{n}")).await;
        assert!(sound.refund.is_some(), "{n}");
    }

    for (_, key, record) in &kept {
        assert_eq!(redis.command(&["HSET", key, "record", record]), "0");
    }
    world.tick().await;
    for (id, ..) in &kept {
        assert!(world.envelope(id).await.refund.is_some(), "{id}");
    }
    world.audit().await;
}
