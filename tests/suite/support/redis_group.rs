//! Groups of Redis servers: a cluster, and a sentinel with its master.

use super::{
    program::Program,
    redis_server::{RedisServer, until},
};

/// One sentinel that watches a server under the name `main`.
pub struct RedisSentinel {
    server: RedisServer,
    password: Option<String>,
}

impl RedisSentinel {
    /// Starts it, and waits until it knows the server.
    pub fn start(master: &RedisServer) -> Self {
        let monitor = format!("monitor main 127.0.0.1 {} 1", master.port());
        let mut settings = vec![("sentinel", monitor)];
        if let Some(password) = &master.password {
            settings.push(("sentinel", format!("auth-pass main {password}")));
        }
        let settings: Vec<_> = settings.iter().map(|(n, v)| (*n, v.as_str())).collect();
        Self {
            server: RedisServer::start_sentinel(Program::System, &settings),
            password: master.password.clone(),
        }
    }

    /// The URL for a master of this name, whether or not the sentinel knows it.
    pub fn url(&self, master: &str) -> String {
        let password = self
            .password
            .as_ref()
            .map_or(String::new(), |password| format!(":{password}@"));
        let port = self.server.port();
        format!("redis+sentinel://{password}127.0.0.1:{port}/{master}")
    }
}

/// Three masters that share all slots, without replicas.
pub struct RedisCluster {
    pub nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts them, and waits until each knows that all slots are served.
    pub fn start() -> Self {
        Self::start_as(Program::System)
    }

    /// The same with this program.
    pub fn start_as(program: Program) -> Self {
        const SETTINGS: [(&str, &str); 2] =
            [("cluster-enabled", "yes"), ("cluster-node-timeout", "2000")];
        let node = |_| RedisServer::start_as(program, &SETTINGS);
        let nodes: Vec<_> = (0..3).map(node).collect();
        for (node, (from, to)) in nodes
            .iter()
            .zip([(0u16, 5460), (5461, 10922), (10923, 16383)])
        {
            let slots: Vec<String> = (from..=to).map(|slot| slot.to_string()).collect();
            let mut words = vec!["CLUSTER", "ADDSLOTS"];
            words.extend(slots.iter().map(String::as_str));
            assert_eq!(node.command(&words), "OK");
        }
        for node in &nodes[1..] {
            let port = nodes[0].port().to_string();
            assert_eq!(node.command(&["CLUSTER", "MEET", "127.0.0.1", &port]), "OK");
        }
        let cluster = Self { nodes };
        cluster.wait_until_whole();
        cluster
    }

    /// Waits until every node knows the others and that all slots are served.
    pub fn wait_until_whole(&self) {
        until("the cluster is whole", || {
            self.nodes.iter().all(|node| {
                let info = node.command(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            })
        });
    }

    /// The URL.
    pub fn url(&self) -> String {
        let nodes = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()));
        format!("redis+cluster://{}", nodes.collect::<Vec<_>>().join(","))
    }
}
