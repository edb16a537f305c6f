//! Redis servers with replicas: three sentinels that watch them, or a cluster of one shard.

use std::process::Child;

use tempfile::TempDir;

use super::redis_server::{ATTEMPTS, RedisServer, free_port, launch, until};

/// Three sentinels that watch a primary and its replicas under the name `main`.
pub struct Watched {
    /// The first one is the primary at the start.
    pub servers: Vec<RedisServer>,
    sentinels: Vec<Sentinel>,
}

struct Sentinel {
    _directory: TempDir,
    port: u16,
    child: Child,
}

impl Watched {
    /// Starts them, and waits until every sentinel knows all others and all servers.
    pub fn start(replicas: usize) -> Self {
        let servers = with_replicas(replicas, &[]);
        let sentinels: Vec<_> = (0..3).map(|_| Sentinel::start(servers[0].port())).collect();
        let watched = Self { servers, sentinels };
        let replicas = replicas.to_string();
        until("the sentinels know each other and all servers", || {
            watched.sentinels.iter().all(|sentinel| {
                let known = command(sentinel.port, &["SENTINEL", "MASTER", "main"]);
                field(&known, "num-slaves") == replicas
                    && field(&known, "num-other-sentinels") == "2"
            })
        });
        watched
    }

    /// The URL, with all sentinels.
    pub fn url(&self) -> String {
        let sentinels = self.sentinels.iter();
        let hosts: Vec<_> = sentinels
            .map(|sentinel| format!("127.0.0.1:{}", sentinel.port))
            .collect();
        format!("redis+sentinel://{}/main", hosts.join(","))
    }

    /// Makes a replica the primary, and returns its index once a sentinel says so. It fails over
    /// again and again if the sentinels are not ready for it.
    pub fn fail_over(&self) -> usize {
        let before = self.primary();
        until("another server is the primary", || {
            command(self.sentinels[0].port, &["SENTINEL", "FAILOVER", "main"]);
            self.primary() != before
        });
        self.primary()
    }

    /// The index of the server that the first sentinel takes for the primary.
    pub fn primary(&self) -> usize {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"];
        let address = command(self.sentinels[0].port, &words);
        let port = address.lines().nth(1).unwrap_or_default();
        let mut servers = self.servers.iter();
        let found = servers.position(|server| server.port().to_string() == port);
        found.unwrap_or_else(|| panic!("no server of ours: {address}"))
    }

    /// Waits until every server but the primary follows it.
    pub fn wait_until_replicated(&self) {
        let primary = self.primary();
        let replicas = format!("connected_slaves:{}", self.servers.len() - 1);
        until("all replicas follow the primary", || {
            let info = self.servers[primary].command(&["INFO", "replication"]);
            info.contains(&replicas)
                && info.matches("state=online").count() + 1 == self.servers.len()
        });
    }
}

impl Sentinel {
    fn start(primary: u16) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let setting = |value: String| ("sentinel".to_owned(), value);
        let settings = [
            setting(format!("monitor main 127.0.0.1 {primary} 2")),
            setting("down-after-milliseconds main 2000".into()),
            setting("failover-timeout main 2000".into()),
        ];
        for _ in 0..ATTEMPTS {
            let port = free_port();
            let place = directory.path().display();
            let head = format!("port {port}\nbind 127.0.0.1\ndir {place}\nlogfile redis.log\n");
            if let Some(child) = launch(directory.path(), port, head, &settings, &["--sentinel"]) {
                return Self {
                    _directory: directory,
                    port,
                    child,
                };
            }
        }
        panic!("the sentinel does not start");
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A primary, then so many replicas of it; waits until they follow it.
pub fn with_replicas(replicas: usize, settings: &[(&str, &str)]) -> Vec<RedisServer> {
    let primary = RedisServer::start(settings);
    let master = format!("127.0.0.1 {}", primary.port());
    let settings = [settings, &[("replicaof", master.as_str())]].concat();
    let mut servers = vec![primary];
    servers.extend((0..replicas).map(|_| RedisServer::start(&settings)));
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

fn command(port: u16, words: &[&str]) -> String {
    super::redis_server::command_at(port, None, words)
}

/// The value of a name in a list of names and values.
fn field<'a>(list: &'a str, name: &str) -> &'a str {
    let mut lines = list.lines().skip_while(|line| *line != name);
    lines.nth(1).unwrap_or_default()
}
