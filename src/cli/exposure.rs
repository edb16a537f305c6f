//! Who may reach the server: beyond this machine, callers must speak TLS.

use std::net::SocketAddr;

use thiserror::Error;
use tokio::net::TcpListener;

/// The server would listen beyond this machine without TLS.
#[derive(Debug, Error)]
#[error(
    "--listen {0} can be reached from other machines, and callers would speak plaintext there: \
     name a certificate with --tls-cert and --tls-key, or listen on 127.0.0.1; if the network \
     protects the callers (a mesh, a policy), say --insecure"
)]
pub(super) struct Exposed(SocketAddr);

/// Refuses an address beyond this machine without TLS, unless that is asked for.
pub(super) fn check(
    listener: &TcpListener,
    has_tls: bool,
    is_insecure: bool,
) -> Result<(), Exposed> {
    match listener.local_addr() {
        Ok(address) if !has_tls && !is_insecure && !address.ip().to_canonical().is_loopback() => {
            Err(Exposed(address))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn plaintext_beyond_this_machine_must_be_asked_for() {
        let everywhere = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let error = check(&everywhere, false, false).unwrap_err().to_string();
        assert!(error.contains("--tls-cert"), "{error}");
        assert!(check(&everywhere, true, false).is_ok());
        assert!(check(&everywhere, false, true).is_ok());
        let here = TcpListener::bind("127.0.0.1:0").await.unwrap();
        assert!(check(&here, false, false).is_ok());
    }
}
