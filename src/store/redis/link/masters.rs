//! Which servers are masters now, each with a pool of connections.
//!
//! A single server never changes. With Sentinel and in a cluster a follower ([`super::sentinel`],
//! [`super::cluster`]) writes here what it finds; calls only read. A server that is not a master
//! any more is retired: its connections end at once, idle and in use. Nothing connects under a
//! lock.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::timeout};

use super::{
    fault::Fault,
    pool::{self, Dialer, Pool},
    url::Address,
};
use crate::store::Executed;

/// How long a call waits for a master to be known.
const MASTER_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a replica that is not online any more still counts: in a planned failover it leaves
/// first, and services learn of the promotion seconds later.
const ONLINE_MEMORY: Duration = Duration::from_secs(10);
/// A slot that no master serves.
pub(crate) const UNSERVED: u16 = u16::MAX;

/// A server that is a master, or was one.
pub(crate) struct Node {
    pub(crate) address: Address,
    pub(crate) pool: Pool,
    /// True once it is not a master any more.
    pub(crate) retired: watch::Sender<bool>,
    /// Replicas that are known, dead ones too.
    replicas: AtomicU32,
    /// Replicas that may be promoted, as far as is known.
    eligible: AtomicU32,
    /// Replicas that are not known to be down.
    up: AtomicU32,
    /// The most replicas that were online lately, and when.
    online: Mutex<Option<(u32, Instant)>>,
}

impl Node {
    fn new(dialer: &Arc<Dialer>, address: Address, size_max: usize) -> Self {
        Self {
            pool: pool::build(dialer, &address, size_max),
            address,
            retired: watch::Sender::new(false),
            replicas: AtomicU32::new(0),
            eligible: AtomicU32::new(0),
            up: AtomicU32::new(0),
            online: Mutex::new(None),
        }
    }

    /// Ends its connections, and every call on them.
    fn retire(&self) {
        self.pool.close();
        self.retired.send_replace(true);
    }

    /// Replicas that are known, dead ones too.
    pub(crate) fn replicas(&self) -> u32 {
        self.replicas.load(Ordering::Relaxed)
    }

    /// Sets how many replicas are known.
    pub(crate) fn set_replicas(&self, replicas: u32) {
        self.replicas.store(replicas, Ordering::Relaxed);
    }

    /// Replicas of which Sentinel may promote any: those that follow now, and those that did a
    /// moment ago, unless they are known to be down.
    pub(crate) fn eligible(&self) -> u32 {
        let online = self.online.lock().unwrap_or_else(PoisonError::into_inner);
        let online = online.map_or(0, |(count, _)| count);
        let up = self.up.load(Ordering::Relaxed);
        self.eligible.load(Ordering::Relaxed).max(online.min(up))
    }

    /// Takes note of how many replicas the server itself says are online. More count at once, fewer
    /// only after [`ONLINE_MEMORY`]: one that left may just be promoted.
    pub(crate) fn set_online(&self, count: u32, now: Instant) {
        let mut online = self.online.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |since: Instant| now.duration_since(since) < ONLINE_MEMORY;
        if online.is_none_or(|(most, since)| count >= most || !is_recent(since)) {
            *online = Some((count, now));
        }
    }
}

/// A master as a follower found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) address: Address,
    /// Replicas that are known, dead ones too.
    pub(crate) replicas: u32,
    /// Those that are not down.
    pub(crate) up: u32,
    /// Those that follow the master.
    pub(crate) linked: u32,
}

/// The masters, and which of them serves a slot.
pub(crate) struct Map {
    pub(crate) nodes: Vec<Arc<Node>>,
    /// Index of each slot's node, or [`UNSERVED`]; empty outside of clusters.
    pub(crate) slots: Vec<u16>,
}

impl Map {
    /// The node of a slot; none if no node serves it.
    pub(crate) fn node(&self, slot: u16) -> Option<&Arc<Node>> {
        if self.slots.is_empty() {
            return self.nodes.first();
        }
        let index = *self.slots.get(usize::from(slot))?;
        self.nodes.get(usize::from(index))
    }

    /// The node at an address, if it is a master.
    pub(crate) fn node_at(&self, address: &Address) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|node| node.address == *address)
    }

    /// Nodes that serve anything.
    pub(crate) fn serving(&self) -> impl Iterator<Item = &Arc<Node>> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(|(index, _)| {
                self.slots.is_empty() || self.slots.iter().any(|slot| usize::from(*slot) == *index)
            })
            .map(|(_, node)| node)
    }
}

#[derive(Clone, Default)]
struct State {
    map: Option<Arc<Map>>,
    /// Why there is no map, once all servers were asked.
    trouble: Option<Fault>,
    /// How often all servers were asked without finding a master.
    rounds: u64,
}

/// The masters that are known, for calls and followers.
pub(crate) struct Directory {
    pub(crate) dialer: Arc<Dialer>,
    size_max: usize,
    state: watch::Sender<State>,
    /// Changes with each demand to ask the servers again.
    wishes: watch::Sender<u64>,
}

impl Directory {
    /// Knows nobody yet. Each server gets at most `size_max` connections.
    pub(crate) fn new(dialer: Arc<Dialer>, size_max: usize) -> Self {
        Self {
            dialer,
            size_max,
            state: watch::Sender::default(),
            wishes: watch::Sender::new(0),
        }
    }

    /// The masters, as soon as they are known.
    pub(crate) async fn map(&self) -> Result<Arc<Map>, Fault> {
        let mut state = self.state.subscribe();
        let rounds = {
            let now = state.borrow_and_update();
            if let Some(map) = &now.map {
                return Ok(Arc::clone(map));
            }
            now.rounds
        };
        self.ask_again();
        let known = state.wait_for(|state| {
            state.map.is_some() || (state.trouble.is_some() && state.rounds > rounds)
        });
        let url = self.dialer.url();
        let said = "nobody has become the master yet";
        let unknown = || Fault::no_master(said, url);
        let state = match timeout(MASTER_WAIT_MAX, known).await {
            Ok(state) => state.map_err(|_| unknown())?.clone(),
            Err(_) => self.state.borrow().clone(),
        };
        state
            .map
            .ok_or_else(|| state.trouble.unwrap_or_else(unknown))
    }

    /// Another server may be the master: lets the followers ask at once instead of within a second.
    pub(crate) fn ask_again(&self) {
        self.wishes.send_modify(|wishes| *wishes += 1);
    }

    /// Fires with each demand to ask the servers again.
    pub(crate) fn wishes(&self) -> watch::Receiver<u64> {
        self.wishes.subscribe()
    }

    /// Sets the masters. Those that stay keep their connections, all others are retired.
    pub(crate) fn learn(&self, found: &[Found], slots: Vec<u16>) {
        self.state.send_if_modified(|state| {
            let before = state.map.as_deref();
            let nodes: Vec<_> = found.iter().map(|found| self.node(before, found)).collect();
            let is_new = before.is_none_or(|map| {
                let same = |(a, b): (&Arc<Node>, &Arc<Node>)| Arc::ptr_eq(a, b);
                map.slots != slots
                    || map.nodes.len() != nodes.len()
                    || !map.nodes.iter().zip(&nodes).all(same)
            });
            if !is_new {
                return false;
            }
            for node in before.map_or(&[][..], |map| &map.nodes) {
                if !nodes.iter().any(|kept| Arc::ptr_eq(kept, node)) {
                    let server = &node.address;
                    tracing::warn!(%server, "{server} is not a master any more");
                    node.retire();
                }
            }
            for node in nodes.iter().filter(|_| self.dialer.url().fails_over()) {
                if before.is_none_or(|map| map.node_at(&node.address).is_none()) {
                    tracing::info!(server = %node.address, "the master is {}", node.address);
                }
            }
            state.map = Some(Arc::new(Map { nodes, slots }));
            state.trouble = None;
            true
        });
    }

    fn node(&self, before: Option<&Map>, found: &Found) -> Arc<Node> {
        let kept = before.and_then(|map| map.node_at(&found.address));
        let node = kept.map_or_else(
            || {
                Arc::new(Node::new(
                    &self.dialer,
                    found.address.clone(),
                    self.size_max,
                ))
            },
            Arc::clone,
        );
        node.set_replicas(found.replicas);
        node.up.store(found.up, Ordering::Relaxed);
        node.eligible.store(found.linked, Ordering::Relaxed);
        node
    }

    /// Nobody is the master until [`Self::learn`] says who: what is under way ends.
    pub(crate) fn disown(&self) {
        self.state.send_if_modified(|state| {
            let Some(map) = state.map.take() else {
                return false;
            };
            state.trouble = None;
            for node in &map.nodes {
                let server = &node.address;
                tracing::warn!(%server, "{server} is not the master any more");
                node.retire();
            }
            true
        });
    }

    /// Everybody was asked. `trouble` is why nobody is known to be the master, if so.
    pub(crate) fn asked_all(&self, trouble: Option<Fault>) {
        self.state.send_if_modified(|state| {
            state.rounds += 1;
            if state.map.is_some() {
                return false;
            }
            state.trouble = trouble;
            true
        });
    }
}

impl Directory {
    /// A call's fault on a node that was retired meanwhile.
    pub(crate) fn changed(&self, executed: Executed, node: &Node) -> Fault {
        Fault::master_changed(executed, &node.address, self.dialer.url())
    }
}
