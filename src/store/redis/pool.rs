//! How a connection is made, and the pool that keeps them.
//!
//! The pool is deadpool's. The managers of deadpool-redis ask the server at every checkout whether it is there, and give
//! no way to set a cluster's or Sentinel's timeouts, so the manager here does those itself; a connection is trusted until
//! a call on it fails, and then it is thrown away.

use std::{path::PathBuf, time::Duration};

use deadpool::managed::{self, Metrics, RecycleResult};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo as _,
    RedisConnectionInfo, RedisError, RedisResult, TlsCertificates, TlsMode, Value,
    aio::{ConnectionLike as _, MultiplexedConnection},
    cluster::{ClusterClient, ClusterClientBuilder},
    cluster_async::ClusterConnection,
    cluster_routing::RoutingInfo,
    io::tcp::TcpSettings,
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
};
use thiserror::Error;
use tokio::sync::Mutex;

use super::url::{Address, Place, RedisUrl};

/// TCP, TLS and AUTH with one server: a few round trips, so that one which needs longer is not there.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(2);
/// A connection that is found by asking others first: dead sentinels or nodes cost a second or two each way.
pub(super) const DISCOVER_MAX: Duration = Duration::from_secs(5);
/// All connections are out: their calls take far longer than any should.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(2);
/// A call takes milliseconds, behind an fsync of a slow disk up to a second or two.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A cluster's client sends again on MOVED, ASK, TRYAGAIN, CLUSTERDOWN, LOADING, READONLY and lost connections. All its pauses
/// together are below 2 s, so that it gives up with the reason before the answer's time is over.
const CLUSTER_RETRIES: u32 = 6;
const CLUSTER_PAUSE_MS_MIN: u64 = 20;
const CLUSTER_PAUSE_MS_MAX: u64 = 500;
const CLUSTER_PAUSE_FACTOR: u64 = 20;
const CLUSTER_PAUSE_BASE: u64 = 2;

/// Why connections to this place cannot even be tried.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The CA file cannot be read.
    #[error("cannot read the CA file {file} ({cause}): name a readable PEM file with ?ca=FILE")]
    CaFile {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The CA file is something else.
    #[error("the CA file {0} holds no certificate: name a PEM file with ?ca=FILE")]
    NoCertificate(PathBuf),
    /// The driver does not take the settings.
    #[error("the Redis URL cannot be used: {0}")]
    Driver(String),
}

impl From<RedisError> for SetupError {
    fn from(error: RedisError) -> Self {
        Self::Driver(error.to_string())
    }
}

pub(super) type Pool = managed::Pool<Manager>;

/// Builds the pool; nothing is connected yet.
pub(super) fn build(url: &RedisUrl, size_max: usize) -> Result<Pool, SetupError> {
    let create = match url.place {
        Place::Single(_) => CONNECT_MAX,
        Place::Sentinel { .. } | Place::Cluster(_) => DISCOVER_MAX,
    };
    Pool::builder(Manager::new(url)?)
        .max_size(size_max)
        .runtime(managed::reexports::Runtime::Tokio1)
        .wait_timeout(Some(WAIT_MAX))
        .create_timeout(Some(create))
        // The one used last is used next, so that those a quiet hour does not need are few and the same.
        .queue_mode(managed::QueueMode::Lifo)
        .build()
        .map_err(|error| SetupError::Driver(error.to_string()))
}

/// Makes connections of one kind.
pub(super) enum Manager {
    Single(deadpool_redis::Manager),
    Sentinel(Mutex<SentinelClient>),
    Cluster(ClusterClient),
}

/// A connection of that kind.
pub(super) enum Connection {
    /// To one server.
    Node(MultiplexedConnection),
    /// To every node of a cluster.
    Cluster(ClusterConnection),
}

impl Connection {
    /// Sends a command, in a cluster along its route or where the driver finds that it belongs.
    pub(super) async fn call(
        &mut self,
        cmd: Cmd,
        route: Option<RoutingInfo>,
    ) -> RedisResult<Value> {
        let value = match (self, route) {
            (Self::Node(node), _) => node.send_packed_command(&cmd).await?,
            (Self::Cluster(cluster), Some(route)) => cluster.route_command(cmd, route).await?,
            (Self::Cluster(cluster), None) => cluster.req_packed_command(&cmd).await?,
        };
        match value {
            Value::ServerError(error) => Err(error.into()),
            value => Ok(value),
        }
    }
}

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = RedisError;

    async fn create(&self) -> RedisResult<Connection> {
        Ok(match self {
            Self::Single(single) => Connection::Node(managed::Manager::create(single).await?),
            Self::Sentinel(client) => {
                let mut client = client.lock().await;
                Connection::Node(client.get_async_connection_with_config(&patience()).await?)
            }
            Self::Cluster(client) => Connection::Cluster(client.get_async_connection().await?),
        })
    }

    /// No round trip: a connection whose call failed never comes back to the pool.
    async fn recycle(&self, _: &mut Connection, _: &Metrics) -> RecycleResult<RedisError> {
        Ok(())
    }
}

impl Manager {
    fn new(url: &RedisUrl) -> Result<Self, SetupError> {
        let certificates = certificates(url)?;
        Ok(match &url.place {
            Place::Single(server) => Self::Single(single(url, server, certificates)?),
            Place::Sentinel { sentinels, master } => {
                Self::Sentinel(Mutex::new(sentinel(url, sentinels, master, certificates)?))
            }
            Place::Cluster(nodes) => Self::Cluster(cluster(url, nodes, certificates)?),
        })
    }
}

/// Each call is bounded where it is made, at [`ANSWER_MAX`]: the driver's own bound, by default half a second, is off.
fn patience() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_MAX))
        .set_response_timeout(None)
}

/// Without this the kernel holds small commands back (Nagle's algorithm).
fn tcp() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

fn certificates(url: &RedisUrl) -> Result<Option<TlsCertificates>, SetupError> {
    let Some(file) = &url.ca_file else {
        return Ok(None);
    };
    let pem = std::fs::read(file).map_err(|cause| SetupError::CaFile {
        file: file.clone(),
        cause,
    })?;
    if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
        return Err(SetupError::NoCertificate(file.clone()));
    }
    Ok(Some(TlsCertificates {
        client_tls: None,
        root_cert: Some(pem),
    }))
}

fn address(url: &RedisUrl, Address { host, port }: &Address) -> ConnectionAddr {
    if url.tls {
        ConnectionAddr::TcpTls {
            host: host.clone(),
            port: *port,
            insecure: false,
            tls_params: None,
        }
    } else {
        ConnectionAddr::Tcp(host.clone(), *port)
    }
}

fn entrance(url: &RedisUrl) -> RedisConnectionInfo {
    let mut entrance = RedisConnectionInfo::default().set_db(url.db.into());
    if let Some(user) = &url.user {
        entrance = entrance.set_username(user);
    }
    if let Some(password) = &url.password {
        entrance = entrance.set_password(password);
    }
    entrance
}

fn single(
    url: &RedisUrl,
    server: &Address,
    certificates: Option<TlsCertificates>,
) -> RedisResult<deadpool_redis::Manager> {
    let info = address(url, server)
        .into_connection_info()?
        .set_redis_settings(entrance(url))
        .set_tcp_settings(tcp());
    let info = match certificates {
        Some(certificates) => {
            let client = Client::build_with_tls(info, certificates)?;
            client.get_connection_info().clone()
        }
        None => info,
    };
    deadpool_redis::Manager::new_with_config(info, patience())
}

/// User and password are those of the servers; sentinels are asked without.
fn sentinel(
    url: &RedisUrl,
    sentinels: &[Address],
    master: &str,
    certificates: Option<TlsCertificates>,
) -> RedisResult<SentinelClient> {
    let sentinels: Vec<_> = sentinels.iter().map(|host| address(url, host)).collect();
    let mut builder = SentinelClientBuilder::new(sentinels, master, SentinelServerType::Master)?
        .set_client_to_redis_tcp_settings(tcp())
        .set_client_to_redis_db(url.db.into());
    if let Some(user) = &url.user {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = &url.password {
        builder = builder.set_client_to_redis_password(password);
    }
    if url.tls {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    if let Some(certificates) = certificates {
        builder = builder
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    builder.build()
}

fn cluster(
    url: &RedisUrl,
    nodes: &[Address],
    certificates: Option<TlsCertificates>,
) -> RedisResult<ClusterClient> {
    let mut builder = ClusterClientBuilder::new(nodes.iter().map(|node| address(url, node)))
        .tcp_settings(tcp())
        .connection_timeout(CONNECT_MAX)
        .response_timeout(ANSWER_MAX)
        .overall_response_timeout(Some(ANSWER_MAX))
        .retries(CLUSTER_RETRIES)
        .min_retry_wait(CLUSTER_PAUSE_MS_MIN)
        .max_retry_wait(CLUSTER_PAUSE_MS_MAX)
        .retry_wait_formula(CLUSTER_PAUSE_FACTOR, CLUSTER_PAUSE_BASE);
    if let Some(user) = &url.user {
        builder = builder.username(user);
    }
    if let Some(password) = &url.password {
        builder = builder.password(password);
    }
    if url.tls {
        builder = builder.tls(TlsMode::Secure);
    }
    if let Some(certificates) = certificates {
        builder = builder.certs(certificates);
    }
    builder.build()
}
