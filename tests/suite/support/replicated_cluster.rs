//! A cluster of three masters with a replica each.

use std::time::Duration;

use super::{
    network::{Link, Network, Proxy},
    program::Program,
    redis_group::owner,
    redis_server::{until, until_begun},
    replicated::Node,
};

const SHARDS: usize = 3;

/// The cluster bus of a node uses the port this much above the node's own.
const BUS: u16 = 10_000;

/// Longer than the five seconds after which a planned failover is given up.
const FAILOVER_MAX: Duration = Duration::from_secs(6);

/// Three masters, which are the first nodes at the start, and three replicas.
pub struct ReplicatedCluster {
    pub nodes: Vec<Node>,
    buses: Vec<Proxy>,
    _network: Network,
}

impl ReplicatedCluster {
    /// Starts them, and waits until all slots are served and every master has its replica in sync.
    pub fn start(program: Program) -> Self {
        let network = Network::new();
        let (mut nodes, mut buses) = (Vec::new(), Vec::new());
        for number in 0..2 * SHARDS {
            let (proxy, bus) = (network.proxy(), network.proxy());
            let (port, bus_port) = (proxy.port().to_string(), bus.port().to_string());
            let settings = [
                ("cluster-enabled", "yes"),
                ("cluster-node-timeout", "2000"),
                ("cluster-announce-ip", "127.0.0.1"),
                ("cluster-announce-port", port.as_str()),
                ("cluster-announce-bus-port", bus_port.as_str()),
                ("cluster-allow-replica-migration", "no"),
            ];
            let node = Node::start(program, number, proxy, &settings);
            bus.lead_to(node.server.port() + BUS);
            nodes.push(node);
            buses.push(bus);
        }
        let cluster = Self {
            nodes,
            buses,
            _network: network,
        };
        cluster.join();
        cluster.wait_until_whole();
        cluster
    }

    fn join(&self) {
        for (shard, node) in self.nodes[..SHARDS].iter().enumerate() {
            let slots: Vec<_> = (0..16_384)
                .filter(|slot| slot * SHARDS / 16_384 == shard)
                .map(|slot| slot.to_string())
                .collect();
            let mut words = vec!["CLUSTER", "ADDSLOTS"];
            words.extend(slots.iter().map(String::as_str));
            assert_eq!(node.server.command(&words), "OK");
        }
        let port = self.nodes[0].proxy.port().to_string();
        let bus = self.buses[0].port().to_string();
        for node in &self.nodes[1..] {
            let meet = ["CLUSTER", "MEET", "127.0.0.1", &port, &bus];
            assert_eq!(node.server.command(&meet), "OK");
        }
        for shard in 0..SHARDS {
            let id = self.nodes[shard].server.command(&["CLUSTER", "MYID"]);
            let replica = &self.nodes[SHARDS + shard];
            until("a replica knows its master and follows it", || {
                replica.ask(&["CLUSTER", "REPLICATE", &id]).as_deref() == Some("OK")
            });
        }
    }

    /// The URL for services.
    pub fn url(&self) -> String {
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|node| format!("127.0.0.1:{}", node.proxy.port()));
        format!("redis+cluster://{}", nodes.collect::<Vec<_>>().join(","))
    }

    /// The master that most live nodes name for the slot of this key.
    pub fn master_of(&self, key: &str) -> Option<usize> {
        let alive = self
            .nodes
            .iter()
            .find_map(|node| node.ask(&["CLUSTER", "KEYSLOT", key]));
        let slot: u16 = alive?.parse().ok()?;
        let mut votes = vec![0; self.nodes.len()];
        for node in &self.nodes {
            let named = node
                .ask(&["CLUSTER", "NODES"])
                .and_then(|table| owner(&table, slot));
            let named =
                named.and_then(|port| self.nodes.iter().position(|n| n.proxy.port() == port));
            if let Some(named) = named {
                votes[named] += 1;
            }
        }
        votes.iter().position(|&votes| votes * 2 > self.nodes.len())
    }

    /// The replicas of this node, also if it is gone.
    pub fn shard_of(&self, node: usize) -> Vec<usize> {
        // Replicas do not migrate, so the shard is the same as at the start.
        (0..self.nodes.len())
            .filter(|other| other % SHARDS == node % SHARDS && *other != node)
            .collect()
    }

    /// Makes a planned failover of this master to its replica.
    pub fn fail_over(&self, master: usize) {
        let replica = &self.nodes[self.shard_of(master)[0]];
        until_begun(
            "the replica takes over",
            FAILOVER_MAX,
            || drop(replica.ask(&["CLUSTER", "FAILOVER"])), // an error once it has taken over
            || replica.is_primary(),
        );
    }

    /// Waits until most nodes name another master for the key, and that master considers itself
    /// one.
    pub fn wait_until_moved(&self, key: &str, from: usize) -> usize {
        until("the replica is promoted", || {
            self.master_of(key)
                .is_some_and(|now| now != from && self.nodes[now].is_primary())
        });
        self.master_of(key).unwrap()
    }

    /// Waits until every node sees all others, all slots are served, and every shard is in sync.
    pub fn wait_until_whole(&self) {
        until("the cluster is whole", || {
            self.nodes.iter().all(|node| {
                let info = node.ask(&["CLUSTER", "INFO"]).unwrap_or_default();
                let table = node.ask(&["CLUSTER", "NODES"]).unwrap_or_default();
                info.contains("cluster_state:ok")
                    && table
                        .lines()
                        .filter(|line| line.contains(" connected"))
                        .count()
                        == self.nodes.len()
                    && !table.contains("fail")
            })
        });
        until("every shard is in sync", || {
            (0..SHARDS).all(|shard| {
                let (one, other) = (&self.nodes[shard], &self.nodes[SHARDS + shard]);
                one.follows(other.proxy.port()) || other.follows(one.proxy.port())
            })
        });
    }

    /// Sets the link between a master and its replica.
    pub fn link_replicas(&self, master: usize, link: Link) {
        for replica in self.shard_of(master) {
            self.nodes[master]
                .proxy
                .link(self.nodes[replica].source, link);
        }
    }

    /// Cuts a node off from all others, but not from the services.
    pub fn cut_off(&self, node: usize) {
        self.link_all(node, Link::Cut);
    }

    /// Undoes [`Self::cut_off`].
    pub fn heal(&self, node: usize) {
        self.link_all(node, Link::Up);
    }

    fn link_all(&self, node: usize, link: Link) {
        for other in (0..self.nodes.len()).filter(|&other| other != node) {
            for (at, from) in [(node, other), (other, node)] {
                let source = self.nodes[from].source;
                self.nodes[at].proxy.link(source, link);
                self.buses[at].link(source, link);
            }
        }
    }
}
