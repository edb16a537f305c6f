//! A network whose links can be cut: TCP proxies in front of servers.
//!
//! Every server of a rig speaks from an address of its own (`bind-source-addr` 127.0.0.x), so a
//! proxy knows who has connected and can cut one side off while it lets another one through.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime::Runtime,
    sync::watch,
    time::sleep,
};

/// Bytes that a proxy takes at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// What becomes of what someone sends and is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// It passes.
    #[default]
    Up,
    /// It passes this much later.
    Slow(Duration),
    /// Nothing passes and nobody hears of it: a network that is cut. What was sent waits, as it
    /// does in TCP.
    Cut,
    /// Connections are closed at once: a port where nobody listens.
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

    /// A proxy on a free port; it refuses connections until it leads somewhere.
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

/// A port that leads to another one, as long as the links are up.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on it leads to this port.
    pub fn lead_to(&self, port: u16) {
        self.shared.target.send_replace(Some(port));
    }

    /// From now on this is the link with whoever connects from this address.
    pub fn link(&self, source: Ipv4Addr, link: Link) {
        self.shared.links.send_modify(|links| {
            links.of_source.insert(source.into(), link);
        });
    }

    /// Closes all connections of now; what was on its way is lost.
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

/// Relays one connection until an end closes it, or all are reset.
async fn relay(client: TcpStream, source: SocketAddr, shared: Arc<Shared>) {
    let mut reset = shared.reset.subscribe();
    let links = || shared.links.subscribe();
    let connected = async {
        // A cut network does not answer; whoever connects waits.
        pass(&mut links(), source.ip()).await?;
        let target = *shared.target.borrow();
        let target = target.ok_or(io::ErrorKind::ConnectionRefused)?;
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let there = pump(from_client, to_server, links(), source.ip());
        let back = pump(from_server, to_client, links(), source.ip());
        // Redis never half-closes: an end that is gone ends both ways.
        tokio::select! { ended = there => ended, ended = back => ended }
    };
    tokio::select! {
        _ = connected => {}
        _ = reset.changed() => {}
    }
}

async fn pump(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    mut links: watch::Receiver<Links>,
    source: IpAddr,
) -> io::Result<()> {
    let mut bytes = vec![0; CHUNK_BYTES];
    loop {
        tokio::select! {
            readable = from.readable() => readable?,
            _ = links.changed() => {}
        }
        // What comes while the network is cut stays where it is.
        pass(&mut links, source).await?;
        let read = match from.try_read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        let mut rest = &bytes[..read];
        while !rest.is_empty() {
            to.writable().await?;
            match to.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Waits for as long as the link holds things up. An error means that the link refuses.
async fn pass(links: &mut watch::Receiver<Links>, source: IpAddr) -> io::Result<()> {
    loop {
        let link = links.borrow_and_update().of(source);
        match link {
            Link::Up => return Ok(()),
            Link::Slow(delay) => {
                sleep(delay).await;
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
