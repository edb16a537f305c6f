//! A network whose links can be cut: TCP proxies in front of servers.
//!
//! Every server of a group connects from an address of its own (`bind-source-addr` 127.0.0.x). So a
//! proxy knows which server connects, and can cut one off and let another one through.

use std::{
    collections::BTreeMap,
    future::pending,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime::Runtime,
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

/// Bytes that a proxy reads at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks that wait in a proxy. If there are more, the sender waits.
const CHUNKS: usize = 64;

/// What a proxy does with the data of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// It passes the data on.
    #[default]
    Up,
    /// It passes the data on this long after they arrived.
    Slow(Duration),
    /// It passes nothing on and reports nothing, as a network that is cut. Sent data wait, as they
    /// do in TCP.
    Cut,
    /// It closes connections at once, as a port at which nobody listens.
    Refused,
}

/// Proxies that run on a thread of their own until this is dropped.
pub struct Network {
    runtime: Option<Runtime>,
}

impl Network {
    pub fn new() -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        Self {
            runtime: Some(runtime),
        }
    }

    /// A proxy on a free port. It refuses connections until [`Proxy::lead_to`] is called.
    pub fn proxy(&self) -> Proxy {
        let runtime = self.runtime.as_ref().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            target: watch::channel(None).0,
            links: watch::channel(Links::default()).0,
            reset: watch::channel(()).0,
        });
        let _inside = runtime.enter();
        let listener = TcpListener::from_std(listener).unwrap();
        runtime.spawn(accept(listener, shared.clone()));
        Proxy { port, shared }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A port that leads to another port, as long as the links are up.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leads new connections to this port.
    pub fn lead_to(&self, port: u16) {
        self.shared.target.send_replace(Some(port));
    }

    /// Sets the link for connections from this address.
    pub fn link(&self, source: Ipv4Addr, link: Link) {
        self.shared.links.send_modify(|links| {
            links.of_source.insert(source.into(), link);
        });
    }

    /// Closes all open connections; data in transit are lost.
    pub fn reset(&self) {
        self.shared.reset.send_replace(());
    }
}

struct Shared {
    target: watch::Sender<Option<u16>>,
    links: watch::Sender<Links>,
    reset: watch::Sender<()>,
}

#[derive(Default)]
struct Links {
    of_source: BTreeMap<IpAddr, Link>,
}

impl Links {
    fn of(&self, source: IpAddr) -> Link {
        self.of_source.get(&source).copied().unwrap_or_default()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, source)) = listener.accept().await else {
            continue;
        };
        tokio::spawn(relay(client, source, shared.clone()));
    }
}

/// Relays one connection until one end closes it or all are reset.
async fn relay(client: TcpStream, source: SocketAddr, shared: Arc<Shared>) {
    let mut reset = shared.reset.subscribe();
    let links = || shared.links.subscribe();
    let connected = async {
        // A cut network does not answer, so the client waits.
        pass(&mut links(), source.ip(), Instant::now()).await?;
        let target = *shared.target.borrow();
        let target = target.ok_or(io::ErrorKind::ConnectionRefused)?;
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let there = pump(from_client, to_server, links(), source.ip());
        let back = pump(from_server, to_client, links(), source.ip());
        // Redis never half-closes: if one end is gone, both directions end.
        tokio::select! { ended = there => ended, ended = back => ended }
    };
    tokio::select! {
        _ = connected => {}
        _ = reset.changed() => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut links: watch::Receiver<Links>,
    source: IpAddr,
) -> io::Result<()> {
    let (sender, mut queue) = mpsc::channel(CHUNKS);
    // The end of a connection is passed on after its data, and not while the network is cut.
    let read = async move {
        let mut bytes = vec![0; CHUNK_BYTES];
        while let Ok(read @ 1..) = from.read(&mut bytes).await {
            let chunk = (Instant::now(), bytes[..read].to_vec());
            if sender.send(chunk).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        loop {
            let chunk = tokio::select! {
                chunk = queue.recv() => chunk,
                changed = links.changed() => {
                    changed.map_err(|_| io::ErrorKind::ConnectionAborted)?;
                    pass(&mut links, source, Instant::now()).await?;
                    continue;
                }
            };
            let Some((arrived, bytes)) = chunk else {
                return pass(&mut links, source, Instant::now()).await;
            };
            pass(&mut links, source, arrived).await?;
            to.write_all(&bytes).await?;
        }
    };
    tokio::select! {
        ended = write => ended,
        () = async { read.await; pending().await } => Ok(()),
    }
}

/// Waits as long as the link delays data that arrived at this moment. An error means that the link
/// refuses connections.
async fn pass(
    links: &mut watch::Receiver<Links>,
    source: IpAddr,
    arrived: Instant,
) -> io::Result<()> {
    loop {
        let link = links.borrow_and_update().of(source);
        match link {
            Link::Up => return Ok(()),
            Link::Slow(delay) => {
                sleep_until(arrived + delay).await;
                return Ok(());
            }
            Link::Refused => return Err(io::ErrorKind::ConnectionRefused.into()),
            Link::Cut => {}
        }
        if links.changed().await.is_err() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
    }
}
