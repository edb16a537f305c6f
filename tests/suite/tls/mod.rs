//! TLS for callers.

mod callers;
mod command_line;
mod floods;
mod handshakes;
mod reload;
mod stores;

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    time_provider::TimeProvider,
};
use tempfile::TempDir;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    process::{Ended, Server, Start, tombola},
    support::{
        certificates::{Authority, Signed, Wanted},
        redis_server::look_pause,
    },
};

/// What should happen within moments fails the test only after this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with the files of a server, and the authority that signed its certificate.
struct Files {
    directory: TempDir,
    authority: Authority,
}

impl Files {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new("test-ca");
        fs::write(directory.path().join("ca.crt"), &authority.pem).unwrap();
        let files = Self {
            directory,
            authority,
        };
        files.put(&files.authority.sign(&Wanted::server()));
        files
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Writes the server's certificate and key.
    fn put(&self, signed: &Signed) {
        signed.write(self.path(), "server");
    }

    /// The options of the server.
    fn options(&self) -> String {
        let path = self.path().display();
        format!("--tls-cert {path}/server.crt --tls-key {path}/server.key --admin 127.0.0.1:0")
    }

    /// Starts a server with further options.
    fn serve(&self, more: &str) -> Server {
        let data = self.data();
        Start::on(&data).with(&self.options()).with(more).serve()
    }

    /// Starts a server that asks clients for certificates of the same authority.
    fn serve_asking(&self, more: &str) -> Server {
        let ca = self.path().join("ca.crt");
        self.serve(&format!("--tls-client-ca {} {more}", ca.display()))
    }

    /// A connection that trusts the authority, with this certificate.
    async fn connect(&self, server: &Server, own: Option<&Signed>) -> Result<Channel, String> {
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.authority.pem))
            .domain_name("localhost");
        if let Some(own) = own {
            tls = tls.identity(Identity::from_pem(&own.cert, &own.key));
        }
        let url = format!("https://{}", server.address);
        let endpoint = Endpoint::from_shared(url).unwrap().tls_config(tls).unwrap();
        let connected = endpoint.connect().await;
        connected.map_err(|error| format!("{error:?}"))
    }

    /// Whether such a client is served.
    async fn is_served(&self, server: &Server, own: Option<&Signed>) -> Result<(), String> {
        let channel = self.connect(server, own).await?;
        check(channel).await
    }

    /// Why such a client is refused.
    fn refusal(&self, server: &Server, own: Option<&Signed>) -> String {
        let shaken = self.shake(server.address, rustls::ALL_VERSIONS, own, b"h2");
        // With TLS 1.3 the client is done before the server has seen its certificate.
        let answered = shaken.and_then(|mut stream| stream.read(&mut [0]));
        answered.unwrap_err().to_string()
    }

    /// Runs a command against the server's `https://` address.
    fn run(&self, server: &Server, line: &str) -> Ended {
        let url = format!("https://{}", server.address);
        let mut command = tombola(line.split_whitespace());
        command.current_dir(self.path());
        Ended::of(command.args(["--server", &url]))
    }

    /// A handshake over a bare connection.
    fn shake(
        &self,
        address: SocketAddr,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<&Signed>,
        protocol: &[u8],
    ) -> io::Result<Shaken> {
        self.shake_later(Duration::ZERO, address, versions, own, protocol)
    }

    /// The same by a client whose clock is ahead.
    fn shake_later(
        &self,
        ahead: Duration,
        address: SocketAddr,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<&Signed>,
        protocol: &[u8],
    ) -> io::Result<Shaken> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.authority.pem.as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let provider = Arc::new(default_provider());
        let builder = ClientConfig::builder_with_details(provider, Arc::new(Ahead(ahead)))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            Some(own) => {
                let cert = CertificateDer::from_pem_slice(own.cert.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![cert], key).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let tcp = TcpStream::connect(address)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        let mut stream = StreamOwned::new(client, tcp);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }
}

/// A connection after its handshake.
type Shaken = StreamOwned<ClientConnection, TcpStream>;

/// A clock that is ahead.
#[derive(Debug)]
struct Ahead(Duration);

impl TimeProvider for Ahead {
    fn current_time(&self) -> Option<UnixTime> {
        let now = SystemTime::now() + self.0;
        Some(UnixTime::since_unix_epoch(
            now.duration_since(UNIX_EPOCH).ok()?,
        ))
    }
}

/// Asks for the health of the whole server.
async fn check(channel: Channel) -> Result<(), String> {
    let mut health = HealthClient::new(channel);
    let checked = health.check(HealthCheckRequest::default()).await;
    checked.map(drop).map_err(|error| format!("{error:?}"))
}

/// The value of a series in a server's metrics.
fn metric(server: &Server, series: &str) -> Option<f64> {
    let (_, _, text) = server.admin().get("/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.map(|value| value.trim().parse().unwrap())
}

/// Waits until a condition holds.
#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        let waited = begun.elapsed();
        assert!(waited < PATIENCE, "not in time: {what}");
        std::thread::sleep(look_pause(waited));
    }
}

/// Sends bytes, and reads until the server closes the connection.
fn answer_to(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).ok(); // the server may have closed it already
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => panic!("{error}"),
        _ => answer,
    }
}
