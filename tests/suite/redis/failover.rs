//! The master changes: with Sentinel, and in a cluster.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tombola::store::{
    Executed,
    redis::{Connections, FaultKind, Script},
};

use super::{COUNT, assert_kind, connections, run};
use crate::support::{
    redis_server::{RedisServer, until},
    sentinel_minimal::{Watched, one_shard, with_replicas},
};

const PUT: &str = "redis.call('HSET', KEYS[1], ARGV[1], '1') return 1";

/// Writes that were acknowledged, one after another under a name of their own.
struct Writer {
    acknowledged: Vec<String>,
    unknown: usize,
}

/// Writes until it is told to stop.
async fn write(connections: Arc<Connections>, name: usize, stop: Arc<AtomicBool>) -> Writer {
    let script = Script::new(&[PUT]);
    let mut writer = Writer {
        acknowledged: Vec::new(),
        unknown: 0,
    };
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let field = format!("{name}-{number}");
        let written = connections
            .write(&script, &["h"].into(), &[&field].into())
            .await;
        match written {
            Ok(_) => writer.acknowledged.push(field),
            Err(fault) if fault.executed == Executed::Unknown => writer.unknown += 1,
            Err(_) => tokio::task::yield_now().await,
        }
    }
    writer
}

/// Four writers while something happens; what they wrote is all on the server that it gives.
async fn loses_nothing(
    connections: Connections,
    disturb: impl FnOnce() -> Box<dyn Fn(&[&str]) -> String>,
) {
    let connections = Arc::new(connections);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|name| tokio::spawn(write(connections.clone(), name, stop.clone())))
        .collect();
    let primary = tokio::task::block_in_place(disturb);
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = 0;
    for writer in writers {
        let writer = writer.await.unwrap();
        assert!(!writer.acknowledged.is_empty());
        acknowledged += writer.acknowledged.len();
        for field in &writer.acknowledged {
            assert_eq!(primary(&["HGET", "h", field]), "1", "{field} is lost");
        }
    }
    assert!(acknowledged > 100, "{acknowledged}");
}

fn writes_flow(server: &RedisServer) {
    let size = || server.command(&["HLEN", "h"]).parse::<u32>().unwrap();
    let before = size();
    until("writes flow", || size() > before + 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn planned_failovers_lose_no_confirmed_write() {
    let watched = Arc::new(Watched::start(2));
    let connections = connections(&watched.url()).confirming(None);
    loses_nothing(connections, || {
        writes_flow(&watched.servers[0]);
        for _ in 0..2 {
            let primary = watched.fail_over();
            writes_flow(&watched.servers[primary]);
            watched.wait_until_replicated();
        }
        let watched = Arc::clone(&watched);
        Box::new(move |words| watched.servers[watched.primary()].command(words))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_dies_takes_no_confirmed_write_along() {
    let mut watched = Watched::start(2);
    let connections = connections(&watched.url()).confirming(None);
    loses_nothing(connections, || {
        writes_flow(&watched.servers[0]);
        watched.servers[0].kill();
        until("a replica is promoted", || watched.primary() != 0);
        let primary = watched.primary();
        writes_flow(&watched.servers[primary]);
        Box::new(move |words| watched.servers[primary].command(words))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_replica_of_a_shard_is_followed_and_lacks_no_confirmed_write() {
    let nodes = one_shard();
    let url = format!("redis+cluster://127.0.0.1:{}", nodes[0].port());
    loses_nothing(connections(&url).confirming(None), || {
        writes_flow(&nodes[0]);
        assert_eq!(nodes[1].command(&["CLUSTER", "FAILOVER"]), "OK");
        until("the replica is promoted", || {
            nodes[1].command(&["ROLE"]).starts_with("master")
        });
        writes_flow(&nodes[1]);
        Box::new(move |words| nodes[1].command(words))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_ends_at_once_when_the_master_changes() {
    let watched = Watched::start(1);
    let connections = Arc::new(connections(&watched.url()));
    run(&connections, COUNT, "n").await.unwrap();
    let waiting = tokio::spawn({
        let connections = Arc::clone(&connections);
        async move {
            let mut wait = ::redis::cmd("BLPOP");
            wait.arg("nothing").arg(0);
            // A wait that began too early ends by its time-out, long before or long after the
            // switch.
            loop {
                match connections.command(&wait).await {
                    Err(fault) if fault.kind == FaultKind::TimedOut => {}
                    answer => return answer,
                }
            }
        }
    });
    let primary = tokio::task::block_in_place(|| watched.fail_over());
    let fault = waiting.await.unwrap().unwrap_err();
    assert_kind(&fault, FaultKind::MasterChanged, &["another master now"]);
    assert_eq!(fault.executed, Executed::Unknown);
    run(&connections, COUNT, "m").await.unwrap();
    assert_eq!(watched.servers[primary].command(&["GET", "m"]), "1");
}

#[tokio::test]
async fn a_server_that_says_it_is_a_replica_is_refused() {
    let servers = with_replicas(1, &[]);
    let fault = run(&connections(&servers[1].url()), COUNT, "n")
        .await
        .unwrap_err();
    let master = format!("it is a replica of 127.0.0.1:{}", servers[0].port());
    assert_kind(&fault, FaultKind::ReadOnly, &[&master, "redis+sentinel://"]);
    assert_eq!(fault.executed, Executed::No);

    // Connections of before are not used either once it is demoted.
    let connections = connections(&servers[0].url());
    run(&connections, COUNT, "n").await.unwrap();
    let port = servers[1].port().to_string();
    servers[1].command(&["REPLICAOF", "NO", "ONE"]);
    servers[0].command(&["REPLICAOF", "127.0.0.1", &port]);
    for _ in 0..2 {
        let fault = run(&connections, COUNT, "n").await.unwrap_err();
        assert_kind(&fault, FaultKind::ReadOnly, &[]);
        assert_eq!(fault.executed, Executed::No);
    }
}
