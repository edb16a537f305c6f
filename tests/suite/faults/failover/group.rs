//! The Redis servers that a fault affects: one server, a group under Sentinel, or a cluster.

use crate::support::{
    network::Link,
    program::Program,
    redis_server::{RedisServer, until},
    replicated_cluster::ReplicatedCluster,
    sentinels::Sentinels,
};

/// The Redis servers of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One server without replicas.
    Single,
    /// Three sentinels, a primary and two replicas.
    Sentinel,
    /// Three masters with a replica each.
    Cluster,
}

impl Layout {
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "one Redis",
            Self::Sentinel => "Sentinel, 1 + 2",
            Self::Cluster => "cluster, 3 + 3",
        }
    }
}

enum Servers {
    Single(RedisServer),
    Sentinel(Sentinels),
    /// With a key of the shard that faults affect.
    Cluster(ReplicatedCluster, String),
}

/// The running servers.
pub struct Group(Servers);

impl Group {
    pub fn start(layout: Layout, program: Program) -> Self {
        Self(match layout {
            Layout::Single => Servers::Single(RedisServer::start_as(program, &[])),
            Layout::Sentinel => Servers::Sentinel(Sentinels::start(program)),
            Layout::Cluster => Servers::Cluster(ReplicatedCluster::start(program), String::new()),
        })
    }

    /// Makes faults affect the shard of this partition.
    pub fn aim_at(&mut self, partition: u32) {
        if let Servers::Cluster(_, key) = &mut self.0 {
            *key = format!("tombola{{{partition}}}:partition");
        }
    }

    /// The URL for services.
    pub fn url(&self) -> String {
        match &self.0 {
            Servers::Single(server) => server.url(),
            Servers::Sentinel(group) => group.url(),
            Servers::Cluster(cluster, _) => cluster.url(),
        }
    }

    /// The primary.
    pub fn primary(&self) -> usize {
        let primary = || match &self.0 {
            Servers::Single(_) => Some(0),
            Servers::Sentinel(group) => group.primary(),
            Servers::Cluster(cluster, key) => cluster.master_of(key),
        };
        until("there is a primary", || primary().is_some());
        primary().unwrap()
    }

    pub fn server(&mut self, node: usize) -> &mut RedisServer {
        match &mut self.0 {
            Servers::Single(server) => server,
            Servers::Sentinel(group) => &mut group.data.nodes[node].server,
            Servers::Cluster(cluster, _) => &mut cluster.nodes[node].server,
        }
    }

    /// The replicas of this node.
    pub fn replicas(&self, primary: usize) -> Vec<usize> {
        match &self.0 {
            Servers::Single(_) => Vec::new(),
            Servers::Sentinel(group) => group.data.others(primary).collect(),
            Servers::Cluster(cluster, _) => cluster.shard_of(primary),
        }
    }

    /// Changes the link between a primary and its replicas.
    pub fn link_replicas(&self, primary: usize, link: Link) {
        match &self.0 {
            Servers::Single(_) => {}
            Servers::Sentinel(group) => group.data.link_replicas(primary, link),
            Servers::Cluster(cluster, _) => cluster.link_replicas(primary, link),
        }
    }

    /// Kills a primary, and drops everything that it has sent but that has not arrived.
    pub fn kill(&mut self, primary: usize) {
        self.server(primary).kill();
        let proxy = match &self.0 {
            Servers::Single(_) => return,
            Servers::Sentinel(group) => &group.data.nodes[primary].proxy,
            Servers::Cluster(cluster, _) => &cluster.nodes[primary].proxy,
        };
        proxy.reset();
    }

    /// Makes a planned failover.
    pub fn fail_over(&self, primary: usize) {
        match &self.0 {
            Servers::Single(_) => panic!("one server has nothing to fail over to"),
            Servers::Sentinel(group) => group.fail_over(),
            Servers::Cluster(cluster, _) => cluster.fail_over(primary),
        }
    }

    /// Cuts a primary off from all servers and sentinels, but not from the services.
    pub fn cut_off(&self, primary: usize) {
        match &self.0 {
            Servers::Single(_) => panic!("one server has nobody to be cut off from"),
            Servers::Sentinel(group) => group.cut_off(primary),
            Servers::Cluster(cluster, _) => cluster.cut_off(primary),
        }
    }

    /// Undoes [`Self::cut_off`].
    pub fn heal(&self, primary: usize) {
        match &self.0 {
            Servers::Single(_) => {}
            Servers::Sentinel(group) => group.heal(primary),
            Servers::Cluster(cluster, _) => cluster.heal(primary),
        }
    }

    /// Waits until another node is the primary, and returns it.
    pub fn wait_until_moved(&self, from: usize) -> usize {
        match &self.0 {
            Servers::Single(_) => from,
            Servers::Sentinel(group) => group.wait_until_moved(from),
            Servers::Cluster(cluster, key) => cluster.wait_until_moved(key, from),
        }
    }

    /// Waits until a frozen node cannot be promoted any more. A cluster's master has only one
    /// replica.
    pub fn wait_until_out_of_sight(&self, node: usize) {
        if let Servers::Sentinel(group) = &self.0 {
            group.wait_until_out_of_sight(node);
        }
    }

    /// Waits until all nodes are alive and in sync.
    pub fn wait_until_whole(&self) {
        match &self.0 {
            Servers::Single(_) => {}
            Servers::Sentinel(group) => group.wait_until_whole(),
            Servers::Cluster(cluster, _) => cluster.wait_until_whole(),
        }
    }
}
