//! The groups of servers in the failover tests work: they can promote a node, take it back, and be
//! split.

use std::time::Duration;

use super::{COUNT, connections, run};
use crate::support::{
    network::{Link, Network},
    program::Program,
    redis_server::{RedisServer, until},
    replicated::Replicated,
    replicated_cluster::ReplicatedCluster,
    sentinels::Sentinels,
};

const KEY: &str = "n";

/// How many replicas confirm a write within half a second.
fn confirmed(primary: &RedisServer) -> String {
    primary.commands(&[&["SET", KEY, "1"], &["WAIT", "2", "500"]])
}

/// Every program reports the name and version that it stands for.
#[test]
fn each_program_is_the_server_that_it_stands_for() {
    for (program, name, version) in [
        (Program::System, "redis_version", "7."),
        (Program::Redis8, "redis_version", "8.0."),
        (Program::Valkey8, "valkey_version", "8.1."),
    ] {
        let server = RedisServer::start_as(program, &[]);
        let info = server.command(&["INFO", "server"]);
        let found = info.lines().find_map(|line| line.strip_prefix(name));
        let found = found.unwrap_or_else(|| panic!("{program:?}: {info}"));
        assert!(found.starts_with(&format!(":{version}")), "{found}");
        let compared = server.command(&["EVAL", "return tostring('a' < 'B')", "0"]);
        assert_eq!(compared, "true", "{program:?}: no locale");
    }
}

#[test]
fn a_link_that_is_cut_holds_what_is_sent_until_it_is_up_again() {
    let server = RedisServer::start(&[]);
    let network = Network::new();
    let proxy = network.proxy();
    let answers = |patience: u64| {
        let patience = Duration::from_millis(patience);
        let answer = RedisServer::ask_port(proxy.port(), &["PING"], patience);
        answer.is_ok_and(|answer| answer == "PONG")
    };
    let link = |link| proxy.link([127, 0, 0, 1].into(), link);
    assert!(!answers(10_000), "it leads nowhere yet");
    proxy.lead_to(server.port());
    assert!(answers(10_000));
    link(Link::Cut);
    assert!(!answers(100));
    link(Link::Slow(Duration::from_millis(300)));
    assert!(!answers(100));
    assert!(answers(10_000));
    link(Link::Refused);
    assert!(!answers(10_000));
    link(Link::Up);
    assert!(answers(10_000));
}

#[tokio::test]
async fn connections_through_a_proxy_break_when_it_is_reset() {
    let group = Replicated::start(Program::System, 0);
    let connections = connections(&group.url());
    run(&connections, COUNT, KEY).await.unwrap();
    group.nodes[0].proxy.reset();
    run(&connections, COUNT, KEY).await.unwrap_err();
    run(&connections, COUNT, KEY).await.unwrap();
}

#[tokio::test]
async fn services_reach_every_group_by_its_url() {
    let sentinels = Sentinels::start(Program::Valkey8);
    let cluster = ReplicatedCluster::start(Program::Redis8);
    for url in [sentinels.url(), cluster.url()] {
        let connections = connections(&url);
        run(&connections, COUNT, KEY).await.unwrap();
    }
}

#[test]
fn replicas_fall_behind_while_their_link_is_cut() {
    for program in Program::ALL {
        let group = Replicated::start(program, 2);
        group.link_replicas(0, Link::Cut);
        assert_eq!(confirmed(&group.nodes[0].server), "0");
        group.link_replicas(0, Link::Up);
        assert_eq!(confirmed(&group.nodes[0].server), "2");
    }
}

#[test]
fn sentinels_move_the_primary_as_planned_and_when_it_dies_and_take_it_back_as_a_replica() {
    for program in Program::ALL {
        let mut group = Sentinels::start(program);
        let first = group.primary().unwrap();
        group.fail_over();
        let second = group.wait_until_moved(first);
        group.wait_until_whole();
        group.data.nodes[second].server.kill();
        let third = group.wait_until_moved(second);
        assert_ne!(third, second);
        group.data.nodes[second].server.restart();
        group.wait_until_whole();
    }
}

#[test]
fn sentinels_replace_a_primary_that_is_cut_off_while_clients_still_write_to_it() {
    let group = Sentinels::start(Program::System);
    let old = group.primary().unwrap();
    group.cut_off(old);
    let new = group.wait_until_moved(old);
    let set = |node: usize, value: &str| group.data.nodes[node].ask(&["SET", KEY, value]);
    assert_eq!(set(old, "old").as_deref(), Some("OK"));
    assert_eq!(set(new, "new").as_deref(), Some("OK"));
    group.heal(old);
    group.wait_until_whole();
    assert_eq!(group.data.nodes[old].ask(&["GET", KEY]).unwrap(), "new");
}

#[test]
fn a_cluster_moves_a_master_as_planned_and_when_it_dies_and_when_it_is_cut_off() {
    for program in Program::ALL {
        let mut group = ReplicatedCluster::start(program);
        let first = group.master_of(KEY).unwrap();
        group.fail_over(first);
        let second = group.wait_until_moved(KEY, first);
        group.wait_until_whole();
        group.link_replicas(second, Link::Cut);
        assert_eq!(confirmed(&group.nodes[second].server), "0");
        group.link_replicas(second, Link::Up);
        assert_eq!(confirmed(&group.nodes[second].server), "1");
        group.nodes[second].server.kill();
        assert_eq!(group.wait_until_moved(KEY, second), first);
        group.nodes[second].server.restart();
        group.wait_until_whole();
        group.cut_off(first);
        assert_eq!(group.wait_until_moved(KEY, first), second);
        let alone = &group.nodes[first];
        until("a master without a majority takes no writes", || {
            let answer = alone.ask(&["SET", KEY, "x"]).unwrap();
            answer.starts_with("-CLUSTERDOWN")
        });
        group.heal(first);
        group.wait_until_whole();
    }
}
