//! A connection to PostgreSQL.

use std::{sync::Arc, time::Duration};

use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};
use rustls_native_certs::CertificateResult;
use tokio::time::timeout;
use tokio_postgres::{Client, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{super::SinkError, url::PostgresUrl};

/// How long a connection may take, until it can be used.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long sent bytes may stay without an acknowledgement of the other machine.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What a session begins with. A settler that hangs must not hold the cursor's row for ever, and
/// nobody waits for ever for one that does. Only `off` and `local` of `synchronous_commit` keep
/// less than the server's disk and its synchronous standbys do, so only these are raised.
const BEGIN: &str = "
    SET idle_in_transaction_session_timeout = '20s';
    SET lock_timeout = '10s';
    SET timezone = 'UTC';
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') IN ('off', 'local');
";

/// Connects. The connection ends when the client is dropped.
pub(super) async fn connect(url: &PostgresUrl) -> Result<Client, SinkError> {
    let mut config = url.config()?;
    config
        .application_name("tombola")
        .connect_timeout(CONNECT_MAX)
        .tcp_user_timeout(SILENCE_MAX);
    let work = async {
        let client = if config.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            client
        } else {
            let tls = MakeRustlsConnect::new(tls(url)?);
            let (client, connection) = config.connect(tls).await?;
            tokio::spawn(connection);
            client
        };
        client.batch_execute(BEGIN).await?;
        Ok(client)
    };
    let connected = timeout(2 * CONNECT_MAX, work).await;
    connected.unwrap_or(Err(SinkError::TimedOut(2 * CONNECT_MAX)))
}

/// TLS that trusts the file of the URL, or else what the system trusts.
fn tls(url: &PostgresUrl) -> Result<ClientConfig, SinkError> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = url.ca_file() {
        let found = rustls_native_certs::load_certs_from_paths(Some(file), None);
        let certificates = found.certs;
        let errors = found.errors;
        let fault = |text: String| SinkError::Certificates {
            file: file.clone(),
            text,
        };
        if let Some(error) = errors.first() {
            return Err(fault(error.to_string()));
        }
        if add(&mut roots, certificates) == 0 {
            return Err(fault("it has no certificate in PEM".into()));
        }
    } else {
        let CertificateResult { certs, .. } = rustls_native_certs::load_native_certs();
        add(&mut roots, certs);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the protocol versions of rustls")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Adds certificates; how many could be used.
fn add(roots: &mut RootCertStore, certificates: Vec<CertificateDer<'static>>) -> usize {
    roots.add_parsable_certificates(certificates).0
}
