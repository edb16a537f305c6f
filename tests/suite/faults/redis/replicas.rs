//! Services of one store list each other, and the list is never in the way.

use std::time::{Duration, Instant};

use tombola::{
    proto::{GetStatsRequest, Replica, ReplicaState},
    store::{REPLICA_INTERVAL, REPLICA_KEPT},
};

use super::{House, directory_with_key, draws};
use crate::{
    faults::load,
    process::{Server, Start},
    support::redis_group::RedisCluster,
};

const LIST: &str = "tombola{0}:replicas";

/// The replicas that a service lists.
async fn listed_by(server: &Server) -> Vec<Replica> {
    let request = GetStatsRequest::default();
    let stats = server.campaigns().await.get_stats(request).await.unwrap();
    stats.into_inner().replicas
}

/// Whether a service lists just these, all of them ready.
async fn lists(server: &Server, expected: &[&Server]) -> bool {
    let listed = listed_by(server).await;
    let is_listed = |other: &&Server| {
        let port = format!(":{}", other.address.port());
        listed.iter().any(|replica| replica.name.ends_with(&port))
    };
    let are_ready = listed
        .iter()
        .all(|replica| replica.state() == ReplicaState::Ready);
    listed.len() == expected.len() && are_ready && expected.iter().all(is_listed)
}

/// Waits without work until a service lists just these.
async fn until_listed(server: &Server, expected: &[&Server]) {
    let begun = Instant::now();
    while !lists(server, expected).await {
        let listed = listed_by(server).await;
        assert!(begun.elapsed() < 2 * REPLICA_KEPT, "{listed:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn replicas_come_and_go(url: &str) {
    let data = directory_with_key();
    let start = Start::on_redis(data.path(), url).with("--durability local");
    start.init().well();
    let (one, mut killed, mut stopped) = (start.serve(), start.serve(), start.serve());
    until_listed(&one, &[&one, &killed, &stopped]).await;
    until_listed(&killed, &[&one, &killed, &stopped]).await;
    let listed = listed_by(&one).await;
    for replica in &listed {
        let is_one = replica.name.ends_with(&format!(":{}", one.address.port()));
        assert_eq!(replica.answering, is_one, "{replica:?}");
        assert_eq!(replica.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(replica.build, listed[0].build);
        let (started, seen) = (replica.start_time.unwrap(), replica.seen_time.unwrap());
        assert!(started.seconds <= seen.seconds, "{replica:?}");
    }
    let shown = one.run(&["stats"]).well();
    for replica in &listed {
        assert!(shown.contains(&replica.name), "{replica:?}: {shown}");
    }

    stopped.signal("TERM");
    let (code, log) = stopped.ended();
    assert_eq!(code, Some(0), "{log}");
    killed.kill();
    // The one has said that it stops, the other could not.
    assert!(lists(&one, &[&one, &killed]).await);
    until_listed(&one, &[&one]).await;
    let only = &listed_by(&one).await[0];
    let skew = only.clock_skew.as_ref().unwrap();
    assert_eq!(skew.seconds, 0, "{only:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stops_leaves_the_list_at_once_and_one_that_dies_soon() {
    let house = House::with(&[]);
    replicas_come_and_go(&house.redis.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_on_a_cluster_list_each_other() {
    let cluster = RedisCluster::start();
    replicas_come_and_go(&cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_another_program_has_spoiled_stops_nothing() {
    let house = House::new();
    let (one, two) = (house.serve(), house.serve());
    until_listed(&one, &[&one, &two]).await;
    load::apply_now(&one).await;
    house.redis.command(&["SET", LIST, "no list"]);
    one.says("this service is not in the list of replicas");
    assert!(lists(&one, &[&one]).await);
    draws(&mut one.lottery().await, "flow", "u-1", "r-1").await;
    // What is lost comes back by itself.
    house.redis.command(&["DEL", LIST]);
    one.says("this service is in the list of replicas again");
    until_listed(&one, &[&one, &two]).await;
    let said = one.log();
    assert_eq!(said.matches("is not in the list").count(), 1, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_listed_while_the_partition_of_the_list_is_halted() {
    let house = House::new();
    let (one, two) = (house.serve(), house.serve());
    let halt = format!("{} 9 3 1700000000000000", "a".repeat(40));
    let partition = "tombola{0}:partition";
    house.redis.command(&["HSET", partition, "halt", &halt]);
    one.says("is halted");
    house.redis.command(&["DEL", LIST]);
    let begun = Instant::now();
    loop {
        let listed = listed_by(&one).await;
        let impaired = listed
            .iter()
            .filter(|replica| replica.state() == ReplicaState::Impaired);
        if listed.len() == 2 && impaired.count() == 2 {
            break;
        }
        assert!(begun.elapsed() < 3 * REPLICA_INTERVAL, "{listed:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    drop(two);
}
