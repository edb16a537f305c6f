//! The replicas, and how each of them gives way to a new one.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tokio::task::block_in_place;
use tonic_health::pb::health_check_response::ServingStatus::Serving;

use super::{DRAWS, callers::Callers, entrance::Entrance};
use crate::{deploy::times::Times, faults::redis::healthy, process::Server};

/// The addresses that a headless Service has in DNS, those of ready replicas, and how callers come
/// to them.
#[derive(Clone, Default)]
pub struct Endpoints {
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
    pub entrance: Entrance,
}

impl Endpoints {
    fn lock(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, as a client finds them when it looks the name up.
    pub fn all(&self) -> Vec<SocketAddr> {
        self.lock().clone()
    }

    fn add(&self, address: SocketAddr) {
        self.lock().push(address);
    }

    fn remove(&self, address: SocketAddr) {
        self.lock().retain(|other| *other != address);
    }
}

/// Replicas of one service.
pub struct Ring<'a> {
    pub servers: Vec<Server>,
    start: Box<dyn Fn(&str) -> Server + 'a>,
    endpoints: Endpoints,
    times: Times,
}

/// An address on which the system chooses the port, as a new pod has an address of its own.
const NEW: &str = "127.0.0.1:0";

impl<'a> Ring<'a> {
    /// Starts the replicas, each with the address that it listens on, and waits until they are
    /// ready.
    pub async fn start(times: Times, start: impl Fn(&str) -> Server + 'a) -> Self {
        Self::start_behind(Entrance::default(), times, start).await
    }

    /// The same if callers come to them like this.
    pub async fn start_behind(
        entrance: Entrance,
        times: Times,
        start: impl Fn(&str) -> Server + 'a,
    ) -> Self {
        let endpoints = Endpoints {
            entrance,
            ..Endpoints::default()
        };
        let mut ring = Self {
            servers: Vec::new(),
            start: Box::new(start),
            endpoints,
            times,
        };
        for _ in 0..times.replicas {
            let server = ring.begin(NEW).await;
            ring.servers.push(server);
        }
        ring
    }

    /// The addresses of those that are ready.
    pub fn endpoints(&self) -> Endpoints {
        self.endpoints.clone()
    }

    /// Replicas are started by this from now on.
    pub fn start_by(&mut self, start: impl Fn(&str) -> Server + 'a) {
        self.start = Box::new(start);
    }

    /// Replaces the replicas one after another by new ones at addresses of their own. Each new one
    /// is ready before an old one is stopped.
    pub async fn replace_all(&mut self, callers: &Callers) {
        for _ in 0..self.servers.len() {
            self.replace_one(callers).await;
        }
    }

    /// Replaces the replica that has been there for longest.
    pub async fn replace_one(&mut self, callers: &Callers) {
        let new = self.begin(NEW).await;
        self.servers.push(new);
        callers.go_on(DRAWS).await;
        let old = self.servers.remove(0);
        self.retire(old);
        callers.go_on(DRAWS).await;
    }

    /// Restarts the replicas one after another, each at its address: meanwhile there is one less.
    pub async fn restart_all(&mut self, callers: &Callers) {
        for _ in 0..self.servers.len() {
            let old = self.servers.remove(0);
            let address = old.address.to_string();
            self.retire(old);
            callers.go_on(DRAWS).await;
            let new = self.begin(&address).await;
            self.servers.push(new);
            callers.go_on(DRAWS).await;
        }
    }

    /// Starts a replica. It is in DNS once it is ready.
    async fn begin(&self, listen: &str) -> Server {
        let server = block_in_place(|| (self.start)(listen));
        match probes_of(&server) {
            Some(probes) => block_in_place(|| {
                while !is_ready(probes) {
                    thread::sleep(self.times.probe_period);
                }
            }),
            None => healthy(&server, Serving).await,
        }
        self.endpoints.add(server.address);
        server
    }

    /// Stops a replica. DNS forgets it as late as it may: once its probe has failed so many times.
    fn retire(&self, server: Server) {
        let address = server.address;
        block_in_place(|| {
            server.signal("TERM");
            if let Some(probes) = probes_of(&server) {
                server.says("not ready any more");
                assert!(!is_ready(probes), "it is stopped");
                for _ in 0..self.times.probe_failures {
                    thread::sleep(self.times.probe_period); // the kubelet's pause
                }
            }
            self.endpoints.remove(address);
            let grace = self.times.grace;
            let begun = Instant::now();
            let said = has_ended(server);
            assert!(begun.elapsed() < grace, "it would be killed:\n{said}");
        });
    }
}

/// Stops a server, which ends well.
pub fn ends_well(server: Server, grace: Duration) {
    let begun = Instant::now();
    server.signal("TERM");
    let said = block_in_place(|| has_ended(server));
    assert!(begun.elapsed() < grace, "it would be killed:\n{said}");
}

/// Waits for the end of a server that was told to stop; what it has said.
fn has_ended(mut server: Server) -> String {
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("did not end in time"), "{said}");
    said
}

/// The admin port of a server, if it has one.
fn probes_of(server: &Server) -> Option<SocketAddr> {
    let has_one = server.log().contains("probes and metrics on ");
    has_one.then(|| server.admin().address())
}

/// Asks as the kubelet does: whatever is no 200 means that it is not ready.
fn is_ready(probes: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(probes)?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.1 200 "))
    };
    ask().unwrap_or(false)
}
