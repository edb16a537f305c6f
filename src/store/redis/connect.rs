//! Commands to Redis, with a bound on every wait.
//!
//! A connection goes back to the pool only after an answer that says nothing against it. After a timeout, a broken
//! connection or the reply of a server that is no longer the master it is thrown away; so it is where the caller goes away
//! in the middle.

use std::time::Instant;

use deadpool::managed::Object;
use redis::{
    Cmd, Value,
    cluster_routing::{
        MultipleNodeRoutingInfo, Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr,
    },
};
use tokio::time::timeout;

use super::{
    fault::Fault,
    fault_kind::FaultKind,
    pool::{self, ANSWER_MAX, Manager, Pool, SetupError},
    script::Script,
    url::{Place, RedisUrl},
    words::Words,
};

/// Connections to one Redis, whatever stands there.
pub struct Connections {
    pool: Pool,
    url: RedisUrl,
}

/// A server that takes writes.
pub struct Master<'a> {
    connections: &'a Connections,
    address: String,
    route: Option<RoutingInfo>,
}

impl Connections {
    /// At most `size_max` connections, each made when it is needed.
    ///
    /// # Errors
    /// A CA file that cannot be used.
    pub fn new(url: &RedisUrl, size_max: usize) -> Result<Self, SetupError> {
        Ok(Self {
            pool: pool::build(url, size_max)?,
            url: url.clone(),
        })
    }

    /// Where they lead.
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
        let route = || self.route_of(keys);
        let mut lease = self.lease().await?;
        match lease.call(script.by_digest(keys, arguments), route()).await {
            Err(fault) if fault.kind == FaultKind::UnknownScript => {
                lease.call(script.by_text(keys, arguments), route()).await
            }
            answer => answer,
        }
    }

    /// Runs a command that has no keys, or keys that the driver finds.
    ///
    /// # Errors
    /// A [`Fault`], which says whether the command may have run.
    pub async fn command(&self, cmd: &Cmd) -> Result<Value, Fault> {
        self.lease().await?.call(cmd.clone(), None).await
    }

    /// Every server that takes writes: one, or the masters of a cluster.
    ///
    /// # Errors
    /// A [`Fault`] where one of them does not answer.
    pub async fn each_master(&self) -> Result<Vec<Master<'_>>, Fault> {
        let master = |address, route| Master {
            connections: self,
            address,
            route,
        };
        match &self.url.place {
            Place::Single(server) => Ok(vec![master(server.to_string(), None)]),
            Place::Sentinel { master: name, .. } => {
                Ok(vec![master(format!("the master `{name}`"), None)])
            }
            Place::Cluster(_) => {
                let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let answers = self
                    .lease()
                    .await?
                    .call(redis::cmd("PING"), Some(all))
                    .await?;
                let addresses = addresses(answers)?;
                Ok(addresses
                    .into_iter()
                    .map(|(host, port)| {
                        let address = format!("{host}:{port}");
                        let route = SingleNodeRoutingInfo::ByAddress { host, port };
                        master(address, Some(RoutingInfo::SingleNode(route)))
                    })
                    .collect())
            }
        }
    }

    /// Redis hashes the first key; the others share its tag.
    fn route_of(&self, keys: &Words) -> Option<RoutingInfo> {
        let Place::Cluster(_) = self.url.place else {
            return None;
        };
        keys.iter().next().map(|key| {
            let route = Route::with_key(key, SlotAddr::Master);
            RoutingInfo::SingleNode(SingleNodeRoutingInfo::SpecificNode(route))
        })
    }

    async fn lease(&self) -> Result<Lease<'_>, Fault> {
        match self.pool.get().await {
            Ok(object) => Ok(Lease {
                connections: self,
                object: Some(object),
                begun: Instant::now(),
                is_sound: true,
            }),
            Err(error) => Err(Fault::connecting(error, &self.url)),
        }
    }
}

impl Master<'_> {
    /// Where it is, for messages.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Runs a command on this server.
    ///
    /// # Errors
    /// A [`Fault`], which says whether the command may have run.
    pub async fn command(&self, cmd: &Cmd) -> Result<Value, Fault> {
        let mut lease = self.connections.lease().await?;
        lease.call(cmd.clone(), self.route.clone()).await
    }
}

/// The keys of the driver's answer for many nodes.
fn addresses(answers: Value) -> Result<Vec<(String, u16)>, Fault> {
    let unread = || Fault::protocol("the driver does not tell the masters of the cluster");
    let Value::Map(answers) = answers else {
        return Err(unread());
    };
    answers
        .into_iter()
        .map(|(address, _)| {
            let Value::BulkString(address) = address else {
                return None;
            };
            let address = String::from_utf8(address).ok()?;
            let (host, port) = address.rsplit_once(':')?;
            Some((host.to_owned(), port.parse().ok()?))
        })
        .collect::<Option<_>>()
        .ok_or_else(unread)
}

/// A connection that is out of the pool.
struct Lease<'a> {
    connections: &'a Connections,
    object: Option<Object<Manager>>,
    begun: Instant,
    is_sound: bool,
}

impl Lease<'_> {
    async fn call(&mut self, cmd: Cmd, route: Option<RoutingInfo>) -> Result<Value, Fault> {
        let Some(connection) = &mut self.object else {
            return Err(Fault::protocol("the connection was given back"));
        };
        self.is_sound = false; // until it answered, which it may never do
        let answer = match timeout(ANSWER_MAX, connection.call(cmd, route)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Fault::answering(&error, &self.connections.url)),
            Err(_) => Err(Fault::timed_out(&self.connections.url)),
        };
        match &answer {
            Err(fault) if fault.kind.spoils_connection() => self.forget_older(),
            _ => self.is_sound = true,
        }
        answer
    }

    /// What broke this connection broke the idle ones too. A cluster's driver mends its own.
    fn forget_older(&self) {
        if let Place::Cluster(_) = self.connections.url.place {
            return;
        }
        let begun = self.begun;
        let pool = &self.connections.pool;
        pool.retain(|_, metrics| metrics.created > begun);
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(object) = self.object.take()
            && !self.is_sound
        {
            drop(Object::take(object));
        }
    }
}
