//! A service is started on a Redis on which it cannot serve: it ends at once, changes nothing there
//! and says what to do.

use std::{fs, path::Path, thread};

use tombola::store::redis::Upgrade;

use super::{House, directory_with_key, put_key};
use crate::{
    process::{Ended, Start},
    support::{certificates, redis_server::RedisServer},
};

/// Asserts that it ends with this code and these words, and shows no password.
#[track_caller]
pub(super) fn refused(data: &Path, url: &str, line: &str, code: i32, words: &[&str]) {
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

/// Asserts the same, and that no key has changed.
#[track_caller]
fn leaves(redis: &RedisServer, data: &Path, line: &str, code: i32, words: &[&str]) {
    let before = redis.digest();
    refused(data, &redis.url(), line, code, words);
    assert_eq!(redis.digest(), before, "{line}");
}

/// A Redis with a store that a service has used.
fn used() -> House {
    let house = House::new();
    drop(house.serve());
    house
}

#[test]
fn a_redis_that_is_away_is_named_without_its_password() {
    let data = directory_with_key();
    let mut redis = RedisServer::start(&[]);
    redis.kill();
    let address = format!("127.0.0.1:{}", redis.port());
    let url = format!("redis://user:secret@{address}");
    refused(
        data.path(),
        &url,
        "--wait=false",
        69,
        &[&address, "cannot be reached", "check that it runs"],
    );
    let url = "redis://:secret@no-such-host.invalid";
    refused(
        data.path(),
        url,
        "--wait=false",
        69,
        &["no-such-host.invalid", "cannot be reached"],
    );
}

#[test]
fn a_wrong_password_or_database_is_reported() {
    let data = directory_with_key();
    let redis = RedisServer::start(&[
        ("requirepass", "right-secret"),
        ("enable-debug-command", "yes"),
    ]);
    let before = redis.digest();
    let address = format!("127.0.0.1:{}", redis.port());
    for credentials in ["", ":wrong-secret@", "nobody:right-secret@"] {
        let url = format!("redis://{credentials}{address}");
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
fn tls_on_one_side_only_is_reported() {
    let data = directory_with_key();
    let redis = RedisServer::start_with_tls(certificates::of_redis(), &[("requirepass", "secret")]);
    let plain = redis.tls_url_of_strangers().replace("rediss", "redis");
    refused(
        data.path(),
        &plain,
        "--wait=false",
        69,
        &["write rediss:// instead"],
    );
    let tls = redis.url().replace("redis:", "rediss:");
    refused(
        data.path(),
        &tls,
        "--wait=false",
        69,
        &["write redis:// instead"],
    );
    refused(
        data.path(),
        &redis.tls_url_of_strangers(),
        "--wait=false",
        69,
        &["?ca=FILE"],
    );
}

#[test]
fn wrong_options_are_reported_before_redis_is_asked() {
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
    house.start().with("--durability fast").init().well();
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
    let newer = Upgrade::FORMAT + 1;
    for (format, words) in [
        (1, ["format 1", "--redis-prefix"]),
        (2, ["format 2", "tombola upgrade --finish"]),
        (
            newer,
            [&*format!("format {newer}"), "run the newer version"],
        ),
    ] {
        let before = redis.command(&["HGET", partition, "min_reader"]);
        redis.command(&["HSET", partition, "min_reader", &format.to_string()]);
        leaves(redis, data, "", 1, &words);
        redis.command(&["HSET", partition, "min_reader", &before]);
    }
    let other = tempfile::tempdir().unwrap();
    leaves(
        redis,
        other.path(),
        "",
        1,
        &[
            "master key",
            "missing",
            "another service",
            "tombola key generate",
        ],
    );
    leaves(
        redis,
        other.path(),
        "--init-if-empty",
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
fn serve_never_makes_a_store_and_says_what_does() {
    let house = House::with(&[]);
    let words = ["no store under the prefix", "restore", "tombola init"];
    leaves(&house.redis, house.data.path(), "", 1, &words);
    assert_eq!(house.redis.command(&["DBSIZE"]), "0");
}

#[test]
fn an_empty_redis_is_not_taken_for_the_store_that_is_expected() {
    let house = House::with(&[]);
    let words = [
        "holds no store",
        "--store-id expects 0123",
        "restore",
        "tombola init --begin-anew 0123",
    ];
    let line = "--store-id 0123";
    for line in [line, "--store-id 0123 --init-if-empty"] {
        leaves(&house.redis, house.data.path(), line, 1, &words);
    }
    house.start().with(line).init().badly(1, &words);
    assert_eq!(house.redis.command(&["DBSIZE"]), "0");
}

#[test]
fn a_prefix_under_which_someone_else_s_keys_lie_is_refused() {
    let house = House::new();
    house.redis.command(&["SET", "mine{3}:x", "1"]);
    let line = "--redis-prefix mine";
    let words = ["mine{3}:x", "--redis-prefix"];
    leaves(&house.redis, house.data.path(), line, 1, &words);
    house.start().with(line).init().badly(1, &words);
    drop(house.serve());
}

#[test]
fn a_store_that_cannot_be_made_without_memory_is_reported_and_made_later() {
    let house = House::with(&[("maxmemory", "1")]);
    let before = house.redis.digest();
    house.start().init().badly(69, &["CONFIG SET maxmemory"]);
    assert_eq!(house.redis.digest(), before);
    house.redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    house.start().init().well();
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
        &["has lost 1 of its 16 partitions", "restore", "tombola init"],
    );
    let words = ["has lost 1 of its 16 partitions"];
    house.start().init().badly(1, &words);
    let id = store_id(&house);
    house
        .start()
        .with(&format!("--begin-anew {id}"))
        .init()
        .badly(1, &words);
    redis.command(&["RENAME", "kept", "tombola{3}:partition"]);
    redis.command(&["RENAME", "tombola{0}:partition", "kept"]);
    leaves(
        redis,
        data,
        "",
        1,
        &["has lost 1 of its 16 partitions", "restore"],
    );
    redis.command(&["RENAME", "kept", "tombola{0}:partition"]);
    redis.command(&["RENAME", "tombola{5}:partition", "kept"]);
    redis.command(&["SET", "tombola{5}:partition", "x"]);
    leaves(redis, data, "", 1, &["wrong type", "key prefix of its own"]);
    redis.command(&["RENAME", "kept", "tombola{5}:partition"]);
    drop(house.serve());
}

/// The id of the store in Redis.
fn store_id(house: &House) -> String {
    house
        .redis
        .command(&["HGET", "tombola{0}:partition", "store"])
}

#[test]
fn stores_that_are_made_at_once_on_an_empty_redis_are_one_store() {
    let house = House::with(&[]);
    let said: Vec<_> = thread::scope(|scope| {
        let made: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| house.start().init().well()))
            .collect();
        made.into_iter().map(|made| made.join().unwrap()).collect()
    });
    let id = store_id(&house);
    for said in &said {
        assert!(said.contains(&format!("--store-id {id}")), "{said}");
    }
    for number in 0..16 {
        let key = format!("tombola{{{number}}}:partition");
        let field = |name: &str| house.redis.command(&["HGET", &key, name]);
        assert_eq!(
            (field("store"), field("partitions")),
            (id.clone(), "16".into())
        );
    }
    let servers = [house.serve(), house.serve()];
    for server in &servers {
        server.run(&["campaigns"]).well();
    }
}

#[test]
fn a_store_whose_making_was_stopped_is_not_served_from_and_is_made_to_its_end() {
    let house = House::new();
    let (redis, data) = (&house.redis, house.data.path());
    let id = store_id(&house);
    redis.command(&["HDEL", "tombola{0}:partition", "whole"]);
    redis.command(&["DEL", "tombola{14}:partition", "tombola{15}:partition"]);
    leaves(redis, data, "", 1, &["is not whole", "tombola init"]);
    put_key(data, "08");
    house
        .start()
        .init()
        .badly(1, &["master key is not the one"]);
    put_key(data, "07");
    assert!(house.start().init().well().contains(&id));
    assert_eq!(
        redis.command(&["HGET", "tombola{15}:partition", "store"]),
        id
    );
    drop(house.serve());
}

#[test]
fn an_emptied_redis_is_refused_whoever_restarts_until_the_store_is_given_up_by_name() {
    let house = House::new();
    let (redis, data) = (&house.redis, house.data.path());
    let lost = store_id(&house);
    let begin_anew = format!("--begin-anew {lost}");
    let there = house.start().with(&begin_anew).init();
    there.badly(1, &["is whole", "nothing to begin anew"]);
    drop(house.serve());
    redis.command(&["FLUSHALL"]);
    let words = ["holds no store", "tombola.store-id", &lost, "--begin-anew"];
    leaves(redis, data, "", 1, &words);
    leaves(redis, data, "--init-if-empty", 1, &words);
    house.start().init().badly(1, &words);
    let other = house.start().with("--begin-anew 0123").init();
    other.badly(1, &["gives up the store 0123", &lost]);
    assert_eq!(redis.command(&["DBSIZE"]), "0");

    // A service elsewhere that knows the lost store does not accept the new one.
    let elsewhere = directory_with_key();
    let id_file = "tombola.store-id";
    fs::copy(data.join(id_file), elsewhere.path().join(id_file)).unwrap();
    let said = house.start().with(&begin_anew).init().well();
    let made = store_id(&house);
    assert!(made != lost && said.contains(&made), "{said}");
    // The command is repeated, as after a crash before the new id was written to the file.
    fs::copy(elsewhere.path().join(id_file), data.join(id_file)).unwrap();
    assert!(
        house
            .start()
            .with(&begin_anew)
            .init()
            .well()
            .contains(&made)
    );
    drop(house.serve());
    leaves(redis, elsewhere.path(), "", 1, &[&lost, &made, "given up"]);
    let named = format!("--store-id {made}");
    drop(
        Start::on_redis(elsewhere.path(), &redis.url())
            .with(&named)
            .serve(),
    );
    drop(Start::on_redis(elsewhere.path(), &redis.url()).serve());
}

#[test]
fn a_first_try_makes_key_and_store() {
    let house = House::with(&[]);
    let data = tempfile::tempdir().unwrap();
    let start = || Start::on_redis(data.path(), &house.redis.url());
    start()
        .fail()
        .badly(1, &["master key", "tombola key generate"]);
    start()
        .init()
        .badly(1, &["master key", "tombola key generate"]);
    drop(start().with("--init-if-empty").serve());
    drop(start().serve());
}

#[test]
fn init_tells_programs_what_it_made() {
    let house = House::with(&[]);
    let init = || {
        let options = "--json --redis-prefix mine --partitions 3";
        let said = house.start().with(options).init().well();
        serde_json::from_str::<serde_json::Value>(&said).unwrap()
    };
    let made = init();
    let id = house.redis.command(&["HGET", "mine{2}:partition", "store"]);
    assert_eq!(made["storeId"], id.as_str());
    assert_eq!(
        (&made["isNew"], &made["partitions"]),
        (&true.into(), &3.into())
    );
    let kept = fs::read_to_string(made["storeIdFile"].as_str().unwrap()).unwrap();
    assert_eq!(kept.trim(), id);
    let again = init();
    assert_eq!(
        (&again["storeId"], &again["isNew"]),
        (&made["storeId"], &false.into())
    );
    // Nobody can make a file there.
    let nowhere = Start::on_redis(Path::new("/proc"), &house.redis.url());
    let key = house.data.path().join("master.key");
    let options = "--json --redis-prefix mine --partitions 3 --master-key";
    let options = format!("{options} {}", key.display());
    let said = nowhere.with(&options).init().well();
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(told["storeId"], made["storeId"]);
    assert!(told["storeIdFile"].is_null(), "{told:#}");
    let embedded = Start::on(house.data.path()).init();
    embedded.badly(64, &["--redis-url is missing", "tombola serve"]);
}
