//! A service is started on a Redis on which it cannot serve: it ends at once, changes nothing there and says what to set.

use std::{path::Path, thread};

use super::{House, directory_with_key, put_key};
use crate::{
    process::{Ended, Start},
    support::redis_server::RedisServer,
};

/// It ends with this code and these words, and never shows a password.
#[track_caller]
fn refused(data: &Path, url: &str, line: &str, code: i32, words: &[&str]) {
    let ended = Start::on_redis(data, url).with(line).fail();
    assert_clear(&ended, url);
    ended.badly(code, words);
}

#[track_caller]
fn assert_clear(ended: &Ended, url: &str) {
    let said = format!("{}{}", ended.stdout, ended.stderr);
    for word in ["secret", "ErrorKind", "user_script", "same request id"] {
        assert!(!said.contains(word), "{url}: {said}");
    }
}

/// The same, and no key has changed.
#[track_caller]
fn leaves(redis: &RedisServer, data: &Path, line: &str, code: i32, words: &[&str]) {
    let before = redis.digest();
    refused(data, &redis.url(), line, code, words);
    assert_eq!(redis.digest(), before, "{line}");
}

/// A house with a store that was served from.
fn used() -> House {
    let house = House::new();
    drop(house.serve());
    house
}

#[test]
fn a_redis_that_is_away_is_told_and_its_password_is_not() {
    let data = directory_with_key();
    let mut redis = RedisServer::start(&[]);
    redis.kill();
    let place = format!("127.0.0.1:{}", redis.port());
    let url = format!("redis://user:secret@{place}");
    refused(
        data.path(),
        &url,
        "",
        69,
        &[&place, "cannot be reached", "check that it runs"],
    );
    let url = "redis://:secret@no-such-host.invalid";
    refused(
        data.path(),
        url,
        "",
        69,
        &["no-such-host.invalid", "cannot be reached"],
    );
}

#[test]
fn a_wrong_password_or_database_is_told() {
    let data = directory_with_key();
    let redis = RedisServer::start(&[
        ("requirepass", "right-secret"),
        ("enable-debug-command", "yes"),
    ]);
    let before = redis.digest();
    let place = format!("127.0.0.1:{}", redis.port());
    for credentials in ["", ":wrong-secret@", "nobody:right-secret@"] {
        let url = format!("redis://{credentials}{place}");
        refused(
            data.path(),
            &url,
            "",
            69,
            &["refuses the user or password", "user:password@"],
        );
    }
    refused(
        data.path(),
        &format!("{}/99", redis.url()),
        "",
        69,
        &["no such database", "/0"],
    );
    assert_eq!(redis.digest(), before);
}

#[test]
fn tls_on_one_side_only_is_told() {
    let data = directory_with_key();
    let redis = RedisServer::start_with_tls(&[("requirepass", "secret")]);
    let plain = redis.tls_url_of_strangers().replace("rediss", "redis");
    refused(data.path(), &plain, "", 69, &["write rediss:// instead"]);
    let tls = redis.url().replace("redis:", "rediss:");
    refused(data.path(), &tls, "", 69, &["write redis:// instead"]);
    refused(
        data.path(),
        &redis.tls_url_of_strangers(),
        "",
        69,
        &["?ca=FILE"],
    );
}

#[test]
fn options_that_cannot_be_right_are_told_before_anything_is_asked() {
    let data = directory_with_key();
    for url in [
        "localhost",
        "http://h",
        "redis://",
        "redis://u:secret@h:99999",
        "redis+sentinel://h",
    ] {
        refused(data.path(), url, "", 64, &["--redis-url"]);
    }
    let url = "redis://127.0.0.1:1";
    let long = format!("--redis-prefix {}", "x".repeat(65));
    for (line, words) in [
        ("--redis-prefix a{b", "--redis-prefix"),
        ("--redis-prefix a:b", "--redis-prefix"),
        (long.as_str(), "--redis-prefix"),
        ("--partitions 0", "--partitions"),
        ("--partitions 1025", "--partitions"),
        ("--durability strictest", "--durability"),
    ] {
        refused(data.path(), url, line, 64, &[words]);
    }
    // Both at once.
    refused(
        data.path(),
        "nowhere",
        "--redis-prefix a{b",
        64,
        &["--redis-url", "--redis-prefix"],
    );
}

#[test]
fn a_redis_that_would_lose_draws_is_refused_with_what_to_set() {
    for (settings, line, words) in [
        (
            ("maxmemory-policy", "allkeys-lru"),
            "",
            ["noeviction", "CONFIG SET maxmemory-policy noeviction"],
        ),
        (
            ("appendonly", "no"),
            "",
            ["appendonly is no", "CONFIG SET appendonly yes"],
        ),
        (
            ("appendonly", "no"),
            "--durability fast",
            ["appendonly is no", "CONFIG SET appendonly yes"],
        ),
        (
            ("appendfsync", "everysec"),
            "--durability local",
            ["CONFIG SET appendfsync always", "--durability fast"],
        ),
        (
            ("appendfsync", "no"),
            "--durability fast",
            ["appendfsync is no", "CONFIG SET appendfsync everysec"],
        ),
    ] {
        let house = House::with(&[settings]);
        leaves(&house.redis, house.data.path(), line, 1, &words);
        assert_eq!(house.redis.command(&["DBSIZE"]), "0");
    }
    let house = House::with(&[("appendfsync", "everysec")]);
    drop(house.start().with("--durability fast").serve());
}

#[test]
fn a_store_is_not_opened_as_another_one() {
    let house = used();
    let (redis, data) = (&house.redis, house.data.path());
    for line in ["--partitions 8", "--partitions 32"] {
        leaves(
            redis,
            data,
            line,
            1,
            &["has 16 partitions", "--partitions 16"],
        );
    }
    leaves(
        redis,
        data,
        "--store-id 0123",
        1,
        &["--store-id expects 0123", "--redis-url", "--redis-prefix"],
    );
    leaves(
        redis,
        data,
        "--clock-start 2026-12-05T12:10:00+08:00",
        1,
        &["TEST clock", "--redis-prefix"],
    );
    let partition = "tombola{0}:partition";
    for format in ["1", "3"] {
        let before = redis.command(&["HGET", partition, "format"]);
        redis.command(&["HSET", partition, "format", format]);
        let found = format!("format {format}");
        leaves(redis, data, "", 1, &[&found, "--redis-prefix"]);
        redis.command(&["HSET", partition, "format", &before]);
    }
    let other = tempfile::tempdir().unwrap();
    leaves(
        redis,
        other.path(),
        "",
        1,
        &["master key", "missing", "another service"],
    );
    put_key(other.path(), "08");
    leaves(
        redis,
        other.path(),
        "",
        1,
        &["master key is not the one", "use the key file"],
    );
    drop(house.serve());
}

#[test]
fn an_empty_redis_is_not_taken_for_the_store_that_is_expected() {
    let house = House::new();
    leaves(
        &house.redis,
        house.data.path(),
        "--store-id 0123",
        1,
        &[
            "holds no store",
            "--store-id expects 0123",
            "restore",
            "leave --store-id out",
        ],
    );
    assert_eq!(house.redis.command(&["DBSIZE"]), "0");
}

#[test]
fn a_prefix_under_which_someone_else_s_keys_lie_is_refused() {
    let house = House::new();
    house.redis.command(&["SET", "mine{3}:x", "1"]);
    let line = "--redis-prefix mine";
    leaves(
        &house.redis,
        house.data.path(),
        line,
        1,
        &["mine{3}:x", "--redis-prefix"],
    );
    drop(house.serve());
}

#[test]
fn a_store_that_cannot_be_made_for_want_of_memory_is_told_and_made_later() {
    let house = House::with(&[("maxmemory", "1")]);
    leaves(
        &house.redis,
        house.data.path(),
        "",
        69,
        &["CONFIG SET maxmemory"],
    );
    house.redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    drop(house.serve());
}

#[test]
fn a_store_that_lost_partitions_is_refused() {
    let house = used();
    let (redis, data) = (&house.redis, house.data.path());
    let kept = redis.command(&["RENAME", "tombola{3}:partition", "kept"]);
    assert_eq!(kept, "OK");
    leaves(
        redis,
        data,
        "",
        1,
        &["has lost 1 of its 16 partitions", "restore"],
    );
    redis.command(&["RENAME", "kept", "tombola{3}:partition"]);
    redis.command(&["RENAME", "tombola{0}:partition", "kept"]);
    leaves(
        redis,
        data,
        "",
        1,
        &["no tombola store", "what was left of a store"],
    );
    redis.command(&["RENAME", "kept", "tombola{0}:partition"]);
    redis.command(&["RENAME", "tombola{5}:partition", "kept"]);
    redis.command(&["SET", "tombola{5}:partition", "x"]);
    leaves(redis, data, "", 1, &["wrong type", "key prefix of its own"]);
    redis.command(&["RENAME", "kept", "tombola{5}:partition"]);
    drop(house.serve());
}

#[test]
fn services_that_begin_at_once_on_an_empty_redis_share_one_store() {
    let house = House::new();
    let servers: Vec<_> = thread::scope(|scope| {
        let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| house.serve())).collect();
        starts
            .into_iter()
            .map(|start| start.join().unwrap())
            .collect()
    });
    for number in 0..16 {
        let key = format!("tombola{{{number}}}:partition");
        let field = |name: &str| house.redis.command(&["HGET", &key, name]);
        let first = house
            .redis
            .command(&["HGET", "tombola{0}:partition", "store"]);
        assert_eq!((field("store"), field("partitions")), (first, "16".into()));
    }
    for server in &servers {
        server.run(&["campaigns"]).well();
    }
}
