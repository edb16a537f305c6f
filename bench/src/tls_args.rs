//! The options of TLS to a running server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::failure::{Failure, Outcome};

#[derive(Args, Clone, Debug)]
pub(crate) struct TlsArgs {
    /// The authorities that may have signed the certificate of --server, in PEM [default: the
    /// system's]
    #[arg(
        long,
        env = "TOMBOLA_BENCH_TLS_CA",
        value_name = "FILE",
        requires = "server"
    )]
    tls_ca: Option<PathBuf>,
    /// The certificate to present to --server, in PEM
    #[arg(
        long,
        env = "TOMBOLA_BENCH_TLS_CERT",
        value_name = "FILE",
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, in PEM
    #[arg(
        long,
        env = "TOMBOLA_BENCH_TLS_KEY",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,
    /// The name in the certificate of --server, if it is not its host
    #[arg(
        long,
        env = "TOMBOLA_BENCH_TLS_SERVER_NAME",
        value_name = "NAME",
        requires = "server"
    )]
    tls_server_name: Option<String>,
}

impl TlsArgs {
    /// How to speak TLS with the server, if its URL is `https://`.
    pub(crate) fn config(&self, url: &str) -> Outcome<Option<ClientTlsConfig>> {
        if !url.starts_with("https://") {
            return self.refuse(url).map(|()| None);
        }
        let mut config = match &self.tls_ca {
            Some(ca) => {
                let ca = Certificate::from_pem(read("--tls-ca", ca)?);
                ClientTlsConfig::new().ca_certificate(ca)
            }
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) {
            let (cert, key) = (read("--tls-cert", cert)?, read("--tls-key", key)?);
            config = config.identity(Identity::from_pem(cert, key));
        }
        if let Some(name) = &self.tls_server_name {
            config = config.domain_name(name);
        }
        Ok(Some(config))
    }

    /// Options of TLS without TLS are a mistake.
    fn refuse(&self, url: &str) -> Outcome {
        let files = [&self.tls_ca, &self.tls_cert, &self.tls_key];
        if files.into_iter().all(Option::is_none) && self.tls_server_name.is_none() {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "--server {url} is without TLS: write https://HOST:PORT, or leave out the options of \
             TLS"
        )))
    }
}

fn read(option: &str, file: &Path) -> Outcome<Vec<u8>> {
    let unread = |error| {
        let text = format!(
            "{option} {}: the file cannot be read: {error}",
            file.display()
        );
        Failure::usage(text)
    };
    fs::read(file).map_err(unread)
}
