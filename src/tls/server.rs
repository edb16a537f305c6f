//! TLS of the server for its callers.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime},
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy, sink},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::{debug, warn};

use super::{
    Peer,
    files::{File, Loaded, REVOKED, TlsError, Watched},
    pem::{self, Authorities, Pair},
};
use crate::metrics::TLS;

/// The protocol that callers must speak within TLS.
pub(crate) const HTTP2: &[u8] = b"h2";
/// The same of HTTP/1.1.
const HTTP1: &[u8] = b"http/1.1";

/// The longest wait until a client's certificate is checked again: clocks may be set.
const CHECK_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long a client may take to read why its handshake failed, and how much it may send meanwhile.
const PARTING_TIME_MAX: Duration = Duration::from_secs(1);
const PARTING_BYTES_MAX: u64 = 64 * 1024;

/// How often the log says why handshakes fail: anybody can make them fail.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Whether clients must present a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientAuth {
    /// One without is refused.
    Required,
    /// One without is a client without a certificate; a bad one is refused.
    Optional,
}

/// The files of the server.
#[derive(Clone, Debug)]
pub(crate) struct ServerFiles {
    /// The certificate, and those between it and its authority.
    pub(crate) cert: File,
    /// Its key.
    pub(crate) key: File,
    /// How clients are checked, if they are.
    pub(crate) clients: Option<ClientFiles>,
}

/// The files by which clients are checked.
#[derive(Clone, Debug)]
pub(crate) struct ClientFiles {
    /// The authorities of their certificates.
    pub(crate) ca: File,
    /// Lists of certificates that are revoked.
    pub(crate) crl: Option<File>,
    /// Whether they must present one.
    pub(crate) auth: ClientAuth,
}

/// TLS of the server for its callers.
#[derive(Debug)]
pub struct ServerTls {
    watched: Arc<Watched<Config>>,
    handshake_time_max: Duration,
    failures: Mutex<Failures>,
}

/// Handshakes that failed since the log said so last.
#[derive(Debug, Default)]
struct Failures {
    count: u64,
    said: Option<Instant>,
}

impl Failures {
    /// Counts one more; how many, if it is time to say so.
    fn note(&mut self, now: Instant) -> Option<u64> {
        self.count += 1;
        if self.said.is_some_and(|said| now - said < LOG_INTERVAL) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

/// What a handshake needs.
struct Config {
    tls: Arc<ServerConfig>,
    /// The same for browsers, and for what stands before them: some speak HTTP/1.1 only.
    browsers: Arc<ServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl ServerTls {
    /// Reads the files; they are read again when they change.
    ///
    /// # Errors
    /// A file cannot be read or used, or certificate and key do not fit together.
    pub(crate) fn open(files: ServerFiles, handshake: Duration) -> Result<Self, TlsError> {
        let clients = files.clients.iter();
        let clients = clients.flat_map(|clients| [Some(&clients.ca), clients.crl.as_ref()]);
        let named = [Some(&files.cert), Some(&files.key)]
            .into_iter()
            .chain(clients);
        let named = named.flatten().cloned().collect();
        let watched = Watched::open("server", named, move |contents, kept| {
            config(&files, contents, kept)
        })?;
        Ok(Self {
            watched,
            handshake_time_max: handshake,
            failures: Mutex::default(),
        })
    }

    /// Shakes hands; none if the client does not, in time, as it must.
    pub(crate) async fn accept<S>(self: &Arc<Self>, stream: S) -> Option<(TlsStream<S>, Caller)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let tls = Arc::clone(&self.watched.value().tls);
        self.accept_by(tls, stream).await
    }

    /// The same for a browser, which chooses HTTP/2 or HTTP/1.1.
    pub(crate) async fn accept_browser<S>(
        self: &Arc<Self>,
        stream: S,
    ) -> Option<(TlsStream<S>, Caller)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let tls = Arc::clone(&self.watched.value().browsers);
        self.accept_by(tls, stream).await
    }

    async fn accept_by<S>(
        self: &Arc<Self>,
        tls: Arc<ServerConfig>,
        stream: S,
    ) -> Option<(TlsStream<S>, Caller)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut attempt = Attempt::default();
        let acceptor = TlsAcceptor::from(tls);
        let accepting = acceptor.accept(stream).into_fallible();
        let failure = match timeout(self.handshake_time_max, accepting).await {
            Ok(Ok(stream)) => {
                attempt.has_succeeded = true;
                let chain = stream.get_ref().1.peer_certificates();
                let chain = chain.map(<[_]>::to_vec).unwrap_or_default();
                let caller = Caller {
                    chain,
                    tls: Arc::clone(self),
                };
                return Some((stream, caller));
            }
            Ok(Err((error, stream))) => {
                part(stream).await;
                error
            }
            Err(_) => io::Error::new(io::ErrorKind::TimedOut, "it takes too long"),
        };
        drop(attempt);
        self.report(&failure);
        None
    }

    /// Says why a handshake failed, unless the client only went away, as balancers do that look
    /// whether somebody listens.
    fn report(&self, failure: &io::Error) {
        debug!(%failure, "a TLS handshake failed: {failure}");
        if failure.kind() == io::ErrorKind::UnexpectedEof {
            return;
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = failures.note(Instant::now()) {
            warn!(
                count,
                "TLS handshakes failed, {count} by now, the last one: {failure}"
            );
        }
    }
}

/// A handshake, which is counted as failed when this is dropped before it has succeeded. Whoever
/// ends one that takes too long for others drops it.
#[derive(Default)]
struct Attempt {
    has_succeeded: bool,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.has_succeeded {
            TLS.handshakes_failed.inc();
        }
    }
}

/// Closes a connection whose handshake has failed. What the client still sends is read first, since
/// a socket that is closed with unread bytes drops the alert that says why.
async fn part(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let parting = async {
        stream.shutdown().await?;
        copy(&mut stream.take(PARTING_BYTES_MAX), &mut sink()).await
    };
    timeout(PARTING_TIME_MAX, parting).await.ok(); // the client does not matter any more
}

/// The client of a connection, after the handshake.
pub(crate) struct Caller {
    /// Its certificate, and those between it and its authority; none if it has none.
    chain: Vec<CertificateDer<'static>>,
    tls: Arc<ServerTls>,
}

impl Caller {
    /// Who it is, if it has a certificate.
    pub(crate) fn peer(&self) -> Option<Peer> {
        self.chain.first().map(|certificate| Peer::of(certificate))
    }

    /// Completes when its certificate is not accepted any more: it expires, it is revoked, or its
    /// authority is taken away. It never does for a client without one.
    pub(crate) async fn refused(&self) {
        let Some((own, rest)) = self.chain.split_first() else {
            return std::future::pending().await;
        };
        let mut changes = self.tls.watched.changes();
        loop {
            let verifier = self.tls.watched.value().verifier.clone();
            let is_accepted = verifier.is_some_and(|verifier| {
                let checked = verifier.verify_client_cert(own, rest, UnixTime::now());
                checked.is_ok()
            });
            if !is_accepted {
                return;
            }
            let (_, expiry_s) = pem::validity(own).unwrap_or_default();
            let left_s = u64::try_from(expiry_s - pem::now_s()).unwrap_or_default();
            let pause = Duration::from_secs(left_s.saturating_add(1)).min(CHECK_PAUSE_MAX);
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep(pause) => {}
            }
        }
    }
}

/// Makes what a handshake needs of the contents of the files, some of which are in use already.
fn config(
    files: &ServerFiles,
    contents: &[Vec<u8>],
    kept: &[bool],
) -> Result<Loaded<Config>, TlsError> {
    let mut contents = contents.iter();
    let mut next = || contents.next().map(Vec::as_slice).unwrap_or_default();
    let is_kept = kept.first() == Some(&true); // the certificate is the first file
    let pair = Pair::read((&files.cert, next()), (&files.key, next()), is_kept)?;
    let mut expiries = vec![("server", pair.expiry_s)];
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| files.cert.problem(error.to_string()))?;
    let mut verifier = None;
    if let Some(clients) = &files.clients {
        let authorities = Authorities::read((&clients.ca, next()))?;
        expiries.push(("client_ca", authorities.expiry_s));
        let mut revoked = Vec::new();
        if let Some(crl) = &clients.crl {
            let (lists, update_s) = pem::revocations((crl, next()))?;
            expiries.extend(update_s.map(|update_s| (REVOKED, update_s)));
            revoked = lists;
        }
        verifier = Some(verifier_of(clients, authorities.roots, revoked)?);
    }
    let builder = match &verifier {
        Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        None => builder.with_no_client_auth(),
    };
    let mut tls = builder
        .with_single_cert(pair.chain, pair.key)
        .map_err(|error| files.cert.problem(format!("cannot be used: {error}")))?;
    tls.alpn_protocols = vec![HTTP2.to_vec()];
    // A session that is resumed would skip the check of the client's certificate.
    tls.session_storage = Arc::new(NoServerSessionStorage {});
    tls.send_tls13_tickets = 0;
    let mut browsers = tls.clone();
    browsers.alpn_protocols.push(HTTP1.to_vec());
    Ok(Loaded {
        value: Config {
            tls: Arc::new(tls),
            browsers: Arc::new(browsers),
            verifier,
        },
        expiries,
    })
}

/// Checks certificates of clients. A list of revoked certificates counts for the authority that
/// made it; authorities without a list revoke nothing.
fn verifier_of(
    clients: &ClientFiles,
    roots: RootCertStore,
    revoked: Vec<CertificateRevocationListDer<'static>>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let provider = Arc::new(default_provider());
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .with_crls(revoked)
        .allow_unknown_revocation_status();
    if clients.auth == ClientAuth::Optional {
        builder = builder.allow_unauthenticated();
    }
    let file = clients.crl.as_ref().unwrap_or(&clients.ca);
    let built = builder.build();
    built.map_err(|error| file.problem(format!("cannot be used: {error}")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[tokio::test]
    async fn a_handshake_that_is_dropped_before_its_end_has_failed() {
        let directory = tempfile::tempdir().unwrap();
        let file = |option, pem: String| {
            let path = directory.path().join(option);
            fs::write(&path, pem).unwrap();
            File { option, path }
        };
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().self_signed(&key).unwrap();
        let files = ServerFiles {
            cert: file("--tls-cert", certificate.pem()),
            key: file("--tls-key", key.serialize_pem()),
            clients: None,
        };
        let tls = Arc::new(ServerTls::open(files, Duration::from_secs(60)).unwrap());
        let before = TLS.handshakes_failed.get();
        let (_client, server) = tokio::io::duplex(64);
        let accepted = timeout(Duration::ZERO, tls.accept(server)).await;
        assert!(accepted.is_err(), "the client says nothing");
        assert!(TLS.handshakes_failed.get() > before);
    }

    #[test]
    fn handshakes_that_fail_are_counted_until_the_log_says_so() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        assert_eq!(failures.note(now), Some(1));
        for second in 1..30 {
            assert_eq!(failures.note(now + Duration::from_secs(second)), None);
        }
        assert_eq!(failures.note(now + LOG_INTERVAL), Some(30));
    }
}
