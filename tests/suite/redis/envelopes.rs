//! How much of Redis's memory envelopes need, and what they leave behind.

use std::sync::Arc;

use crate::support::{
    EnvelopeWords as _, Outcome as _, World, all_of, envelope, envelope_id, hours,
    on_redis::OnRedis, redis_server::RedisServer,
};

/// Bytes of an envelope with 500 packets before any grab, and bytes of each grab.
const ENVELOPE_BYTES_MAX: usize = 3 * 1024;
const GRAB_BYTES_MAX: usize = 48;

async fn world() -> (Arc<RedisServer>, World) {
    let server = Arc::new(RedisServer::start(&[]));
    let world = World::new(OnRedis::at(&server.url(), server.clone())).await;
    (server, world)
}

/// Bytes of the keys that match.
fn bytes(server: &RedisServer, pattern: &str) -> usize {
    let sum = "
        local bytes = 0
        for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
            bytes = bytes + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0)
        end
        return bytes";
    let reply = server.command(&["EVAL", sum, "0", pattern]);
    reply.parse().unwrap()
}

/// The encodings of the keys that match, each once.
fn encodings(server: &RedisServer, pattern: &str) -> String {
    let list = "
        local seen, list = {}, {}
        for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
            local encoding = redis.call('OBJECT', 'ENCODING', key)
            if not seen[encoding] then
                seen[encoding] = true
                list[#list + 1] = encoding
            end
        end
        table.sort(list)
        return table.concat(list, ' ')";
    server.command(&["EVAL", list, "0", pattern])
}

/// The number of keys that match.
fn keys(server: &RedisServer, pattern: &str) -> usize {
    let count = "return #redis.call('KEYS', ARGV[1])";
    let reply = server.command(&["EVAL", count, "0", pattern]);
    reply.parse().unwrap()
}

/// A UUID that depends only on `n`, so that the test is the same each time.
fn uuid(n: usize) -> String {
    let bits = (n as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let part = |shift: u32, bits_wanted: u32| (bits >> shift) & ((1 << bits_wanted) - 1);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 32),
        part(80, 16),
        part(64, 16),
        part(48, 16),
        part(0, 48)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_takes_kilobytes_and_a_grab_some_ten_bytes() {
    let (server, world) = world().await;
    world.create(&envelope("e", 1_000_000, 500)).await;
    while world.envelope("e").await.filled == 0 {
        tokio::task::yield_now().await;
    }
    let before = bytes(&server, "*:e");
    assert_eq!(encodings(&server, "*:packets:e"), "listpack");
    assert!(before <= ENVELOPE_BYTES_MAX, "{before} bytes");
    let grab = |n: usize| {
        let world = world.clone();
        async move { world.grab("e", &uuid(n)).await }
    };
    let outcomes = all_of(500, grab).await;
    assert!(outcomes.iter().all(|outcome| outcome.got().is_some()));
    let each = bytes(&server, "*:grabs:e:*") / 500;
    println!("{before} bytes an envelope, {each} bytes a grab");
    assert_eq!(encodings(&server, "*:grabs:e:*"), "listpack");
    assert!(each <= GRAB_BYTES_MAX, "{each} bytes a grab");
    world.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_ids_do_not_enlarge_the_buckets_of_others() {
    let (server, world) = world().await;
    world.create(&envelope("e", 1_000_000, 300)).await;
    for n in 0..120 {
        let id = match n % 3 {
            0 => format!("{n}-{}", "x".repeat(120)),
            1 => format!("{n}-{}", "y".repeat(40)),
            _ => uuid(n),
        };
        let first = world.grab("e", &id).await;
        assert_eq!(world.grab("e", &id).await.packet(), first.got());
    }
    assert_eq!(encodings(&server, "*:grabs:e:?"), "listpack");
    assert_eq!(encodings(&server, "*:grabs:e:*:long"), "hashtable");
    assert_eq!(world.grabs_of("e").await.len(), 120);
    world.audit().await;
}

/// Envelopes with many buckets, of which few exist, and with lists of allowed users.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_removed_envelope_stays_but_that_its_id_was_used() {
    let (server, world) = world().await;
    world.create(&envelope("large", 1_000_000, 100_000)).await;
    let restricted = envelope("few", 1_000, 200).only_for(&["u0", "u1", "u2"]);
    world.create(&restricted).await;
    for id in ["large", "few"] {
        for user in ["u0", "u1", &"u2".repeat(60)] {
            world.grab(id, user).await;
        }
    }
    world.pass(hours(24)).await;
    world.tick().await;
    world.pass(hours(8 * 24)).await;
    world.tick().await;
    for id in ["large", "few"] {
        assert!(world.is_no_envelope(id).await);
        assert_eq!(keys(&server, &format!("*:{id}")), 0);
        assert_eq!(keys(&server, &format!("*:{id}:*")), 0);
    }
    assert_eq!(keys(&server, "*:envelopes:open"), 0);
    assert_eq!(keys(&server, "*:envelopes:settled"), 0);
    assert_eq!(keys(&server, "*:envelopes:removed:*"), 2);
    world.audit().await;
}

/// The sum of two thousand of the largest envelopes is more than 2^63 minor units.
#[tokio::test(flavor = "multi_thread")]
async fn sums_beyond_all_integers_are_exact() {
    const AMOUNT: u64 = (1 << 53) - 1;
    const ENVELOPES: usize = 2_000;
    let (_server, world) = world().await;
    let work = |n: usize| {
        let world = world.clone();
        async move {
            let id = format!("e{n}");
            world.create(&envelope(&id, AMOUNT as i64, 1)).await;
            world.grab(&id, "u").await
        }
    };
    let outcomes = all_of(ENVELOPES, work).await;
    assert!(outcomes.iter().all(|outcome| outcome.got().is_some()));
    let sums = world.store().envelope_sums().await.unwrap().sums;
    let all = u128::from(AMOUNT) * ENVELOPES as u128;
    assert!(all > 1 << 63);
    assert_eq!((sums[0].created_minor, sums[0].grabbed_minor), (all, all));
    assert_eq!((sums[0].waiting_minor, sums[0].open), (0, 0));
    assert!(sums[0].balanced());
}

/// Another envelope has the same id, as after a rollback: the service must not use what it has
/// cached of the first one.
#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_that_is_not_the_one_known_is_read_again() {
    let (server, world) = world().await;
    world.create(&envelope("e", 100, 10)).await;
    assert!(world.grab("e", "u").await.got().is_some());
    let other = world.another_replica().await;
    let remove = "
        for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
            redis.call('DEL', key)
        end
        for _, key in ipairs(redis.call('KEYS', '*:envelopes:open')) do
            redis.call('ZREM', key, 'e')
        end";
    for pattern in ["*:e", "*:e:*"] {
        server.command(&["EVAL", remove, "0", pattern]);
    }
    other.create(&envelope("e", 5_000, 5)).await;
    let command = crate::support::envelopes::grab_command("e", "v");
    let answer = world.injector().grab(command).await.unwrap();
    assert_eq!(answer.envelope.total_minor, 5_000);
    assert_eq!(answer.outcome.got().unwrap().number, 1);
    let grabs = world.store().grabs(&envelope_id("e"), 0, 10).await.unwrap();
    assert_eq!(grabs.len(), 1);
}
