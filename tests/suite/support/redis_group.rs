//! Redis servers that belong together: a cluster, and a sentinel with its master.

use std::process::Child;

use tempfile::TempDir;

use super::redis_server::{ATTEMPTS, RedisServer, free_port, launch, until};

/// One sentinel that watches a server under the name `main`.
pub struct RedisSentinel {
    _directory: TempDir,
    port: u16,
    password: Option<String>,
    child: Child,
}

impl RedisSentinel {
    /// Starts it, and waits until it knows the server.
    pub fn start(master: &RedisServer) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = vec![(
            "sentinel".to_owned(),
            format!("monitor main 127.0.0.1 {} 1", master.port()),
        )];
        if let Some(password) = &master.password {
            settings.push(("sentinel".into(), format!("auth-pass main {password}")));
        }
        for _ in 0..ATTEMPTS {
            let port = free_port();
            let head = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\n",
                directory.path().display()
            );
            if let Some(child) = launch(directory.path(), port, head, &settings, &["--sentinel"]) {
                return Self {
                    _directory: directory,
                    port,
                    password: master.password.clone(),
                    child,
                };
            }
        }
        panic!("the sentinel does not start");
    }

    /// The URL of a master that it may know.
    pub fn url(&self, master: &str) -> String {
        let password = self
            .password
            .as_ref()
            .map_or(String::new(), |password| format!(":{password}@"));
        format!(
            "redis+sentinel://{password}127.0.0.1:{}/{master}",
            self.port
        )
    }
}

impl Drop for RedisSentinel {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Three masters that share all slots, without replicas.
pub struct RedisCluster {
    pub nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts them and waits until each one knows that all slots are served.
    pub fn start() -> Self {
        const SETTINGS: [(&str, &str); 2] =
            [("cluster-enabled", "yes"), ("cluster-node-timeout", "2000")];
        let nodes: Vec<_> = (0..3).map(|_| RedisServer::start(&SETTINGS)).collect();
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

    /// Its URL.
    pub fn url(&self) -> String {
        let nodes = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()));
        format!("redis+cluster://{}", nodes.collect::<Vec<_>>().join(","))
    }
}
