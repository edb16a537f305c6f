//! What a service says of the sentinels when it is started.

use tempfile::TempDir;

use super::directory_with_key;
use crate::{
    process::{Server, Start},
    support::{redis_group::RedisSentinel, redis_server::RedisServer},
};

/// A primary and the only sentinel, both on 127.0.0.1, a replica, and a service.
struct Group {
    _primary: RedisServer,
    replica: RedisServer,
    _sentinel: RedisSentinel,
    _data: TempDir,
    server: Server,
}

impl Group {
    /// Starts all of them; others reach the replica on this host.
    fn with_a_replica_on(host: &str) -> Self {
        let primary = RedisServer::start(&[]);
        let master = format!("127.0.0.1 {}", primary.port());
        let replica = RedisServer::start(&[
            ("bind", "127.0.0.1 127.0.0.2"),
            ("replica-announce-ip", host),
            ("replicaof", &master),
        ]);
        let sentinel = RedisSentinel::start(&primary);
        sentinel.wait_until_replica_on(host);
        let data = directory_with_key();
        let start = Start::on_redis(data.path(), &sentinel.url("main"));
        start.init().well();
        let server = start.serve();
        Self {
            _primary: primary,
            replica,
            _sentinel: sentinel,
            _data: data,
            server,
        }
    }

    /// The lines about sentinels that the service has printed.
    fn said(&self) -> Vec<String> {
        let said = self.server.log();
        let lines = said.lines().filter(|line| line.contains("sentinel runs"));
        lines.map(str::to_owned).collect()
    }
}

#[test]
fn a_server_without_a_sentinel_beside_it_is_named_once_at_the_start() {
    let group = Group::with_a_replica_on("127.0.0.2");
    let said = group.said();
    let [line] = &said[..] else {
        panic!("{said:?}");
    };
    for words in [
        "WARN",
        "no sentinel runs beside Redis on 127.0.0.2:",
        "run one sentinel beside each server",
    ] {
        assert!(line.contains(words), "no `{words}` in: {line}");
    }
    // The service looks at the replicas again while it serves.
    let set = ["CONFIG", "SET", "appendfsync", "everysec"];
    assert_eq!(group.replica.command(&set), "OK");
    group.server.says("has appendfsync everysec");
    group.server.says("the store is not serving");
    assert_eq!(group.said(), said);
}

#[test]
fn servers_with_a_sentinel_beside_them_are_not_warned_of() {
    let group = Group::with_a_replica_on("127.0.0.1");
    assert_eq!(group.said(), [""; 0]);
}
