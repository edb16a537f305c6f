//! What forgotten requests leave in Redis.

use std::sync::Arc;

use tombola::{
    chance::Salt,
    store::{DrawCommand, Durability, SettledUpTo, redis::LevelOptions},
};

use crate::support::{
    DrawWords as _, World, campaign, draw, hours, on_redis::OnRedis, plain_replicas::with_replicas,
    redis_server::RedisServer, request, user, words::campaign_id,
};

const YAML: &str = "
    consolation: {id: points}
    prizes: [{id: coupon, stock: 5000}]
    pools: [{id: deck, deck: {size: 10000, cards: {coupon: 5000}}}]
";

/// The number of remembered draws: those in `long`, and those in fields of their own.
fn remembered(server: &RedisServer) -> usize {
    let count = "
        local found = 0
        for _, key in ipairs(redis.call('KEYS', '*:users:*')) do
            for _, value in ipairs(redis.call('HVALS', key)) do
                if #value > 20 then found = found + 1 end
            end
        end
        for _, kind in ipairs({ 'older', 'long' }) do
            for _, key in ipairs(redis.call('KEYS', '*:' .. kind .. ':*')) do
                found = found + redis.call('HLEN', key)
            end
        end
        return found";
    server.command(&["EVAL", count, "0"]).parse().unwrap()
}

#[tokio::test]
async fn what_is_forgotten_is_removed() {
    let server = Arc::new(RedisServer::start(&[]));
    let world = World::new(OnRedis::at(&server.url(), server.clone())).await;
    world.begin(YAML).await;
    let mut most = 0;
    for day in 0..6 {
        for n in 0..40 {
            for part in 0..2 {
                let command = draw(&format!("u{n}")).times(1 + n);
                world.draw(command.named(&format!("{day}-{part}"))).await;
            }
        }
        most = most.max(remembered(&server));
        world.pass(hours(25)).await;
        world.tick().await;
        // The draws of the day before are gone.
        assert!(remembered(&server) <= 3 * 40, "day {day}");
    }
    assert!(most > 2 * 40, "all were there, and long ones twice: {most}");
    for _ in 0..3 {
        world.pass(hours(25)).await;
        world.tick().await;
    }
    assert_eq!(remembered(&server), 0);
    world.audit().await;
}

/// More than one call looks at: in one bucket, in each of many side by side, and far apart.
#[tokio::test]
async fn old_draws_are_removed_wherever_they_are() {
    let server = Arc::new(RedisServer::start(&[]));
    let world = World::new(OnRedis::at(&server.url(), server.clone())).await;
    world.begin(YAML).await;
    for name in ["one", "two"] {
        world.draw(draw("u").named(name)).await;
    }
    let copy = "
        local key = redis.call('KEYS', '*:older:*')[1]
        local buckets, draw = string.match(key, '^(.*:)%x+$'), redis.call('HVALS', key)[1]
        for n = 1, 3000 do
            redis.call('HSET', key, n, draw)
            redis.call('HSET', buckets .. string.format('%x', 30000 + n), n, draw)
            redis.call('HSET', buckets .. string.format('%x', 21 * n), n, draw)
        end
        redis.call('HSET', buckets .. '0', 'first', draw)
        redis.call('HSET', buckets .. 'ffff', 'last', draw)";
    server.command(&["EVAL", copy, "0"]);
    assert!(remembered(&server) > 9000);
    // Once more, for a round that had begun before.
    for _ in 0..2 {
        world.pass(hours(25)).await;
        world.tick().await;
    }
    assert_eq!(remembered(&server), 0);
}

/// What the users of a damaged hash had drawn cannot be known, so the buckets are searched.
#[tokio::test]
async fn old_draws_are_removed_though_a_hash_of_users_is_of_another_type() {
    let server = Arc::new(RedisServer::start(&[]));
    let world = World::new(OnRedis::at(&server.url(), server.clone())).await;
    world.begin(YAML).await;
    for name in ["one", "two"] {
        world.draw(draw("u").named(name)).await;
    }
    let damage = "
        local key = redis.call('KEYS', '*:users:*')[1]
        redis.call('SET', key, 'a text')
        return #redis.call('KEYS', '*:older:*')";
    assert_eq!(server.command(&["EVAL", damage, "0"]), "1");
    for _ in 0..2 {
        world.pass(hours(25)).await;
        world.tick().await;
    }
    let left = "return #redis.call('KEYS', '*:older:*')";
    assert_eq!(server.command(&["EVAL", left, "0"]), "0");
}

/// The number of scripts that Redis has run.
fn scripts_run(server: &RedisServer) -> u64 {
    let all = server.command(&["INFO", "commandstats"]);
    let (_, after) = all.split_once("cmdstat_evalsha:calls=").unwrap();
    after.split(',').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn buckets_are_not_searched_where_nobody_has_drawn_twice() {
    let server = Arc::new(RedisServer::start(&[]));
    let world = World::new(OnRedis::at(&server.url(), server.clone())).await;
    world.begin(YAML).await;
    for n in 0..10 {
        let id = format!("c{n}");
        let campaign = campaign(&format!("\n    id: {id}{YAML}"));
        world.try_apply(campaign, 0).await.unwrap();
        let command = DrawCommand {
            campaign: campaign_id(&id),
            ..draw("u").named("once")
        };
        world.draw(command).await;
    }
    world.pass(hours(25)).await;
    let before = scripts_run(&server);
    world.tick().await;
    assert_eq!(remembered(&server), 0);
    let scripts = scripts_run(&server) - before;
    assert!(scripts < 100, "{scripts}");
}

#[tokio::test]
async fn what_is_not_ours_is_left_and_keeps_nothing_else_from_being_forgotten() {
    let server = Arc::new(RedisServer::start(&[]));
    let world = World::new(OnRedis::at(&server.url(), server.clone())).await;
    world.begin(YAML).await;
    for n in 0..100 {
        for part in 0..2 {
            let command = draw(&format!("u{n}"));
            world.draw(command.named(&format!("{part}"))).await;
        }
    }
    let keys = "
        local found = {}
        for _, kind in ipairs({ 'users', 'older' }) do
            for _, key in ipairs(redis.call('KEYS', '*:' .. kind .. ':*')) do
                found[#found + 1] = key
            end
        end
        return table.concat(found, ' ')";
    let keys = server.command(&["EVAL", keys, "0"]);
    for key in keys.split(' ') {
        server.command(&[
            "HSET",
            key,
            "foreign",
            "a value of someone else's, longer than ours are",
        ]);
    }
    let hashes = keys.split(' ').count();
    for _ in 0..3 {
        world.pass(hours(25)).await;
        world.tick().await;
    }
    assert_eq!(
        remembered(&server),
        hashes,
        "all is forgotten but what is foreign"
    );
}

#[tokio::test]
async fn of_two_services_the_one_that_remembers_longer_counts() {
    let server = Arc::new(RedisServer::start(&[]));
    let day = OnRedis::at(&server.url(), server.clone());
    let hour = World::new(day.remembering(hours(1))).await;
    let day = World::new(day).await;
    day.begin(YAML).await;
    day.tick().await;
    let command = draw("u").named("once");
    let first = day.draw(command.clone()).await;
    for _ in 0..12 {
        day.pass(hours(2)).await;
        hour.tick().await;
        day.tick().await;
        hour.tick().await;
    }
    let again = day.draw(command.clone()).await;
    assert!(again.replayed);
    assert_eq!(again.ledger, first.ledger);
    // Each service uses its own retention period when it reads.
    assert!(!hour.draw(command).await.replayed);
    // Once no service remembers for longer, one hour counts.
    for _ in 0..30 {
        hour.pass(hours(2)).await;
        hour.tick().await;
    }
    assert_eq!(remembered(&server), 0);
    day.audit().await;
}

#[tokio::test]
async fn a_code_takes_at_most_40_bytes_more_than_its_text() {
    const CODES: usize = 30_000;
    let server = Arc::new(RedisServer::start(&[]));
    let world = World::new(OnRedis::at(&server.url(), server.clone())).await;
    let coupons = YAML.replace("stock: 5000", "codes: true");
    world.begin(&coupons).await;
    let codes: Vec<_> = (0..CODES + 1_000)
        .map(|index| format!("CODE-{index:011}"))
        .collect();
    // What the first import makes besides is there before.
    world.import("coupon", 0, &codes[..1_000]).await;
    let used = || {
        let info = server.command(&["INFO", "memory"]);
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"));
        line.unwrap().trim().parse::<usize>().unwrap()
    };
    let before = used();
    for (number, part) in codes[1_000..].chunks(10_000).enumerate() {
        world
            .import("coupon", 1_000 + 10_000 * number as u64, part)
            .await;
    }
    let each = (used() - before) / CODES;
    println!("{each} bytes for each code of {} bytes", codes[0].len());
    assert!(each <= codes[0].len() + 40, "{each}");
}

/// What is settled leaves a server that takes no more draws.
#[tokio::test]
async fn settled_entries_leave_a_full_server() {
    let server = Arc::new(RedisServer::start(&[]));
    let host = OnRedis::at(&server.url(), server.clone());
    settled_entries_leave(host.undivided(), &server).await;
}

/// The same where replicas confirm what is read.
#[tokio::test]
async fn settled_entries_leave_a_full_server_at_strict() {
    let servers = Arc::new(with_replicas(1, &[]));
    let host = OnRedis::at(&servers[0].url(), servers.clone());
    let host = host.keeping(Durability::Strict, LevelOptions::default());
    settled_entries_leave(host.undivided(), &servers[0]).await;
}

async fn settled_entries_leave(host: OnRedis, server: &RedisServer) {
    let ledger = format!("{}ledger", host.tag());
    let world = World::new(host).await;
    world.begin(YAML).await;
    for number in 0..300 {
        let command = draw(&format!("u{number}")).named("one");
        world.draw(command).await;
    }
    let entries = || -> usize { server.command(&["XLEN", &ledger]).parse().unwrap() };
    let before = entries();
    let words = ["CONFIG", "SET", "maxmemory", "1"];
    assert_eq!(server.command(&words), "OK");
    assert!(world.try_draw(draw("v")).await.is_err(), "it is full");
    let store = world.store();
    let read = store.unsettled(0, None, 10_000).await.unwrap();
    let settled = SettledUpTo {
        sequence: read.entries.last().unwrap().id.sequence,
        fork: read.fork,
    };
    store.salt(0, "spring", Salt([7; 32])).await.unwrap();
    assert!(store.trim(0, &settled).await.unwrap());
    assert!(entries() < before, "{} of {before}", entries());
    let name = (campaign_id("spring"), user("u1"), request("one"));
    let found = store.find_draw(&name.0, &name.1, &name.2).await.unwrap();
    assert!(found.replayed);
    let words = ["CONFIG", "SET", "maxmemory", "0"];
    assert_eq!(server.command(&words), "OK");
}
