//! Servers with replicas and no proxies between them: a primary, or a cluster of one shard.

use super::{
    program::Program,
    redis_server::{RedisServer, until},
};

/// A primary and this many replicas of it; waits until they follow it.
pub fn with_replicas(replicas: usize, settings: &[(&str, &str)]) -> Vec<RedisServer> {
    with_replicas_of(Program::System, replicas, settings)
}

/// The same on this program.
pub fn with_replicas_of(
    program: Program,
    replicas: usize,
    settings: &[(&str, &str)],
) -> Vec<RedisServer> {
    let primary = RedisServer::start_as(program, settings);
    let master = format!("127.0.0.1 {}", primary.port());
    let settings = [settings, &[("replicaof", master.as_str())]].concat();
    let mut servers = vec![primary];
    servers.extend((0..replicas).map(|_| RedisServer::start_as(program, &settings)));
    until("the replicas follow the primary", || {
        let info = servers[0].command(&["INFO", "replication"]);
        info.matches("state=online").count() == replicas
    });
    servers
}

/// A cluster of one master, which serves all slots, and one replica.
pub fn one_shard() -> Vec<RedisServer> {
    const SETTINGS: [(&str, &str); 2] =
        [("cluster-enabled", "yes"), ("cluster-node-timeout", "2000")];
    let nodes: Vec<_> = (0..2).map(|_| RedisServer::start(&SETTINGS)).collect();
    let words = ["CLUSTER", "ADDSLOTSRANGE", "0", "16383"];
    assert_eq!(nodes[0].command(&words), "OK");
    let port = nodes[0].port().to_string();
    assert_eq!(
        nodes[1].command(&["CLUSTER", "MEET", "127.0.0.1", &port]),
        "OK"
    );
    let id = nodes[0].command(&["CLUSTER", "MYID"]);
    until("the nodes know each other", || {
        nodes[1].command(&["CLUSTER", "NODES"]).contains(&id)
            && nodes[1].command(&["CLUSTER", "REPLICATE", &id]) == "OK"
    });
    until(
        "the replica follows the master, and all slots are served",
        || {
            nodes[0]
                .command(&["INFO", "replication"])
                .contains("state=online")
                && nodes.iter().all(|node| {
                    let info = node.command(&["CLUSTER", "INFO"]);
                    let known = node.command(&["CLUSTER", "NODES"]);
                    info.contains("cluster_state:ok") && known.contains(&format!("slave {id}"))
                })
        },
    );
    nodes
}
