//! The service watches the durability settings while it runs.

use std::{sync::Arc, time::Duration};

use tombola::store::{
    Durability, Executed, Result, StoreError,
    redis::{LevelOptions, OnWeakerLevel},
};

use crate::support::{
    World, draw,
    on_redis::OnRedis,
    plain_replicas::{with_replicas, with_replicas_of},
    program::Program,
    redis_group::RedisCluster,
    redis_server::RedisServer,
};

const YAML: &str = "
    prizes: [{id: coupon, stock: 500}]
    pools: [{id: deck, deck: {size: 1000, cards: {coupon: 500}}}]
";

async fn world(on_weaker: OnWeakerLevel) -> (World, Arc<RedisServer>) {
    let server = Arc::new(RedisServer::start(&[]));
    let level = LevelOptions {
        on_weaker,
        ..LevelOptions::default()
    };
    let host = OnRedis::at(&server.url(), server.clone()).keeping(Durability::Local, level);
    let world = World::new(host).await;
    world.begin(YAML).await;
    world.draw(draw("u")).await;
    (world, server)
}

fn set(server: &RedisServer, setting: &str) {
    let (name, value) = setting.split_once(' ').unwrap();
    assert_eq!(server.command(&["CONFIG", "SET", name, value]), "OK");
}

/// Draws until the outcome is as wanted.
async fn draw_until<T>(world: &World, wanted: impl Fn(Result<()>) -> Option<T>) -> T {
    for _ in 0..600 {
        let drawn = world.try_draw(draw("u")).await.map(|_| ());
        if let Some(found) = wanted(drawn) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the change is not noticed");
}

#[tokio::test]
async fn draws_are_refused_while_the_settings_keep_less() {
    let (world, server) = world(OnWeakerLevel::Refuse).await;
    for (weaker, restored) in [
        ("appendfsync everysec", "appendfsync always"),
        ("appendonly no", "appendonly yes"),
        (
            "maxmemory-policy allkeys-lru",
            "maxmemory-policy noeviction",
        ),
    ] {
        set(&server, weaker);
        let (executed, detail) = draw_until(&world, |drawn| match drawn {
            Err(StoreError::Unavailable { executed, detail }) => Some((executed, detail)),
            _ => None,
        })
        .await;
        assert_eq!(executed, Executed::No, "{detail}");
        let advice = format!("CONFIG SET {restored}");
        assert!(detail.contains(&advice), "no `{advice}` in: {detail}");
        assert!(detail.contains("--durability local"), "{detail}");
        assert!(world.store().now().await.is_err(), "health reports it");
        set(&server, restored);
        draw_until(&world, |drawn| drawn.ok()).await;
        world.store().now().await.unwrap();
    }
}

#[tokio::test]
async fn answers_state_the_level_that_is_left_if_so_asked_for() {
    let (world, server) = world(OnWeakerLevel::State).await;
    let store = world.store().clone();
    assert_eq!(store.durability(), Durability::Local);
    set(&server, "appendfsync everysec");
    let lower = |drawn: Result<()>| {
        drawn.expect("it goes on");
        (store.durability() == Durability::Fast).then_some(())
    };
    draw_until(&world, lower).await;
    // No lower level is left to state.
    set(&server, "appendonly no");
    draw_until(&world, |drawn| drawn.err()).await;
    set(&server, "appendonly yes");
    set(&server, "appendfsync always");
    draw_until(&world, |drawn| {
        (drawn.is_ok() && store.durability() == Durability::Local).then_some(())
    })
    .await;
}

/// A replica without an append-only file never confirms that it has a write on disk.
#[tokio::test]
async fn answers_state_the_level_that_is_left_while_a_replica_keeps_less() {
    let servers = Arc::new(with_replicas_of(Program::Redis8, 1, &[]));
    let level = LevelOptions {
        on_weaker: OnWeakerLevel::State,
        ..LevelOptions::default()
    };
    let host = OnRedis::at(&servers[0].url(), servers.clone());
    let world = World::new(host.keeping(Durability::Strict, level)).await;
    world.begin(YAML).await;
    world.draw(draw("u")).await;
    let store = world.store().clone();
    assert_eq!(store.durability(), Durability::Strict);
    for (setting, left) in [
        ("appendonly no", Durability::Local),
        ("appendonly yes", Durability::Strict),
    ] {
        set(&servers[1], setting);
        // Until the settings are read, a draw may lack the confirmation of the replica.
        let is_stated = |drawn: Result<()>| {
            let is_stated = drawn.is_ok() && store.durability() == left;
            is_stated.then_some(())
        };
        draw_until(&world, is_stated).await;
        store.now().await.unwrap();
    }
}

/// A master that does not answer says nothing of the settings of the others.
#[tokio::test]
async fn the_settings_of_a_master_are_read_while_another_one_hangs() {
    let cluster = Arc::new(RedisCluster::start());
    for node in &cluster.nodes {
        set(node, "cluster-require-full-coverage no");
    }
    let host = OnRedis::at(&cluster.url(), cluster.clone()).undivided();
    let slot = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", &host.tag()]);
    let own = cluster.owner(&slot);
    let world = World::new(host).await;
    world.begin(YAML).await;
    world.draw(draw("u")).await;
    let other = &cluster.nodes[(own + 1) % cluster.nodes.len()];
    other.freeze();
    set(&cluster.nodes[own], "appendfsync everysec");
    draw_until(&world, |drawn| match drawn {
        Err(StoreError::Unavailable { detail, .. }) => {
            detail.contains("appendfsync is everysec").then_some(())
        }
        _ => None,
    })
    .await;
    set(&cluster.nodes[own], "appendfsync always");
    draw_until(&world, |drawn| drawn.ok()).await;
    other.thaw();
}

/// Weaker settings of two replicas: the replica's index, the setting, and what is said of it.
const OF_REPLICAS: [(usize, &str, &str); 3] = [
    (1, "appendfsync everysec", "has appendfsync everysec"),
    (2, "appendonly no", "has appendonly no"),
    (
        2,
        "replica-priority 50",
        "differ in replica-priority (100, 50)",
    ),
];

#[tokio::test]
async fn draws_are_refused_while_replicas_keep_less_or_differ() {
    let servers = Arc::new(with_replicas(2, &[]));
    let host = OnRedis::at(&servers[0].url(), servers.clone());
    let host = host.keeping(Durability::Strict, LevelOptions::default());
    let world = World::new(host).await;
    world.begin(YAML).await;
    world.draw(draw("u")).await;
    for (index, weaker, _) in OF_REPLICAS {
        set(&servers[index], weaker);
    }
    // Until the settings are read, a draw may lack the confirmation of a replica.
    let says_all = |detail: &str| {
        OF_REPLICAS
            .iter()
            .all(|(_, _, words)| detail.contains(words))
    };
    draw_until(&world, |drawn| match drawn {
        Err(StoreError::Unavailable { executed, detail }) if says_all(&detail) => {
            assert_eq!(executed, Executed::No, "{detail}");
            assert!(detail.contains("--durability strict"), "{detail}");
            Some(())
        }
        _ => None,
    })
    .await;
    assert!(world.store().now().await.is_err(), "health reports it");
    set(&servers[1], "appendfsync always");
    set(&servers[2], "appendonly yes");
    set(&servers[2], "replica-priority 100");
    draw_until(&world, |drawn| drawn.ok()).await;
    world.store().now().await.unwrap();
}
