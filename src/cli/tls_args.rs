//! The options of TLS: those that the server and commands share, and those of the server.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use rustls::pki_types::ServerName;
use tokio::{io::AsyncReadExt as _, net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Uri};

use super::{
    client::Outcome,
    failure::{Failure, innermost},
    time::read_span,
    tls_failure::TlsFault,
};
use crate::{
    model::Problems,
    tls::{ClientAuth, ClientFiles, ClientTls, File, Names, ServerFiles, ServerTls, TlsError},
};

/// The shortest and the longest time for a handshake.
const HANDSHAKE_MIN: Duration = Duration::from_secs(1);
const HANDSHAKE_MAX: Duration = Duration::from_secs(60);

/// How long it may take to find out why TLS fails.
const FAULT_TIME_MAX: Duration = Duration::from_secs(5);

/// The options of a command's files.
const NAMES: Names = Names {
    ca: "--tls-ca",
    cert: "--tls-cert",
    key: "--tls-key",
    purpose: "client",
    expiries: ["client_ca", "client"],
};

/// The certificate of this program, and what it trusts.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsArgs {
    /// The authorities that may have signed the server's certificate, in PEM [default: the
    /// system's]
    #[arg(long, global = true, env = "TOMBOLA_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The certificate to present, in PEM, followed by those between it and its authority. A server
    /// needs one for TLS, a command if the server asks for one
    #[arg(long, global = true, env = "TOMBOLA_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, in PEM
    #[arg(long, global = true, env = "TOMBOLA_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// The name in the server's certificate, if it is not the host of --server
    #[arg(
        long,
        global = true,
        env = "TOMBOLA_TLS_SERVER_NAME",
        value_name = "NAME"
    )]
    tls_server_name: Option<String>,
    /// Do without TLS or identities: a server listens beyond this machine in plaintext or without
    /// an access file, and a command sends its token over plaintext
    #[arg(long, global = true, env = "TOMBOLA_INSECURE")]
    pub(super) insecure: bool,
}

impl TlsArgs {
    /// The certificate and its key, if both are named; a problem if only one is.
    fn pair(&self) -> Result<Option<(PathBuf, PathBuf)>, (&'static str, &'static str)> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => Ok(Some((cert.clone(), key.clone()))),
            (None, None) => Ok(None),
            (Some(_), None) => Err(("--tls-key", "is missing: name the key of --tls-cert")),
            (None, Some(_)) => Err((
                "--tls-cert",
                "is missing: name the certificate of --tls-key",
            )),
        }
    }

    /// Why TLS to a server fails, if it does. A client over HTTP/2 may lose the reason: with TLS
    /// 1.3, the server refuses a certificate when the client has already begun to speak.
    pub(super) async fn fault(&self, url: &Uri) -> Option<TlsFault> {
        if url.scheme_str() != Some("https") {
            return None;
        }
        let shaken = timeout(FAULT_TIME_MAX, self.shake_hands(url)).await;
        TlsFault::of(&shaken.ok()?.err()?)
    }

    /// Shakes hands as a command does, and waits for the server's first words.
    async fn shake_hands(&self, url: &Uri) -> io::Result<()> {
        let files = ClientTls {
            ca: self.tls_ca.clone(),
            pair: self.pair().unwrap_or_default(),
        };
        let files = files.read(NAMES).map_err(io::Error::other)?;
        let mut config = files.config().map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
        let name = self.tls_server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let stream = TcpStream::connect((host, url.port_u16().unwrap_or(443))).await?;
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, stream).await?;
        stream.read(&mut [0]).await.map(drop)
    }

    /// Adds TLS to the endpoint of a command, if its URL is `https://`.
    pub(super) fn of_client(&self, endpoint: Endpoint, server: &str) -> Outcome<Endpoint> {
        let is_given =
            self.tls_ca.is_some() || self.tls_cert.is_some() || self.tls_server_name.is_some();
        let pair = self
            .pair()
            .map_err(|(option, text)| Failure::usage(format!("{option} {text}")))?;
        if endpoint.uri().scheme_str() != Some("https") {
            if is_given {
                return Err(Failure::usage(format!(
                    "--server {server} is without TLS, and options of TLS are given: write \
                     https://HOST:PORT, or leave out --tls-ca, --tls-cert, --tls-key and \
                     --tls-server-name"
                )));
            }
            return Ok(endpoint);
        }
        let files = ClientTls {
            ca: self.tls_ca.clone(),
            pair,
        };
        let files = files.read(NAMES).map_err(|error| unusable(&error))?;
        let mut config = match files.ca {
            Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some((cert, key)) = files.pair {
            config = config.identity(Identity::from_pem(cert, key));
        }
        if let Some(name) = &self.tls_server_name {
            config = config.domain_name(name);
        }
        endpoint.tls_config(config).map_err(|error| {
            Failure::usage(format!(
                "TLS to {server} cannot be set up: {}; name the server's authority with --tls-ca, \
                 and its name with --tls-server-name",
                innermost(&error)
            ))
        })
    }
}

fn unusable(error: &TlsError) -> Box<Failure> {
    Failure::usage(error.to_string())
}

/// Whether callers must present a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Auth {
    /// Every caller must
    Required,
    /// A caller may; a bad one is refused
    Optional,
}

/// How a server checks the certificates of callers.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "TLS")]
pub(super) struct ServerTlsArgs {
    /// The authorities of callers' certificates, in PEM. Without it, callers are not asked for any
    #[arg(long, env = "TOMBOLA_TLS_CLIENT_CA", value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Whether callers must present a certificate
    #[arg(
        long,
        env = "TOMBOLA_TLS_CLIENT_AUTH",
        value_name = "WHETHER",
        value_enum,
        default_value_t = Auth::Required
    )]
    tls_client_auth: Auth,
    /// Lists of callers' certificates that are revoked (X509 CRL), in PEM
    #[arg(
        long,
        env = "TOMBOLA_TLS_CLIENT_CRL",
        value_name = "FILE",
        requires = "tls_client_ca"
    )]
    tls_client_crl: Option<PathBuf>,
    /// How long a TLS handshake may take
    #[arg(
        long,
        env = "TOMBOLA_HANDSHAKE_TIMEOUT",
        value_name = "SPAN",
        default_value = "10s"
    )]
    handshake_timeout: String,
}

impl ServerTlsArgs {
    /// TLS of the server, if a certificate is named.
    pub(super) fn open(&self, own: &TlsArgs, problems: &mut Problems) -> Option<Arc<ServerTls>> {
        let range = HANDSHAKE_MIN..=HANDSHAKE_MAX;
        let handshake = read_span(&self.handshake_timeout, range, "1s to 60s");
        let handshake = handshake
            .map_err(|text| problems.add("--handshake-timeout", text))
            .ok();
        for (option, is_given) in [
            ("--tls-ca", own.tls_ca.is_some()),
            ("--tls-server-name", own.tls_server_name.is_some()),
        ] {
            if is_given {
                let text = "is for commands: the authorities of callers are named with \
                            --tls-client-ca";
                problems.add(option, text);
            }
        }
        let pair = own.pair();
        let pair = pair.map_err(|(option, text)| problems.add(option, text));
        let Some((cert, key)) = pair.ok()? else {
            if self.tls_client_ca.is_some() {
                let text = "needs TLS: name the server's own certificate with --tls-cert and \
                            --tls-key";
                problems.add("--tls-client-ca", text);
            }
            return None;
        };
        let file = |option, path: &PathBuf| File {
            option,
            path: path.clone(),
        };
        let clients = self.tls_client_ca.as_ref().map(|ca| ClientFiles {
            ca: file("--tls-client-ca", ca),
            crl: self
                .tls_client_crl
                .as_ref()
                .map(|crl| file("--tls-client-crl", crl)),
            auth: match self.tls_client_auth {
                Auth::Required => ClientAuth::Required,
                Auth::Optional => ClientAuth::Optional,
            },
        });
        let files = ServerFiles {
            cert: file("--tls-cert", &cert),
            key: file("--tls-key", &key),
            clients,
        };
        let opened = ServerTls::open(files, handshake?);
        let opened = opened.map_err(|error| {
            let text = format!("{}: the file {}", error.file.display(), error.problem);
            problems.add(error.option, text);
        });
        opened.ok().map(Arc::new)
    }
}
