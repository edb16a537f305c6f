//! A primary with its replicas, each behind its own proxy.

use std::{net::Ipv4Addr, time::Duration};

use super::{
    network::{Link, Network, Proxy},
    program::Program,
    redis_server::{RedisServer, until},
};

/// Longer than any live server takes to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// A server that others know by its proxy's port. It connects to them from an address of its own.
pub struct Node {
    pub server: RedisServer,
    pub proxy: Proxy,
    pub source: Ipv4Addr,
}

impl Node {
    /// The source address of node `number` of a group.
    pub fn source_of(number: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 0, 10 + u8::try_from(number).unwrap())
    }

    /// Starts a server behind this proxy.
    pub fn start(program: Program, number: usize, proxy: Proxy, settings: &[(&str, &str)]) -> Self {
        let source = Self::source_of(number);
        let address = source.to_string();
        let own = [
            ("bind-source-addr", address.as_str()),
            ("enable-debug-command", "yes"),
        ];
        let server = RedisServer::start_as(program, &[&own, settings].concat());
        proxy.lead_to(server.port());
        Self {
            server,
            proxy,
            source,
        }
    }

    /// The reply of a live server; `None` if it is dead or hangs.
    pub fn ask(&self, words: &[&str]) -> Option<String> {
        self.server.try_command(words, ANSWER_MAX).ok()
    }

    /// Whether it considers itself a primary.
    pub fn is_primary(&self) -> bool {
        let role = self.ask(&["ROLE"]);
        role.is_some_and(|role| role.starts_with("master"))
    }

    /// Whether it is a replica of the server behind this port, with its link up.
    pub fn follows(&self, port: u16) -> bool {
        let role = self.ask(&["ROLE"]).unwrap_or_default();
        let mut lines = role.lines();
        lines.next() == Some("slave")
            && lines.nth(1) == Some(port.to_string().as_str())
            && lines.next() == Some("connected")
    }

    /// Its replication offset, in bytes.
    pub fn offset(&self) -> Option<u64> {
        let info = self.ask(&["INFO", "replication"])?;
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let own = match field("role:")? {
            "master" => field("master_repl_offset:")?,
            _ => field("slave_repl_offset:")?,
        };
        own.parse().ok()
    }
}

/// A primary, which is the first node at the start, and its replicas. All of them have every write
/// on disk (AOF, always).
pub struct Replicated {
    pub nodes: Vec<Node>,
    _network: Network,
}

impl Replicated {
    /// Starts them, and waits until the replicas have the primary's data.
    pub fn start(program: Program, replicas: usize) -> Self {
        let network = Network::new();
        let mut nodes: Vec<Node> = Vec::new();
        for number in 0..=replicas {
            let proxy = network.proxy();
            let port = proxy.port().to_string();
            let primary = nodes.first().map(|primary| primary.proxy.port());
            let primary = primary.map(|port| format!("127.0.0.1 {port}"));
            let mut own = vec![
                ("replica-announce-ip", "127.0.0.1"),
                ("replica-announce-port", port.as_str()),
            ];
            own.extend(primary.as_deref().map(|primary| ("replicaof", primary)));
            nodes.push(Node::start(program, number, proxy, &own));
        }
        let started = Self {
            nodes,
            _network: network,
        };
        started.wait_until_followed(0);
        started
    }

    /// The URL of the primary at the start, through its proxy.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.nodes[0].proxy.port())
    }

    /// Waits until all others are replicas of this node and have its data.
    pub fn wait_until_followed(&self, primary: usize) {
        until("all replicas follow the primary", || {
            self.is_followed(primary)
        });
    }

    /// Whether all others are replicas of this node and have its current data.
    pub fn is_followed(&self, primary: usize) -> bool {
        let port = self.nodes[primary].proxy.port();
        let written = self.nodes[primary].offset();
        self.others(primary).all(|number| {
            let node = &self.nodes[number];
            node.follows(port) && node.offset() >= written
        })
    }

    /// All nodes but this one.
    pub fn others(&self, number: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.nodes.len()).filter(move |&other| other != number)
    }

    /// Sets the link between a node and its replicas.
    pub fn link_replicas(&self, primary: usize, link: Link) {
        for replica in self.others(primary) {
            let source = self.nodes[replica].source;
            self.nodes[primary].proxy.link(source, link);
        }
    }
}
