//! The address that a server listens on: an IP address or a host name, and a port.

use std::{
    fmt, fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use thiserror::Error;
use tokio::net::{TcpListener, lookup_host};

/// An address to listen on. A host name is resolved when the address is bound.
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
    // Digits and dots alone are an invalid IP address, not a host name.
    let is_number = name.chars().all(|c| c.is_ascii_digit() || c == '.');
    !is_number && name.split('.').all(is_name) && port.parse::<u16>().is_ok()
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error of an address that cannot be bound.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: {}", hint(.cause, *.holder, .option))]
pub(super) struct BindError {
    address: Listen,
    cause: io::Error,
    holder: Holder,
    /// The option that named the address.
    option: &'static str,
}

impl Listen {
    /// Resolves the name, and binds its first address that can be bound. Errors name the option.
    pub(super) async fn bind(&self, option: &'static str) -> Result<TcpListener, BindError> {
        let mut addresses = Vec::new();
        let bound = match lookup_host(&self.0).await {
            Ok(found) => {
                addresses.extend(found);
                // IPv4 first: clients connect to 127.0.0.1 by default.
                addresses.sort_by_key(SocketAddr::is_ipv6);
                TcpListener::bind(addresses.as_slice()).await
            }
            Err(error) => Err(error),
        };
        bound.map_err(|cause| BindError {
            address: self.clone(),
            holder: holder(&addresses),
            option,
            cause,
        })
    }
}

/// What uses an address already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// A program listens there.
    Listener,
    /// A connection to elsewhere uses it as its local port, which the system chose among the free
    /// ones.
    Connection,
    /// The system does not say.
    Unknown,
}

/// Finds out what uses one of these addresses, from the kernel's socket tables (`proc(5)`).
fn holder(addresses: &[SocketAddr]) -> Holder {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    let in_the_way = lines.filter_map(Socket::parse).filter(|socket| {
        let overlaps = |address: &SocketAddr| socket.overlaps(*address);
        addresses.iter().any(overlaps)
    });
    let mut holder = Holder::Unknown;
    for socket in in_the_way {
        match socket.state {
            Socket::LISTEN => return Holder::Listener,
            Socket::TIME_WAIT => {} // such a port can be bound
            _ => holder = Holder::Connection,
        }
    }
    holder
}

/// A socket in the kernel's tables.
struct Socket {
    ip: IpAddr,
    port: u16,
    state: u8,
}

impl Socket {
    const LISTEN: u8 = 0x0a;
    const TIME_WAIT: u8 = 0x06;

    /// Parses `0: 0100007F:C383 00000000:0000 0A …`: index, local address, remote address, state.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace().skip(1);
        let (ip, port) = fields.next()?.split_once(':')?;
        let state = fields.nth(1)?;
        Some(Self {
            ip: parse_ip(ip)?,
            port: u16::from_str_radix(port, 16).ok()?,
            state: u8::from_str_radix(state, 16).ok()?,
        })
    }

    fn overlaps(&self, address: SocketAddr) -> bool {
        let (one, other) = (self.ip.to_canonical(), address.ip().to_canonical());
        let is_any = one.is_unspecified() || other.is_unspecified();
        self.port == address.port() && (is_any || one == other)
    }
}

/// Parses an address: hexadecimal words of 32 bits in this machine's byte order.
fn parse_ip(digits: &str) -> Option<IpAddr> {
    let word = |index: usize| {
        let word = u32::from_str_radix(digits.get(index * 8..index * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match digits.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (index, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(index)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

fn hint(cause: &io::Error, holder: Holder, option: &str) -> String {
    match cause.kind() {
        io::ErrorKind::AddrInUse => match holder {
            Holder::Listener => format!(
                "another program listens there; stop it, or name another address with {option}"
            ),
            Holder::Connection => format!(
                "no program listens there, but a connection to elsewhere uses it as its local \
                 port; wait until that connection ends, or name another port with {option} (one \
                 that the system does not give to connections: see \
                 /proc/sys/net/ipv4/ip_local_port_range)"
            ),
            Holder::Unknown => format!(
                "another program has this port; stop it, or name another address with {option}"
            ),
        },
        io::ErrorKind::PermissionDenied => {
            format!("it is not permitted; name a port above 1023 with {option}")
        }
        _ => format!("{cause}; name an address of this machine with {option}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_and_addresses_are_bound() {
        for text in ["127.0.0.1:0", "localhost:0"] {
            let listen: Listen = text.parse().unwrap();
            let bound = listen.bind("--listen").await.unwrap().local_addr().unwrap();
            assert!(bound.ip().is_loopback(), "{text}: {bound}");
        }
        for text in ["[::1]:50051", "tombola.internal:50051", "host-1:1"] {
            assert_eq!(
                text.parse().as_ref().map(Listen::to_string),
                Ok(text.into())
            );
        }
    }

    #[tokio::test]
    async fn the_user_of_a_port_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connection = std::net::TcpStream::connect(address).unwrap();
        for (taken, word) in [
            (address, "another program listens there"),
            (connection.local_addr().unwrap(), "no program listens there"),
        ] {
            for listen in [taken.to_string(), format!("0.0.0.0:{}", taken.port())] {
                let listen: Listen = listen.parse().unwrap();
                let error = listen.bind("--listen").await.unwrap_err().to_string();
                assert!(error.contains(word), "{listen}: {error}");
            }
        }
    }

    #[test]
    fn sockets_are_read_from_the_tables_of_the_kernel() {
        let line =
            "   1: 0100007F:C383 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000";
        let socket = Socket::parse(line).unwrap();
        assert_eq!((socket.port, socket.state), (50_051, Socket::LISTEN));
        if cfg!(target_endian = "little") {
            assert_eq!(socket.ip, IpAddr::from([127, 0, 0, 1]));
            let any = "0: 0000000000000000FFFF00000100007F:C383 0:0 01";
            let socket = Socket::parse(any).unwrap();
            assert!(socket.overlaps("127.0.0.1:50051".parse().unwrap()));
            assert!(!socket.overlaps("127.0.0.2:50051".parse().unwrap()));
        }
        assert!(Socket::parse("  sl  local_address rem_address   st").is_none());
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
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains("localhost:50051"), "{text}");
        }
    }
}
