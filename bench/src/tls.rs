//! TLS to a service.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::failure::Fault;

/// How TLS is spoken with a server.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    /// The name in the server's certificate, if it is not its host.
    name: Option<ServerName<'static>>,
}

/// What a server and its client show each other, in PEM.
#[derive(Default)]
pub(crate) struct Shown<'a> {
    /// The authorities that may have signed the server's certificate; the system's if absent.
    pub(crate) ca: Option<&'a [u8]>,
    /// The client's certificate and its key.
    pub(crate) pair: Option<(&'a [u8], &'a [u8])>,
    /// The name in the server's certificate, if it is not its host.
    pub(crate) name: Option<&'a str>,
}

impl Tls {
    /// TLS with what is shown.
    ///
    /// # Errors
    /// Which of it cannot be used.
    pub(crate) fn new(shown: &Shown<'_>) -> Result<Self, Fault> {
        let mut roots = RootCertStore::empty();
        match shown.ca {
            Some(ca) => {
                for certificate in certificates(ca)? {
                    roots.add(certificate)?;
                }
            }
            None => {
                let systems = rustls_native_certs::load_native_certs().certs;
                roots.add_parsable_certificates(systems);
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match shown.pair {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key)?;
                config.with_client_auth_cert(certificates(certificate)?, key)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = shown.name.map(|name| ServerName::try_from(name.to_owned()));
        Ok(Self {
            config: Arc::new(config),
            name: name.transpose()?,
        })
    }

    /// Shakes hands with the server at `host`.
    pub(crate) async fn begin(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Fault> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned())?,
        };
        let connector = TlsConnector::from(Arc::clone(&self.config));
        Ok(connector.connect(name, stream).await?)
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found? {
        found if found.is_empty() => Err("the file has no certificate in PEM".into()),
        found => Ok(found),
    }
}
