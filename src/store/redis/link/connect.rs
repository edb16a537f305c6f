//! Sends commands to Redis: each to the server that is the master now; in a cluster, to the master
//! of its keys.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{Cmd, Value};
use tokio::{task::JoinSet, time::sleep};

use super::{
    cluster,
    confirm::{self, Quorum},
    fault::{Fault, Redirect},
    fault_kind::FaultKind,
    lease::Lease,
    masters::{Directory, Found, Map, Node},
    pool::{Dialer, SetupError},
    sentinel,
    slots::slot_of,
    url::{Address, RedisUrl, Topology},
};
use crate::{
    metrics::STORE,
    store::{
        Executed,
        redis::format::{
            script::{Effect, Script},
            scripts::BARRIER,
            words::Words,
        },
    },
    trace,
};

/// The pauses before a refused call is sent again, while the master changes or slots move. They are
/// about a second in all, so that the caller gets the reason in time.
const PAUSES_MS: [u64; 6] = [10, 30, 80, 160, 320, 500];
/// How often a call is redirected by nodes of a cluster.
const REDIRECTS_MAX: usize = 8;

/// Connections to one Redis: a single server, a group with Sentinel, or a cluster.
pub struct Connections {
    pub(crate) directory: Arc<Directory>,
    url: RedisUrl,
    /// How many replicas confirm a write; none if no replica is waited for.
    pub(crate) quorum: Option<Quorum>,
    /// The task that follows the masters; it ends when this is dropped.
    _follower: JoinSet<()>,
}

/// A server that takes writes.
pub struct Master<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) node: Arc<Node>,
    address: String,
}

/// A command or a script to send.
#[derive(Clone, Copy)]
enum Call<'a> {
    Command(&'a Cmd),
    /// Script, keys, arguments, and whether replicas must confirm it.
    Script(&'a Script, &'a Words, &'a Words, bool),
}

impl Connections {
    /// At most `size_max` connections to each server, each made when it is needed. It must be
    /// called within a Tokio runtime: a task follows the masters of Sentinel or a cluster until
    /// this is dropped.
    ///
    /// # Errors
    /// A file of TLS that cannot be used.
    pub fn new(url: &RedisUrl, size_max: usize) -> Result<Self, SetupError> {
        let dialer = Arc::new(Dialer::new(url)?);
        let directory = Arc::new(Directory::new(dialer, size_max));
        let mut follower = JoinSet::new();
        match &url.topology {
            Topology::Single(server) => {
                let found = Found {
                    address: server.clone(),
                    replicas: 0,
                    up: 0,
                    linked: 0,
                };
                directory.learn(&[found], Vec::new());
            }
            Topology::Sentinel { sentinels, master } => {
                let (sentinels, master) = (sentinels.clone(), master.clone());
                follower.spawn(sentinel::follow(Arc::clone(&directory), sentinels, master));
            }
            Topology::Cluster(nodes) => {
                follower.spawn(cluster::follow(Arc::clone(&directory), nodes.clone()));
            }
        }
        Ok(Self {
            directory,
            url: url.clone(),
            quorum: None,
            _follower: follower,
        })
    }

    /// The same connections, with writes that replicas confirm: `named` of them, or as many as are
    /// needed so that nothing is lost when the primary dies.
    #[must_use]
    pub fn confirming(self, named: Option<u32>) -> Self {
        let is_cluster = matches!(self.url.topology, Topology::Cluster(_));
        Self {
            quorum: Some(Quorum { named, is_cluster }),
            ..self
        }
    }

    /// The URL of this Redis.
    pub fn url(&self) -> &RedisUrl {
        &self.url
    }

    /// Runs a script; all its keys share one hash tag.
    ///
    /// # Errors
    /// A [`Fault`], which says whether the script may have run.
    pub async fn run(
        &self,
        script: &Script,
        keys: &Words,
        arguments: &Words,
    ) -> Result<Value, Fault> {
        let call = Call::Script(script, keys, arguments, false);
        self.send(call, keys.iter().next()).await
    }

    /// Runs a script that writes. If writes are to be confirmed ([`Self::confirming`]) it returns
    /// only after replicas have what it wrote, or what it repeats.
    ///
    /// # Errors
    /// A [`Fault`], which says whether the script may have run. It may have, and may last, if too
    /// few replicas confirmed it.
    pub async fn write(
        &self,
        script: &Script,
        keys: &Words,
        arguments: &Words,
    ) -> Result<Value, Fault> {
        let call = Call::Script(script, keys, arguments, self.quorum.is_some());
        self.send(call, keys.iter().next()).await
    }

    /// Runs a command that has no keys, in a cluster on any master.
    ///
    /// # Errors
    /// A [`Fault`], which says whether the command may have run.
    pub async fn command(&self, cmd: &Cmd) -> Result<Value, Fault> {
        self.send(Call::Command(cmd), None).await
    }

    /// Runs a command with this key.
    ///
    /// # Errors
    /// A [`Fault`], which says whether the command may have run.
    pub async fn command_on(&self, key: &[u8], cmd: &Cmd) -> Result<Value, Fault> {
        self.send(Call::Command(cmd), Some(key)).await
    }

    /// Every server that takes writes: one, or the masters of a cluster.
    ///
    /// # Errors
    /// A [`Fault`] if they are not known.
    pub async fn each_master(&self) -> Result<Vec<Master<'_>>, Fault> {
        let map = self.directory.map().await?;
        let master = |node: &Arc<Node>| Master {
            directory: &self.directory,
            node: Arc::clone(node),
            address: node.address.to_string(),
        };
        Ok(map.serving().map(master).collect())
    }

    /// Sends a call. Sends it again as long as it is refused because the master changes, and only
    /// if it has certainly not run.
    async fn send(&self, call: Call<'_>, key: Option<&[u8]>) -> Result<Value, Fault> {
        let mut pauses = PAUSES_MS.iter();
        let mut redirects = 0;
        let mut redirect = None;
        loop {
            let fault = match self.send_once(call, key, redirect.take()).await {
                Ok(value) => return Ok(value),
                Err(fault) => fault,
            };
            if !self.may_pass(&fault) {
                return Err(fault);
            }
            self.directory.ask_again();
            if fault.redirect.is_some() && redirects < REDIRECTS_MAX {
                redirects += 1;
                redirect = fault.redirect;
                continue;
            }
            match pauses.next() {
                Some(pause) => sleep(Duration::from_millis(*pause)).await,
                None => return Err(fault),
            }
        }
    }

    /// Whether the call was refused for a reason that soon may be gone.
    fn may_pass(&self, fault: &Fault) -> bool {
        if fault.executed != Executed::No {
            return false;
        }
        match self.url.topology {
            Topology::Single(_) => false,
            Topology::Sentinel { .. } => {
                matches!(fault.kind, FaultKind::ReadOnly | FaultKind::MasterChanged)
            }
            Topology::Cluster(_) => matches!(
                fault.kind,
                FaultKind::ReadOnly
                    | FaultKind::MasterChanged
                    | FaultKind::ClusterDown
                    | FaultKind::Loading
                    | FaultKind::Unreachable
            ),
        }
    }

    async fn send_once(
        &self,
        call: Call<'_>,
        key: Option<&[u8]>,
        redirect: Option<Redirect>,
    ) -> Result<Value, Fault> {
        let map = self.directory.map().await?;
        let node = self.node(&map, key, redirect.as_ref().map(|to| &to.address))?;
        let mut lease = Lease::take(&self.directory, node).await?;
        let is_ask = redirect.is_some_and(|redirect| redirect.is_ask);
        match call {
            Call::Command(cmd) => ask_and_call(&mut lease, cmd, is_ask).await,
            Call::Script(script, keys, arguments, false) => {
                run_script(&mut lease, script, keys, arguments, is_ask).await
            }
            Call::Script(script, keys, arguments, true) => {
                let needed = self.needed(&lease)?;
                let reply = run_script(&mut lease, script, keys, arguments, is_ask).await?;
                match script.effect(&reply) {
                    Effect::Nothing => return Ok(reply),
                    Effect::Wrote => {}
                    Effect::Repeated | Effect::Unread => {
                        let partition = keys.iter().take(1).into();
                        let nothing = Words::default();
                        run_script(&mut lease, &BARRIER, &partition, &nothing, is_ask)
                            .await
                            .map_err(Fault::afterwards)?;
                    }
                }
                confirm::confirm(&mut lease, needed, &self.url).await?;
                Ok(reply)
            }
        }
    }

    fn node<'m>(
        &self,
        map: &'m Map,
        key: Option<&[u8]>,
        redirected: Option<&Address>,
    ) -> Result<&'m Arc<Node>, Fault> {
        if let Some(node) = redirected.and_then(|address| map.node_at(address)) {
            return Ok(node);
        }
        let node = match key {
            Some(key) => map.node(slot_of(key)),
            None => map.serving().next(),
        };
        node.ok_or_else(|| Fault::no_master("nobody serves the keys", &self.url))
    }

    /// How many replicas of a server confirm its writes.
    fn needed(&self, lease: &Lease<'_>) -> Result<u32, Fault> {
        let node = lease.node();
        let quorum = self.quorum;
        let needed = quorum.and_then(|quorum| quorum.of(node.replicas(), node.eligible()));
        needed.ok_or_else(|| Fault::no_replicas(&node.address, &self.url))
    }
}

async fn run_script(
    lease: &mut Lease<'_>,
    script: &Script,
    keys: &Words,
    arguments: &Words,
    is_ask: bool,
) -> Result<Value, Fault> {
    let sent = Instant::now();
    let answer = match ask_and_call(lease, &script.by_digest(keys, arguments), is_ask).await {
        Err(fault) if fault.kind == FaultKind::UnknownScript => {
            ask_and_call(lease, &script.by_text(keys, arguments), is_ask).await
        }
        answer => answer,
    };
    STORE.script_s.observe(sent.elapsed().as_secs_f64());
    trace::event("reply");
    answer
}

/// Sends a command. `ASKING` before it makes a node accept it for a slot that is being moved there.
async fn ask_and_call(lease: &mut Lease<'_>, cmd: &Cmd, is_ask: bool) -> Result<Value, Fault> {
    if is_ask {
        lease.call(&redis::cmd("ASKING")).await?;
    }
    lease.call(cmd).await
}

impl Master<'_> {
    /// Its address, for messages.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Runs a command on this server.
    ///
    /// # Errors
    /// A [`Fault`], which says whether the command may have run.
    pub async fn command(&self, cmd: &Cmd) -> Result<Value, Fault> {
        Lease::take(self.directory, &self.node)
            .await?
            .call(cmd)
            .await
    }
}
