//! Where a server listens: an IP address or the name of a host, and a port.

use std::{fmt, io, net::SocketAddr, str::FromStr};

use thiserror::Error;
use tokio::net::{TcpListener, lookup_host};

/// An address to listen on. A name is looked up when it is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listen(String);

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.parse::<SocketAddr>().is_ok() || is_name_and_port(text) {
            Ok(Self(text.into()))
        } else {
            Err("write a host and a port, e.g. 127.0.0.1:50051, localhost:50051 or [::1]:50051")
        }
    }
}

fn is_name_and_port(text: &str) -> bool {
    let Some((name, port)) = text.rsplit_once(':') else {
        return false;
    };
    let is_name = |label: &str| {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !label.is_empty() && label.chars().all(letters)
    };
    // All digits and dots is an IP address that is wrong.
    let is_number = name.chars().all(|c| c.is_ascii_digit() || c == '.');
    !is_number && name.split('.').all(is_name) && port.parse::<u16>().is_ok()
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An address that cannot be listened on.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: {}", hint(.cause))]
pub(super) struct BindError {
    address: Listen,
    cause: io::Error,
}

impl Listen {
    /// Looks a name up and binds its first address that can be bound.
    pub(super) async fn bind(&self) -> Result<TcpListener, BindError> {
        self.try_bind().await.map_err(|cause| BindError {
            address: self.clone(),
            cause,
        })
    }

    async fn try_bind(&self) -> io::Result<TcpListener> {
        let mut addresses: Vec<SocketAddr> = lookup_host(&self.0).await?.collect();
        // IPv4 first: clients look for 127.0.0.1 where they are told nothing.
        addresses.sort_by_key(SocketAddr::is_ipv6);
        TcpListener::bind(addresses.as_slice()).await
    }
}

fn hint(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there; stop it, or name another address with --listen".into()
        }
        io::ErrorKind::PermissionDenied => {
            "it is not permitted; name a port above 1023 with --listen".into()
        }
        _ => format!("{cause}; name an address of this machine with --listen"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_and_addresses_are_bound() {
        for text in ["127.0.0.1:0", "localhost:0"] {
            let listen: Listen = text.parse().unwrap();
            let bound = listen.bind().await.unwrap().local_addr().unwrap();
            assert!(bound.ip().is_loopback(), "{text}: {bound}");
        }
        for text in ["[::1]:50051", "tombola.internal:50051", "host-1:1"] {
            assert_eq!(
                text.parse().as_ref().map(Listen::to_string),
                Ok(text.into())
            );
        }
    }

    #[test]
    fn a_malformed_address_is_refused_with_one_that_is_right() {
        for text in [
            "",
            "nowhere",
            ":50051",
            "50051",
            "localhost:",
            "localhost:grpc",
            "127.0.0.1:70000",
            "127.0.0.300:50051",
            "::1:50051",
            "http://localhost:50051",
            "a b:1",
            "a..b:1",
        ] {
            let told = text.parse::<Listen>().unwrap_err();
            assert!(told.contains("localhost:50051"), "{text}");
        }
    }
}
