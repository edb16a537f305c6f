//! Clusters, and the lookup of the master through Sentinel.

use tombola::{
    model::Moment,
    store::{
        Durability, Executed,
        clock::{Clock as _, SystemClock},
        redis::{FaultKind, check},
    },
};

use super::{COUNT, assert_kind, connections, fault_of, run};
use crate::support::{
    redis_group::{RedisCluster, RedisSentinel},
    redis_server::RedisServer,
};

fn now() -> Moment {
    SystemClock.now()
}

#[tokio::test]
async fn a_cluster_is_used_and_checked_as_a_whole() {
    let mut cluster = RedisCluster::start();
    let connections = connections(&cluster.url());
    for slot in 0..100 {
        run(&connections, COUNT, &format!("{{{slot}}}n"))
            .await
            .unwrap();
    }
    let kept = cluster.nodes.iter().map(|node| node.command(&["DBSIZE"]));
    let kept: Vec<u32> = kept.map(|size| size.parse().unwrap()).collect();
    assert_eq!(kept.iter().sum::<u32>(), 100);
    assert!(kept.iter().all(|&size| size > 10), "{kept:?}");

    let masters = connections.each_master().await.unwrap();
    let mut found: Vec<_> = masters
        .iter()
        .map(|master| master.address().to_owned())
        .collect();
    let mut there: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| format!("127.0.0.1:{}", node.port()))
        .collect();
    found.sort();
    there.sort();
    assert_eq!(found, there);
    check(&connections, Durability::Local, now()).await.unwrap();

    // A wrong setting of one node is reported with the node's address.
    cluster.nodes[1].command(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let error = check(&connections, Durability::Local, now())
        .await
        .unwrap_err()
        .to_string();
    let port = cluster.nodes[1].port();
    assert!(
        error.contains(&format!("127.0.0.1:{port}: appendfsync is everysec")),
        "{error}"
    );
    assert_eq!(error.lines().count(), 2, "{error}");

    // One node is down: calls fail within the time limits, and then succeed again.
    cluster.nodes[1].kill();
    let mut faults = 0;
    for slot in 0..20 {
        match run(&connections, COUNT, &format!("{{{slot}}}n")).await {
            Ok(_) => {}
            Err(fault) => {
                faults += 1;
                // A connection that breaks leaves the outcome unknown; one that cannot be made has
                // sent nothing.
                let executed = match fault.kind {
                    FaultKind::Lost => Executed::Unknown,
                    _ => Executed::No,
                };
                assert_eq!(fault.executed, executed, "{fault}");
                if faults == 2 {
                    break;
                }
            }
        }
    }
    assert!(faults > 0);
    cluster.nodes[1].restart();
    cluster.wait_until_whole();
    for slot in 0..100 {
        run(&connections, COUNT, &format!("{{{slot}}}n"))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn the_error_of_a_url_of_the_wrong_kind_names_the_right_one() {
    let cluster = RedisCluster::start();
    let urls = cluster.nodes.iter().map(RedisServer::url);
    let mut moved = 0;
    for url in urls {
        match run(&connections(&url), COUNT, "n").await {
            Ok(_) => {}
            Err(fault) => {
                moved += 1;
                assert_kind(&fault, FaultKind::WrongTopology, &["redis+cluster://"]);
            }
        }
        let error = check(&connections(&url), Durability::Fast, now())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("redis+cluster://"), "{error}");
    }
    assert_eq!(moved, 2);
    let alone = RedisServer::start(&[]);
    let fault = fault_of(&format!("redis+cluster://127.0.0.1:{}", alone.port())).await;
    assert_kind(&fault, FaultKind::WrongTopology, &["redis://"]);
}

#[tokio::test]
async fn sentinel_is_asked_for_the_master() {
    let server = RedisServer::start(&[("requirepass", "x")]);
    let sentinel = RedisSentinel::start(&server);
    let connections = connections(&sentinel.url("main"));
    run(&connections, COUNT, "n").await.unwrap();
    check(&connections, Durability::Local, now()).await.unwrap();
    let fault = fault_of(&sentinel.url("other")).await;
    assert_kind(&fault, FaultKind::NoMaster, &["SENTINEL MASTERS"]);
}

#[tokio::test]
async fn a_slot_that_moved_is_followed() {
    let cluster = RedisCluster::start();
    let connections = connections(&cluster.url());
    run(&connections, COUNT, "{other}n").await.unwrap();
    let slot = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", "n"]);
    let ids = cluster
        .nodes
        .iter()
        .map(|node| node.command(&["CLUSTER", "MYID"]));
    let ids: Vec<String> = ids.collect();
    for id in &ids {
        // The new owner is set first, so that it has the newest epoch for the slot.
        let owner = cluster
            .nodes
            .iter()
            .zip(&ids)
            .find(|(_, other)| *other == id)
            .unwrap()
            .0;
        owner.command(&["DEL", "n"]);
        for node in std::iter::once(owner).chain(&cluster.nodes) {
            assert_eq!(
                node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", id]),
                "OK"
            );
        }
        run(&connections, COUNT, "n").await.unwrap();
        assert_eq!(owner.command(&["GET", "n"]), "1");
        assert_eq!(owner.command(&["DEL", "n"]), "1");
    }
}

#[tokio::test]
async fn nobody_there() {
    let mut server = RedisServer::start(&[]);
    server.kill();
    let host = format!("127.0.0.1:{}", server.port());
    for url in [
        format!("redis+cluster://{host}"),
        format!("redis+sentinel://{host}/main"),
    ] {
        let fault = fault_of(&url).await;
        assert_kind(&fault, FaultKind::Unreachable, &["refused", &url]);
        assert_eq!(fault.executed, tombola::store::Executed::No);
    }
}

#[tokio::test]
async fn a_wrong_password_is_reported_through_a_cluster_and_through_sentinel() {
    let node = RedisServer::start(&[("cluster-enabled", "yes"), ("requirepass", "right-secret")]);
    let url = node
        .url()
        .replace("redis://:right", "redis+cluster://:wrong");
    let fault = fault_of(&url).await;
    assert_kind(&fault, FaultKind::Password, &["user:password@"]);
    let master = RedisServer::start(&[("requirepass", "right-secret")]);
    let sentinel = RedisSentinel::start(&master);
    let fault = fault_of(&sentinel.url("main").replace("right", "wrong")).await;
    assert_kind(&fault, FaultKind::Password, &["user:password@"]);
    assert!(!fault.text.contains("secret"), "{fault}");
}
