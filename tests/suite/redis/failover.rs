//! The master changes: with Sentinel, and in a cluster.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::time::sleep;
use tombola::store::{
    Executed,
    redis::{Connections, FaultKind, Script},
};

use super::{COUNT, assert_kind, connections, run};
use crate::support::{
    plain_replicas::{one_shard, with_replicas},
    program::Program,
    redis_server::{RedisServer, until},
    sentinels::Sentinels,
};

const PUT: &str = "redis.call('HSET', KEYS[1], ARGV[1], '1') return 1";

/// The acknowledged writes of one writer, each with a name of its own.
struct Writer {
    acknowledged: Vec<String>,
    unknown: usize,
}

/// The pause between two writes of a writer.
const PAUSE: Duration = Duration::from_millis(5);

/// Writes until `stop` is set.
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
            Err(_) => {}
        }
        sleep(PAUSE).await;
    }
    writer
}

/// Runs four writers during `disturb`. The server that it returns must have all their acknowledged
/// writes.
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
    let mut acknowledged = Vec::new();
    for writer in writers {
        let writer = writer.await.unwrap();
        assert!(!writer.acknowledged.is_empty());
        acknowledged.extend(writer.acknowledged);
    }
    let found = primary(&["HGETALL", "h"]);
    let found: Vec<_> = found.lines().collect();
    let found: HashMap<_, _> = found.chunks_exact(2).map(|it| (it[0], it[1])).collect();
    for field in &acknowledged {
        assert_eq!(found.get(field.as_str()), Some(&"1"), "{field} is lost");
    }
    assert!(acknowledged.len() > 50, "{}", acknowledged.len());
}

/// Promotes a replica, and returns its index.
fn fail_over(watched: &Sentinels) -> usize {
    let before = watched.primary().unwrap();
    watched.fail_over();
    watched.wait_until_moved(before)
}

fn writes_flow(server: &RedisServer) {
    let size = || server.command(&["HLEN", "h"]).parse::<u32>().unwrap();
    let before = size();
    until("writes flow", || size() > before + 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn planned_failovers_lose_no_confirmed_write() {
    let watched = Arc::new(Sentinels::start(Program::System));
    let connections = connections(&watched.url()).confirming(None);
    loses_nothing(connections, || {
        writes_flow(&watched.data.nodes[0].server);
        for _ in 0..2 {
            let primary = fail_over(&watched);
            writes_flow(&watched.data.nodes[primary].server);
            watched.wait_until_whole();
        }
        let watched = Arc::clone(&watched);
        let primary = watched.primary().unwrap();
        Box::new(move |words| watched.data.nodes[primary].server.command(words))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_dies_takes_no_confirmed_write_along() {
    let mut watched = Sentinels::start(Program::System);
    let connections = connections(&watched.url()).confirming(None);
    loses_nothing(connections, || {
        writes_flow(&watched.data.nodes[0].server);
        watched.data.nodes[0].server.kill();
        let primary = watched.wait_until_moved(0);
        writes_flow(&watched.data.nodes[primary].server);
        Box::new(move |words| watched.data.nodes[primary].server.command(words))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_may_ask_for_a_password() {
    let watched = Sentinels::start_with_password(Program::System, "of-sentinels");
    let fault = run(&connections(&watched.url()), PUT, "h").await;
    assert_kind(
        &fault.unwrap_err(),
        FaultKind::Password,
        &["?sentinel=user:password"],
    );
    let with_password = format!("{}?sentinel=:of-sentinels", watched.url());
    let connections = connections(&with_password);
    run(&connections, PUT, "h").await.unwrap();
    tokio::task::block_in_place(|| fail_over(&watched));
    // The followed master may change once more on a busy machine.
    let ends_at = Instant::now() + Duration::from_secs(30);
    while let Err(fault) = run(&connections, PUT, "h").await {
        assert!(Instant::now() < ends_at, "{fault}");
        sleep(Duration::from_millis(20)).await;
    }
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
    let watched = Sentinels::start(Program::System);
    let connections = Arc::new(connections(&watched.url()));
    run(&connections, COUNT, "n").await.unwrap();
    let waiting = tokio::spawn({
        let connections = Arc::clone(&connections);
        async move {
            let mut wait = ::redis::cmd("BLPOP");
            wait.arg("nothing").arg(0);
            // If the wait began too early, it ends by its timeout, long before or long after the
            // switch.
            loop {
                match connections.command(&wait).await {
                    Err(fault) if fault.kind == FaultKind::TimedOut => {}
                    answer => return answer,
                }
            }
        }
    });
    let primary = tokio::task::block_in_place(|| fail_over(&watched));
    let fault = waiting.await.unwrap().unwrap_err();
    assert_kind(&fault, FaultKind::MasterChanged, &["another master now"]);
    assert_eq!(fault.executed, Executed::Unknown);
    run(&connections, COUNT, "m").await.unwrap();
    let primary = &watched.data.nodes[primary].server;
    assert_eq!(primary.command(&["GET", "m"]), "1");
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

    // After the demotion, earlier connections are not used either.
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
