//! Groups of Redis servers: a cluster, and a sentinel with its master.

use super::{
    program::Program,
    redis_server::{RedisServer, until},
};

/// One sentinel that watches a server under the name `main`.
pub struct RedisSentinel {
    pub server: RedisServer,
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

    /// Waits until the sentinel knows a replica on this host that follows the master.
    pub fn wait_until_replica_on(&self, host: &str) {
        until("the sentinel knows the replica", || {
            let replicas = self.server.command(&["SENTINEL", "REPLICAS", "main"]);
            replicas.contains(&format!("\n{host}\n"))
                && replicas.contains("master-link-status\nok\n")
        });
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

    /// The node that serves this slot.
    pub fn owner(&self, slot: &str) -> usize {
        let slot = slot.parse().unwrap();
        let table = self.nodes[0].command(&["CLUSTER", "NODES"]);
        let port = owner(&table, slot).unwrap();
        self.nodes
            .iter()
            .position(|node| node.port() == port)
            .unwrap()
    }

    /// Moves a slot with its data to another node, key by key, as `redis-cli --cluster reshard`
    /// does.
    pub fn move_slot(&self, slot: &str, to: usize) {
        let from = self.owner(slot);
        let ids = self
            .nodes
            .iter()
            .map(|node| node.command(&["CLUSTER", "MYID"]));
        let ids: Vec<String> = ids.collect();
        let set = |node: usize, words: &[&str]| {
            let words = [&["CLUSTER", "SETSLOT", slot], words].concat();
            assert_eq!(self.nodes[node].command(&words), "OK");
        };
        set(to, &["IMPORTING", &ids[from]]);
        set(from, &["MIGRATING", &ids[to]]);
        let port = self.nodes[to].port().to_string();
        loop {
            let keys = self.nodes[from].command(&["CLUSTER", "GETKEYSINSLOT", slot, "10"]);
            if keys.is_empty() {
                break;
            }
            for key in keys.lines() {
                let migrate = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
                assert_eq!(self.nodes[from].command(&migrate), "OK");
            }
        }
        // The new owner first, so that nobody serves the slot twice.
        set(to, &["NODE", &ids[to]]);
        for node in (0..self.nodes.len()).filter(|node| *node != to) {
            set(node, &["NODE", &ids[to]]);
        }
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

/// The port of the master that owns this slot, from the reply to CLUSTER NODES.
pub(super) fn owner(table: &str, slot: u16) -> Option<u16> {
    let has_slot = |range: &str| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to) = (from.parse::<u16>(), to.parse::<u16>());
        matches!((from, to), (Ok(from), Ok(to)) if (from..=to).contains(&slot))
    };
    table.lines().find_map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        let is_owner = fields.get(8..)?.iter().any(|range| has_slot(range));
        let (_, port) = fields[1].split('@').next()?.rsplit_once(':')?;
        is_owner.then(|| port.parse().ok()).flatten()
    })
}
