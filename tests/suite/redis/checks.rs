//! A Redis that would lose draws is refused, and the error lists everything to change.

use std::time::Duration;

use tombola::{
    model::Moment,
    store::{
        Durability,
        clock::{Clock as _, SystemClock},
        redis::{CheckError, Checked, check},
    },
};

use super::connections;
use crate::support::redis_server::RedisServer;

async fn checked(url: &str, durability: Durability) -> Result<Checked, CheckError> {
    checked_at(url, durability, SystemClock.now()).await
}

async fn checked_at(url: &str, durability: Durability, now: Moment) -> Result<Checked, CheckError> {
    check(&connections(url), durability, now).await
}

#[tokio::test]
async fn settings_that_keep_draws_are_accepted() {
    let server = RedisServer::start(&[]);
    for durability in [Durability::Local, Durability::Fast] {
        let found = checked(&server.url(), durability).await.unwrap();
        assert_eq!(found.warnings, [""; 0]);
        assert!(found.skew_micros.abs() < 1_000_000, "{found:?}");
    }
    let server = RedisServer::start(&[("appendfsync", "everysec")]);
    checked(&server.url(), Durability::Fast).await.unwrap();
}

#[tokio::test]
async fn settings_that_lose_draws_are_refused_with_what_to_write() {
    for (settings, durability, word) in [
        (
            &[("appendonly", "no")][..],
            Durability::Fast,
            "CONFIG SET appendonly yes",
        ),
        (
            &[("appendfsync", "no")],
            Durability::Fast,
            "CONFIG SET appendfsync everysec",
        ),
        (
            &[("appendfsync", "everysec")],
            Durability::Local,
            "CONFIG SET appendfsync always",
        ),
        (
            &[("appendfsync", "everysec")],
            Durability::Local,
            "--durability fast",
        ),
        (
            &[("maxmemory-policy", "allkeys-lru")],
            Durability::Local,
            "CONFIG SET maxmemory-policy noeviction",
        ),
        (
            &[("replicaof", "127.0.0.1 1")],
            Durability::Local,
            "it is a replica of 127.0.0.1:1",
        ),
    ] {
        let server = RedisServer::start(settings);
        let error = checked(&server.url(), durability)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(word), "{settings:?}: {error}");
        assert_eq!(error.lines().count(), 2, "{settings:?}: {error}");
    }
}

#[tokio::test]
async fn all_problems_are_reported_at_once() {
    let server = RedisServer::start(&[
        ("appendonly", "no"),
        ("appendfsync", "no"),
        ("maxmemory-policy", "volatile-ttl"),
    ]);
    let error = checked(&server.url(), Durability::Local).await.unwrap_err();
    let CheckError::Unfit(problems) = error else {
        panic!("{error}");
    };
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[tokio::test]
async fn a_user_who_may_not_see_the_settings() {
    let server = RedisServer::start(&[]);
    let words = [
        "ACL", "SETUSER", "draws", "on", ">x", "~*", "+@all", "-config",
    ];
    assert_eq!(server.command(&words), "OK");
    let url = format!("redis://draws:x@127.0.0.1:{}", server.port());
    let found = checked(&url, Durability::Fast).await.unwrap();
    assert!(found.warnings[0].contains("+config|get"), "{found:?}");
    let error = checked(&url, Durability::Local)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("+config|get") && error.contains("--durability fast"),
        "{error}"
    );

    let words = ["ACL", "SETUSER", "draws", "-eval", "-info"];
    assert_eq!(server.command(&words), "OK");
    let error = checked(&url, Durability::Fast)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("+info") && error.contains("may not run scripts"),
        "{error}"
    );

    // The permissions that the text names are sufficient.
    let words = [
        "ACL",
        "SETUSER",
        "draws",
        "reset",
        "on",
        ">x",
        "~*",
        "+@all",
        "-@admin",
        "-@dangerous",
        "+info",
        "+config|get",
    ];
    assert_eq!(server.command(&words), "OK");
    let found = checked(&url, Durability::Local).await.unwrap();
    assert_eq!(found.warnings, [""; 0]);
}

#[tokio::test]
async fn clocks_that_differ_are_reported() {
    let server = RedisServer::start(&[]);
    let behind = SystemClock.now() - Duration::from_secs(90);
    let found = checked_at(&server.url(), Durability::Local, behind)
        .await
        .unwrap();
    assert!(
        (89_000_000..91_000_000).contains(&found.skew_micros),
        "{found:?}"
    );
    assert!(found.warnings[0].contains("ahead of"), "{found:?}");
    assert!(found.warnings[0].contains("NTP"), "{found:?}");
}
