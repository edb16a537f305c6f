//! Who may reach the server: beyond this machine, callers must speak TLS and be known.

use std::net::SocketAddr;

use thiserror::Error;
use tokio::net::TcpListener;

/// The server would listen beyond this machine without TLS or without identities.
#[derive(Debug, Error)]
#[error(
    "{0} {1} can be reached from other machines, and {2}, or listen on 127.0.0.1; if the \
     network protects the server and its callers (a mesh, a policy), say --insecure"
)]
pub(super) struct Exposed(&'static str, SocketAddr, &'static str);

/// What protects a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guards {
    /// Callers speak TLS.
    pub(super) has_tls: bool,
    /// Callers are known by an access file.
    pub(super) has_identities: bool,
}

/// Refuses an address beyond this machine without TLS or without identities, unless that is asked
/// for. `option` has named the address.
pub(super) fn check(
    option: &'static str,
    listener: &TcpListener,
    guards: Guards,
    is_insecure: bool,
) -> Result<(), Exposed> {
    let lacking = match guards {
        Guards { has_tls: false, .. } => {
            "callers would speak plaintext there: name a certificate with --tls-cert and --tls-key"
        }
        Guards {
            has_identities: false,
            ..
        } => "everybody there could do everything: name an access file with --access",
        Guards { .. } => return Ok(()),
    };
    check_for(option, lacking, listener, is_insecure)
}

/// Refuses an address of the demo beyond this machine, unless that is asked for: the demo has
/// neither TLS nor identities.
pub(super) fn check_demo(
    option: &'static str,
    listener: &TcpListener,
    is_insecure: bool,
) -> Result<(), Exposed> {
    let lacking = "everybody there could do everything, in plaintext: run `tombola serve` with \
                   --tls-cert, --tls-key and --access";
    check_for(option, lacking, listener, is_insecure)
}

fn check_for(
    option: &'static str,
    lacking: &'static str,
    listener: &TcpListener,
    is_insecure: bool,
) -> Result<(), Exposed> {
    match listener.local_addr() {
        Ok(address) if !is_insecure && !address.ip().to_canonical().is_loopback() => {
            Err(Exposed(option, address, lacking))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guards(has_tls: bool, has_identities: bool) -> Guards {
        Guards {
            has_tls,
            has_identities,
        }
    }

    #[tokio::test]
    async fn what_is_reached_from_elsewhere_without_tls_or_identities_must_be_asked_for() {
        let everywhere = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let here = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for (guards, option) in [
            (guards(false, false), "--tls-cert"),
            (guards(false, true), "--tls-cert"),
            (guards(true, false), "--access"),
        ] {
            let error = check("--listen", &everywhere, guards, false)
                .unwrap_err()
                .to_string();
            assert!(error.contains(option), "{error}");
            assert!(check("--listen", &everywhere, guards, true).is_ok());
            assert!(check("--listen", &here, guards, false).is_ok());
        }
        assert!(check("--listen", &everywhere, guards(true, true), false).is_ok());
        let error = check_demo("--listen", &everywhere, false)
            .unwrap_err()
            .to_string();
        assert!(error.contains("`tombola serve`"), "{error}");
        assert!(
            check_demo("--listen", &everywhere, true).is_ok()
                && check_demo("--listen", &here, false).is_ok()
        );
    }
}
