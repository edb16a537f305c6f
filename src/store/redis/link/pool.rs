//! Makes connections to servers, and keeps the connections to one server in a pool.
//!
//! Every connection leads to exactly one server, in a cluster too; [`super::masters`] decides which
//! one. A pooled connection is used until a call on it fails; then it is closed.

use std::sync::Arc;

use deadpool::managed::{self, Metrics, RecycleResult};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ErrorKind,
    IntoConnectionInfo as _, RedisConnectionInfo, RedisError, RedisResult, TlsCertificates, Value,
    aio::{MultiplexedConnection, PubSub},
    io::tcp::TcpSettings,
};
use thiserror::Error;

use super::{
    fault::Fault,
    timeouts::{CONNECT_MAX, WAIT_MAX},
    url::{Address, RedisUrl},
};
use crate::{
    metrics::STORE,
    password::PasswordError,
    tls::{ClientMaterial, ClientTls, Names, TlsError, Watched},
};

/// The parameters of the URL that name files.
const NAMES: Names = Names {
    ca: "?ca=",
    cert: "?cert=",
    key: "?key=",
    purpose: "redis",
    expiries: ["redis_ca", "redis_client"],
};

/// Why no connection can even be tried.
#[derive(Debug, Error)]
pub enum SetupError {
    /// A file of TLS cannot be used.
    #[error("the Redis URL: {0}")]
    Tls(#[from] TlsError),
    /// A file of a password cannot be used.
    #[error("the Redis URL: {0}")]
    Password(#[from] PasswordError),
    /// The driver does not take the settings.
    #[error("the Redis URL cannot be used: {0}")]
    Driver(String),
}

impl From<RedisError> for SetupError {
    fn from(error: RedisError) -> Self {
        Self::Driver(error.to_string())
    }
}

/// Opens connections to any server of a URL, with the URL's TLS settings and logins (Redis servers
/// and sentinels have different ones).
pub(crate) struct Dialer {
    url: RedisUrl,
    files: Option<Arc<Watched<ClientMaterial>>>,
}

/// The kind of server that a connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A Redis server.
    Server,
    /// A sentinel.
    Sentinel,
}

impl Dialer {
    /// Reads the files of TLS, now and when they change; nothing is connected yet. The files of
    /// passwords are read for each connection, and must be there now.
    pub(crate) fn new(url: &RedisUrl) -> Result<Self, SetupError> {
        for login in url.logins_by_file() {
            login.password()?;
        }
        let has_files = url.tls_files != ClientTls::default();
        let files = has_files.then(|| url.tls_files.clone().watch(NAMES));
        Ok(Self {
            url: url.clone(),
            files: files.transpose()?,
        })
    }

    pub(crate) fn url(&self) -> &RedisUrl {
        &self.url
    }

    /// Connects within [`CONNECT_MAX`].
    pub(crate) async fn connect(
        &self,
        peer: Peer,
        to: &Address,
    ) -> Result<MultiplexedConnection, Fault> {
        let fault = |error: RedisError| Fault::connecting(&error, &self.url);
        let client = self.client(peer, to).map_err(fault)?;
        let patience = patience();
        let connecting = client.get_multiplexed_async_connection_with_config(&patience);
        match tokio::time::timeout(CONNECT_MAX, connecting).await {
            Ok(connection) => connection.map_err(fault),
            Err(_) => Err(Fault::no_connection_in_time(&self.url)),
        }
    }

    /// Connects within [`CONNECT_MAX`] to listen to a sentinel's channels.
    pub(crate) async fn listen(&self, to: &Address) -> Result<PubSub, Fault> {
        let fault = |error: RedisError| Fault::connecting(&error, &self.url);
        let client = self.client(Peer::Sentinel, to).map_err(fault)?;
        match tokio::time::timeout(CONNECT_MAX, client.get_async_pubsub()).await {
            Ok(connection) => connection.map_err(fault),
            Err(_) => Err(Fault::no_connection_in_time(&self.url)),
        }
    }

    fn client(&self, peer: Peer, to: &Address) -> RedisResult<Client> {
        let info = address(&self.url, to)
            .into_connection_info()?
            .set_tcp_settings(TcpSettings::default().set_nodelay(true))
            .set_redis_settings(entrance(&self.url, peer)?);
        match &self.files {
            Some(files) => Client::build_with_tls(info, certificates(&files.value())),
            None => Client::open(info),
        }
    }
}

pub(crate) type Pool = managed::Pool<Manager>;

/// Builds the pool of a server; nothing is connected yet.
pub(crate) fn build(dialer: &Arc<Dialer>, to: &Address, size_max: usize) -> Pool {
    let manager = Manager {
        dialer: Arc::clone(dialer),
        address: to.clone(),
    };
    let pool = Pool::builder(manager)
        .max_size(size_max)
        .runtime(managed::reexports::Runtime::Tokio1)
        .wait_timeout(Some(WAIT_MAX))
        .create_timeout(Some(CONNECT_MAX))
        // The connection used last is used next, so that in quiet hours few connections are used.
        .queue_mode(managed::QueueMode::Lifo)
        .build();
    // It fails only for timeouts without a runtime.
    pool.unwrap_or_else(|error| unreachable!("{error}"))
}

/// Makes connections to one server.
pub(crate) struct Manager {
    dialer: Arc<Dialer>,
    address: Address,
}

/// A connection to a server that said it is a master.
pub(crate) struct Connection {
    link: MultiplexedConnection,
    /// The server knows `WAITAOF`: Redis 7.2 and later, Valkey.
    pub(crate) has_waitaof: bool,
}

impl Connection {
    /// Sends a command.
    pub(crate) async fn call(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        match self.link.send_packed_command(cmd).await? {
            Value::ServerError(error) => Err(error.into()),
            value => Ok(value),
        }
    }
}

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = Fault;

    /// Refuses a server that does not say it is a master: it may have been one a moment ago.
    async fn create(&self) -> Result<Connection, Fault> {
        STORE.connect_attempts.inc();
        let url = &self.dialer.url;
        let link = self.dialer.connect(Peer::Server, &self.address).await?;
        let mut connection = Connection {
            link,
            has_waitaof: false,
        };
        let fault = |error: RedisError| Fault::connecting(&error, url);
        if let Some(master) = master_of(&mut connection).await.map_err(fault)? {
            return Err(Fault::replica(&self.address, &master, url));
        }
        connection.has_waitaof = has_waitaof(&connection.call(&knows_waitaof()).await);
        STORE.connects.inc();
        Ok(connection)
    }

    /// No round trip: a connection whose call failed never comes back to the pool.
    async fn recycle(&self, _: &mut Connection, _: &Metrics) -> RecycleResult<Fault> {
        Ok(())
    }
}

/// Asks a server whether it knows `WAITAOF`.
pub(super) fn knows_waitaof() -> Cmd {
    let mut cmd = redis::cmd("COMMAND");
    cmd.arg("INFO").arg("WAITAOF");
    cmd
}

/// What it says. A user who may not ask gets `WAIT`, which every server knows.
pub(super) fn has_waitaof(said: &RedisResult<Value>) -> bool {
    match said {
        Ok(Value::Array(known)) => known.iter().any(|command| *command != Value::Nil),
        _ => false,
    }
}

/// The master of a server, if it is a replica; none if it is a master itself.
async fn master_of(connection: &mut Connection) -> RedisResult<Option<String>> {
    let role = match connection.call(&redis::cmd("ROLE")).await {
        Ok(Value::Array(role)) => role,
        // The advice for permissions includes `INFO` and not `ROLE`, so `INFO` must be enough.
        Err(error) if error.code() == Some("NOPERM") => {
            let mut cmd = redis::cmd("INFO");
            let info = connection.call(cmd.arg("replication")).await?;
            return Ok(master_in(&redis::from_redis_value::<String>(info)?));
        }
        Ok(_) => return Ok(Some("a server without a role".to_owned())),
        Err(error) => return Err(error),
    };
    let mut words = role
        .into_iter()
        .map(|word| redis::from_redis_value::<String>(word).unwrap_or_default());
    Ok(match words.next().as_deref() {
        Some("master") => None,
        Some("slave") => {
            let host = words.next().unwrap_or_default();
            Some(format!("{host}:{}", words.next().unwrap_or_default()))
        }
        other => Some(format!(
            "another server, as `{}`",
            other.unwrap_or_default()
        )),
    })
}

fn master_in(info: &str) -> Option<String> {
    let field = |name: &str| {
        let mut lines = info.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map_or("unknown", str::trim)
    };
    match field("role") {
        "master" => None,
        _ => Some(format!("{}:{}", field("master_host"), field("master_port"))),
    }
}

/// Every call has a bound in [`super::lease`], so the driver's own bound (half a second) is off.
fn patience() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_MAX))
        .set_response_timeout(None)
}

fn certificates(files: &ClientMaterial) -> TlsCertificates {
    let pair = files.pair.clone();
    TlsCertificates {
        client_tls: pair.map(|(client_cert, client_key)| ClientTlsConfig {
            client_cert,
            client_key,
        }),
        root_cert: files.ca.clone(),
    }
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

/// The login and the database for a peer. Sentinels have logins of their own and no databases.
fn entrance(url: &RedisUrl, peer: Peer) -> RedisResult<RedisConnectionInfo> {
    let entrance = RedisConnectionInfo::default();
    let (entrance, login) = match peer {
        Peer::Server => (entrance.set_db(url.db.into()), &url.login),
        Peer::Sentinel => (entrance, &url.sentinel_login),
    };
    let Some(login) = login else {
        return Ok(entrance);
    };
    let password = login.password().map_err(|error| {
        let told = error.to_string();
        RedisError::from((ErrorKind::AuthenticationFailed, "no password", told))
    })?;
    let entrance = entrance.set_password(password);
    Ok(match &login.user {
        Some(user) => entrance.set_username(user),
        None => entrance,
    })
}
