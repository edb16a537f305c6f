//! The options of TLS to a running server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;

use crate::{
    failure::{Failure, Outcome},
    tls::{Shown, Tls},
};

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
        requires = "tls_key",
        requires = "server"
    )]
    tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, in PEM
    #[arg(
        long,
        env = "TOMBOLA_BENCH_TLS_KEY",
        value_name = "FILE",
        requires = "tls_cert",
        requires = "server"
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
    pub(crate) fn config(&self, url: &str) -> Outcome<Option<Tls>> {
        if !url.starts_with("https://") {
            return self.refuse(url).map(|()| None);
        }
        let file = |option, path: &Option<PathBuf>| {
            path.as_ref().map(|path| read(option, path)).transpose()
        };
        let ca = file("--tls-ca", &self.tls_ca)?;
        let certificate = file("--tls-cert", &self.tls_cert)?;
        let key = file("--tls-key", &self.tls_key)?;
        let shown = Shown {
            ca: ca.as_deref(),
            pair: certificate.as_deref().zip(key.as_deref()),
            name: self.tls_server_name.as_deref(),
        };
        let unusable = |fault| {
            let advice = "check --tls-ca, --tls-cert, --tls-key and --tls-server-name";
            Failure::usage(format!("TLS cannot be used: {fault}; {advice}"))
        };
        Tls::new(&shown).map(Some).map_err(unusable)
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
