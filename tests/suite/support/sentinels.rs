//! Three sentinels that watch a primary and two replicas.

use std::{net::Ipv4Addr, time::Duration};

use super::{
    network::Link,
    program::Program,
    redis_server::{RedisServer, until, until_begun},
    replicated::{Node, Replicated},
};

const SENTINELS: usize = 3;
const REPLICAS: usize = 2;

/// The name of the group in the sentinels' settings.
const NAME: &str = "main";

/// Longer than a sentinel takes until it gives up a failover.
const FAILOVER_MAX: Duration = Duration::from_secs(10);

/// Sentinels that watch one group of servers, with a quorum of two.
pub struct Sentinels {
    pub sentinels: Vec<RedisServer>,
    pub data: Replicated,
}

impl Sentinels {
    /// Starts all of them, and waits until the sentinels know each other and the servers.
    pub fn start(program: Program) -> Self {
        Self::start_with(program, &[])
    }

    /// The same, with sentinels that ask each other and everybody else for this password.
    pub fn start_with_password(program: Program, password: &str) -> Self {
        let of_peers = format!("sentinel-pass {password}");
        let settings = [("requirepass", password), ("sentinel", &of_peers)];
        Self::start_with(program, &settings)
    }

    fn start_with(program: Program, more: &[(&str, &str)]) -> Self {
        let data = Replicated::start(program, REPLICAS);
        let primary = data.nodes[0].proxy.port();
        let sentinels = (0..SENTINELS).map(|number| {
            let source = Self::source_of(number).to_string();
            let monitor = format!("monitor {NAME} 127.0.0.1 {primary} 2");
            let down_after = format!("down-after-milliseconds {NAME} 1000");
            let give_up = format!("failover-timeout {NAME} 4000");
            let syncs = format!("parallel-syncs {NAME} {REPLICAS}");
            let settings = [
                ("bind-source-addr", source.as_str()),
                ("sentinel", &monitor),
                ("sentinel", &down_after),
                ("sentinel", &give_up),
                ("sentinel", &syncs),
                ("sentinel", "announce-ip 127.0.0.1"),
            ];
            RedisServer::start_sentinel(program, &[&settings, more].concat())
        });
        let started = Self {
            sentinels: sentinels.collect(),
            data,
        };
        for sentinel in &started.sentinels {
            hasten(sentinel);
        }
        started.wait_until_whole();
        started
    }

    /// The address from which a sentinel connects.
    pub fn source_of(number: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 0, 100 + u8::try_from(number).unwrap())
    }

    /// The URL for services.
    pub fn url(&self) -> String {
        let sentinels = self.sentinels.iter();
        let sentinels = sentinels.map(|sentinel| format!("127.0.0.1:{}", sentinel.port()));
        let sentinels: Vec<_> = sentinels.collect();
        format!("redis+sentinel://{}/{NAME}", sentinels.join(","))
    }

    /// The node that most sentinels name as the primary, if they agree on one.
    pub fn primary(&self) -> Option<usize> {
        let named: Vec<_> = self.sentinels.iter().filter_map(named).collect();
        let is_named = |node: &Node| {
            let port = node.proxy.port();
            named.iter().filter(|named| **named == port).count() * 2 > SENTINELS
        };
        self.data.nodes.iter().position(is_named)
    }

    /// Makes a planned failover, and waits until most sentinels name another primary.
    pub fn fail_over(&self) {
        let from = self.primary();
        until_begun(
            "a planned failover is carried out",
            FAILOVER_MAX,
            || drop(self.sentinels[0].command(&["SENTINEL", "FAILOVER", NAME])),
            || self.primary().is_some_and(|now| Some(now) != from),
        );
    }

    /// Waits until most sentinels name another primary, and that server considers itself one.
    pub fn wait_until_moved(&self, from: usize) -> usize {
        until("another primary is promoted", || {
            self.primary()
                .is_some_and(|now| now != from && self.data.nodes[now].is_primary())
        });
        self.primary().unwrap()
    }

    /// Waits until every sentinel knows all others, and all nodes are in sync with one primary.
    pub fn wait_until_whole(&self) {
        // On a busy machine the primary may move once more.
        until("all nodes are in sync with one primary", || {
            self.primary().is_some_and(|primary| {
                self.data.nodes[primary].is_primary() && self.data.is_followed(primary)
            })
        });
        until("every sentinel sees all", || {
            self.sentinels.iter().all(|sentinel| {
                let master = state(sentinel, &["SENTINEL", "MASTER", NAME]);
                let is = |name: &str, wanted: &str| {
                    let mut fields = master.chunks(2);
                    fields.any(|field| field[0] == name && field[1] == wanted)
                };
                is("flags", "master")
                    && is("num-other-sentinels", "2")
                    && is("num-slaves", "2")
                    && sees_replicas(sentinel)
            })
        });
    }

    /// Waits until every sentinel considers this node dead, so that it is not promoted.
    pub fn wait_until_out_of_sight(&self, node: usize) {
        let address = format!("127.0.0.1:{}", self.data.nodes[node].proxy.port());
        until("the sentinels take the node for dead", || {
            self.sentinels.iter().all(|sentinel| {
                let replicas = state(sentinel, &["SENTINEL", "REPLICAS", NAME]);
                let mut fields = replicas.iter().skip_while(|field| **field != address);
                let flags = fields.position(|field| field == "flags");
                flags.is_some() && fields.next().is_some_and(|flags| flags.contains("s_down"))
            })
        });
    }

    /// Cuts a node off from the other nodes and from all sentinels, but not from the services.
    pub fn cut_off(&self, node: usize) {
        self.link_all(node, Link::Cut);
    }

    /// Undoes [`Self::cut_off`].
    pub fn heal(&self, node: usize) {
        self.link_all(node, Link::Up);
    }

    fn link_all(&self, node: usize, link: Link) {
        self.data.link_replicas(node, link);
        for number in 0..SENTINELS {
            let proxy = &self.data.nodes[node].proxy;
            proxy.link(Self::source_of(number), link);
        }
        for other in self.data.others(node) {
            let proxy = &self.data.nodes[other].proxy;
            proxy.link(self.data.nodes[node].source, link);
        }
    }
}

/// The port of the primary that a sentinel names.
fn named(sentinel: &RedisServer) -> Option<u16> {
    let address = state(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
    address.get(1)?.parse().ok()
}

/// Whether a sentinel can reach every replica, and the replicas their primary.
fn sees_replicas(sentinel: &RedisServer) -> bool {
    let replicas = state(sentinel, &["SENTINEL", "REPLICAS", NAME]);
    let count = |name: &str, wanted: &str| {
        let pairs = replicas.windows(2);
        pairs
            .filter(|pair| pair[0] == name && pair[1] == wanted)
            .count()
    };
    count("flags", "slave") == REPLICAS && count("master-link-status", "ok") == REPLICAS
}

fn state(sentinel: &RedisServer, words: &[&str]) -> Vec<String> {
    let patience = Duration::from_secs(2);
    let answer = sentinel.try_command(words, patience).unwrap_or_default();
    answer.lines().map(str::to_owned).collect()
}

/// Makes a sentinel check more often than by default: a node that came back is a replica within two
/// seconds instead of ten.
fn hasten(sentinel: &RedisServer) {
    for (period, milliseconds) in [("INFO-PERIOD", "500"), ("PUBLISH-PERIOD", "500")] {
        let set = ["SENTINEL", "DEBUG", period, milliseconds];
        assert_eq!(sentinel.command(&set), "OK");
    }
}
