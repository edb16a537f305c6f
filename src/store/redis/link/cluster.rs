//! Follows the masters of a cluster, from the answers of all its nodes.
//!
//! Nodes disagree while a replica is promoted or a slot moves. For each slot the node that claims
//! it with the highest configuration epoch serves it; the nodes themselves decide in the same way.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use redis::{RedisResult, Value, aio::MultiplexedConnection};

use super::{
    fault::Fault,
    masters::{Directory, Found, UNSERVED},
    panel::{Panel, Question, Report},
    pool::Peer,
    slots::SLOTS,
    url::Address,
};

#[derive(Clone)]
struct AskNode;

/// A node, as a node of the cluster describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) id: String,
    /// None while nobody knows.
    pub(crate) address: Option<Address>,
    is_master: bool,
    /// Of a replica.
    pub(crate) master: Option<String>,
    epoch: u64,
    slots: Vec<(u16, u16)>,
}

impl Question for AskNode {
    type Answer = Vec<Line>;

    async fn ask(
        &self,
        server: &Address,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<Self::Answer> {
        let mut nodes = redis::cmd("CLUSTER");
        let text: String = nodes.arg("NODES").query_async(connection).await?;
        // Only this command returns the names under which clients reach the nodes.
        let mut slots = redis::cmd("CLUSTER");
        let slots: Value = slots.arg("SLOTS").query_async(connection).await?;
        let mut lines: Vec<Line> = text.lines().filter_map(|l| read_line(l, server)).collect();
        let endpoints = endpoints(slots, server);
        for line in &mut lines {
            if let Some(endpoint) = endpoints.get(&line.id) {
                line.address = Some(endpoint.clone());
            }
        }
        Ok(lines)
    }
}

/// A line of `CLUSTER NODES`: id, address, flags, master, ping, pong, epoch, link, slots.
fn read_line(line: &str, server: &Address) -> Option<Line> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [id, address, flags, master, _, _, epoch, _, slots @ ..] = words.as_slice() else {
        return None;
    };
    let has = |flag: &str| flags.split(',').any(|word| word == flag);
    if has("handshake") {
        return None;
    }
    let address = address.split(['@', ',']).next()?;
    let address = address.rsplit_once(':').and_then(|(host, port)| {
        // A node that no other node has contacted yet does not know its own address.
        let host = if host.is_empty() { &server.host } else { host };
        Some(Address {
            host: host.to_owned(),
            port: port.parse().ok().filter(|port| *port > 0)?,
        })
    });
    Some(Line {
        id: (*id).to_owned(),
        address: address.filter(|_| !has("noaddr")),
        is_master: has("master"),
        master: Some(*master)
            .filter(|master| *master != "-")
            .map(str::to_owned),
        epoch: epoch.parse().ok()?,
        slots: slots.iter().filter_map(|range| read_range(range)).collect(),
    })
}

/// Reads `5` or `5-9`. Slots that are being moved begin with a bracket and are left out.
fn read_range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = (first.parse().ok()?, last.parse().ok()?);
    (range.0 <= range.1 && range.1 < SLOTS).then_some(range)
}

/// Addresses by id, of a reply to `CLUSTER SLOTS`.
fn endpoints(slots: Value, server: &Address) -> HashMap<String, Address> {
    let mut found = HashMap::new();
    let Value::Array(ranges) = slots else {
        return found;
    };
    for range in ranges {
        let Value::Array(parts) = range else { continue };
        for node in parts.into_iter().skip(2) {
            let Value::Array(node) = node else { continue };
            let mut node = node.into_iter();
            let mut next = || node.next().unwrap_or(Value::Nil);
            let host: Option<String> = redis::from_redis_value(next()).ok().flatten();
            let port = redis::from_redis_value(next());
            let id = redis::from_redis_value(next());
            let host = host.filter(|host| !host.is_empty() && host != "?");
            if let (Ok(port), Ok(id)) = (port, id) {
                let host = host.unwrap_or_else(|| server.host.clone());
                found.insert(id, Address { host, port });
            }
        }
    }
    found
}

/// Follows the masters until it is aborted.
pub(crate) async fn follow(directory: Arc<Directory>, seeds: Vec<Address>) {
    let (panel, mut reports) = Panel::new(AskNode, Peer::Server, Arc::clone(&directory));
    let mut follower = Follower {
        directory,
        panel,
        views: HashMap::new(),
        reported: HashSet::new(),
        seeds,
    };
    for seed in &follower.seeds {
        follower.panel.add(seed);
    }
    while let Some(report) = reports.recv().await {
        follower.hear(report);
    }
}

struct Follower {
    directory: Arc<Directory>,
    panel: Panel<AskNode>,
    seeds: Vec<Address>,
    /// The last answer of each node that answers.
    views: HashMap<Address, Vec<Line>>,
    /// Nodes that have answered, or failed to, in this round of all nodes.
    reported: HashSet<Address>,
}

impl Follower {
    fn hear(&mut self, report: Report<Vec<Line>>) {
        self.reported.insert(report.server.clone());
        let (is_news, trouble) = match report.answer {
            Ok(lines) => {
                let is_news = self.views.get(&report.server) != Some(&lines);
                self.views.insert(report.server, lines);
                (is_news, None)
            }
            Err(fault) => (self.views.remove(&report.server).is_some(), Some(fault)),
        };
        // If no node answers, the nodes that were known stay on the panel.
        if is_news && !self.views.is_empty() {
            let lines = self.views.values().flatten();
            let there: HashSet<_> = lines.filter_map(|line| line.address.clone()).collect();
            let seeds = &self.seeds;
            let stays = |server: &Address| there.contains(server) || seeds.contains(server);
            self.panel.retain(stays);
            self.reported.retain(stays);
            there.iter().for_each(|server| self.panel.add(server));
            let (found, slots) = merge(self.views.values());
            if slots.iter().any(|slot| *slot != UNSERVED) {
                self.directory.learn(&found, slots);
            }
        }
        if self
            .panel
            .members()
            .all(|server| self.reported.contains(server))
        {
            self.reported.clear();
            let trouble = trouble.unwrap_or_else(|| {
                let said = "its nodes serve no slots";
                Fault::no_master(said, self.directory.dialer.url())
            });
            self.directory.asked_all(Some(trouble));
        }
    }
}

/// All masters, and for each slot the index of the one that serves it.
fn merge<'a>(views: impl Iterator<Item = &'a Vec<Line>>) -> (Vec<Found>, Vec<u16>) {
    let views: Vec<&Vec<Line>> = views.collect();
    let mut owners: Vec<Option<&Line>> = vec![None; usize::from(SLOTS)];
    let mut replicas: HashMap<&str, HashSet<&str>> = HashMap::new();
    let mut masters: HashMap<&str, &Line> = HashMap::new();
    for line in views.iter().copied().flatten() {
        if let Some(master) = &line.master {
            replicas.entry(master).or_default().insert(&line.id);
        }
        if !line.is_master || line.address.is_none() {
            continue;
        }
        let newest = masters.entry(&line.id).or_insert(line);
        if line.epoch > newest.epoch {
            *newest = line;
        }
        for slot in line.slots.iter().flat_map(|&(first, last)| first..=last) {
            let owner = &mut owners[usize::from(slot)];
            if owner.is_none_or(|owner| line.epoch > owner.epoch) {
                *owner = Some(line);
            }
        }
    }
    let mut masters: Vec<&Line> = masters.into_values().collect();
    masters.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    let index: HashMap<&str, u16> = (0..)
        .zip(&masters)
        .map(|(index, line)| (line.id.as_str(), index))
        .collect();
    let slots = owners
        .into_iter()
        .map(|owner| owner.map_or(UNSERVED, |owner| index[owner.id.as_str()]))
        .collect();
    let found = masters.into_iter().filter_map(|line| {
        let replicas = replicas.get(line.id.as_str()).map_or(0, HashSet::len);
        let replicas = u32::try_from(replicas).unwrap_or(u32::MAX);
        Some(Found {
            address: line.address.clone()?,
            replicas,
            up: replicas,
            linked: replicas,
        })
    });
    (found.collect(), slots)
}

/// Replicas by the address of their master, dead ones too, as this node says.
pub(crate) async fn replicas(directory: &Directory, node: &Address) -> Result<Vec<Address>, Fault> {
    let url = directory.dialer.url();
    let mut connection = directory.dialer.connect(Peer::Server, node).await?;
    let lines = AskNode
        .ask(node, &mut connection)
        .await
        .map_err(|error| Fault::connecting(&error, url))?;
    let own = lines
        .iter()
        .find(|line| line.address.as_ref() == Some(node))
        .map(|line| line.id.clone());
    let mine = lines
        .into_iter()
        .filter(|line| line.master.is_some() && line.master == own);
    Ok(mine.filter_map(|line| line.address).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(text: &str) -> Vec<Line> {
        let server = Address {
            host: "me".into(),
            port: 1,
        };
        text.lines().filter_map(|l| read_line(l, &server)).collect()
    }

    const BEFORE: &str = "\
        a 10.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-8191\n\
        b 10.0.0.2:7002@17002,host master - 0 0 2 connected 8192-16383 [5-<-a]\n\
        c 10.0.0.3:7003@17003 slave a 0 0 1 connected\n\
        d :0@0 slave,fail,noaddr a 0 0 1 disconnected\n\
        e 10.0.0.9:7009@17009 handshake - 0 0 0 connected\n";
    const AFTER: &str = "\
        a 10.0.0.1:7001@17001 slave c 0 0 3 connected\n\
        b :7002@17002 myself,master - 0 0 2 connected 8192-16383\n\
        c 10.0.0.3:7003@17003 master - 0 0 3 connected 0-8191\n";

    #[test]
    fn nodes_and_their_replicas_are_read_dead_ones_too() {
        let before = view(BEFORE);
        assert_eq!(before.len(), 4);
        let (found, slots) = merge([&before].into_iter());
        let masters: Vec<_> = found
            .iter()
            .map(|found| (found.address.to_string(), found.replicas))
            .collect();
        assert_eq!(
            masters,
            [("10.0.0.1:7001".into(), 2), ("10.0.0.2:7002".into(), 0)]
        );
        assert_eq!(
            (slots[0], slots[8191], slots[8192], slots[16383]),
            (0, 0, 1, 1)
        );
    }

    #[test]
    fn of_two_masters_the_one_of_the_higher_epoch_serves_the_slot() {
        let (before, after) = (view(BEFORE), view(AFTER));
        for views in [[&before, &after], [&after, &before]] {
            let (found, slots) = merge(views.into_iter());
            let serving = &found[usize::from(slots[0])].address;
            assert_eq!(serving.to_string(), "10.0.0.3:7003");
        }
        let lines = view(AFTER);
        assert_eq!(lines[1].address.as_ref().unwrap().host, "me");
    }
}
