//! Finds out what answers at an address if it is not Tombola. It is asked only after a call has
//! failed without an answer from the service itself.

use std::{
    fmt,
    io::{Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use tonic::{
    Code,
    transport::{Endpoint, Uri},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt as _;

use crate::model::text::visible;

/// How long a connection, a write or a read may take.
const TIME_MAX: Duration = Duration::from_secs(2);
/// The first bytes of an HTTP/2 client (RFC 9113, section 3.4), with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The frame type SETTINGS, and the offset of the type in a frame.
const SETTINGS: u8 = 4;
const TYPE_OFFSET: usize = 3;
/// The first bytes of a TLS alert.
const TLS_ALERT: [u8; 2] = [21, 3];
/// The largest number of characters to show of an answer.
const SHOWN_MAX: usize = 60;

/// What answers at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// HTTP/1.
    Http1,
    /// An error of the Redis protocol.
    Redis,
    /// A server that expects TLS.
    Tls,
    /// HTTP/2 without TLS, though the URL asks for TLS.
    Plaintext,
    /// HTTP/2, most probably gRPC, but with other services.
    OtherService,
    /// Something else: the first line of its answer.
    Says(String),
    /// It closes the connection without an answer.
    Closes,
    /// It does not answer.
    Silent,
}

impl Stranger {
    /// Whether nothing shows what it is: it may be a proxy in front of a Tombola that is gone.
    pub(super) fn says_nothing(&self) -> bool {
        matches!(self, Self::Closes | Self::Silent)
    }
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http1 => f.write_str("an HTTP/1 server answers there"),
            Self::Redis => f.write_str(
                "a Redis answers there (that is for \"tombola serve --redis-url\", not for \
                 --server)",
            ),
            Self::Tls => f.write_str(
                "a server that expects TLS answers there: if it is yours, write https:// instead \
                 of http://",
            ),
            Self::Plaintext => f.write_str(
                "a server without TLS answers there: if it is yours, write http:// instead of \
                 https://",
            ),
            Self::OtherService => f.write_str("another gRPC or HTTP/2 service answers there"),
            Self::Says(line) => write!(f, "what answers there says `{line}`"),
            Self::Closes => f.write_str("what listens there closes the connection at once"),
            Self::Silent => f.write_str("what listens there does not answer"),
        }
    }
}

/// Finds out what answers at `url`; `None` if it is a Tombola, or if nothing listens.
pub(super) async fn at(url: &str) -> Option<Stranger> {
    let uri: Uri = url.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let asked = tokio::task::spawn_blocking(move || first_bytes(&host, port));
    match kind(&asked.await.ok()??) {
        Kind::Http2 if is_tls => Some(Stranger::Plaintext),
        Kind::Stranger(Stranger::Tls | Stranger::Closes) if is_tls => None,
        Kind::Http2 => is_other(url).await.then_some(Stranger::OtherService),
        Kind::Stranger(stranger) => Some(stranger),
    }
}

/// The server's answer to the beginning of an HTTP/2 connection; `None` if there is no server.
fn first_bytes(host: &str, port: u16) -> Option<FirstBytes> {
    let mut addresses = (host, port).to_socket_addrs().ok()?;
    let mut stream =
        addresses.find_map(|address| TcpStream::connect_timeout(&address, TIME_MAX).ok())?;
    stream.set_write_timeout(Some(TIME_MAX)).ok()?;
    stream.set_read_timeout(Some(TIME_MAX)).ok()?;
    // A failed write shows when the answer is read.
    drop(stream.write_all(PREFACE));
    let mut bytes = [0; 512];
    Some(match stream.read(&mut bytes) {
        Ok(0) => FirstBytes::Closed,
        Ok(count) => FirstBytes::Some(bytes[..count].to_vec()),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => FirstBytes::Closed,
        Err(_) => FirstBytes::None,
    })
}

/// The first bytes of a server.
enum FirstBytes {
    Some(Vec<u8>),
    Closed,
    None,
}

/// What those bytes mean.
enum Kind {
    Http2,
    Stranger(Stranger),
}

fn kind(first: &FirstBytes) -> Kind {
    let bytes = match first {
        FirstBytes::Some(bytes) => bytes.as_slice(),
        FirstBytes::Closed => return Kind::Stranger(Stranger::Closes),
        FirstBytes::None => return Kind::Stranger(Stranger::Silent),
    };
    const REDIS: [&[u8]; 5] = [b"-ERR", b"-NOAUTH", b"-DENIED", b"-LOADING", b"-MASTERDOWN"];
    if bytes.starts_with(b"HTTP/") {
        Kind::Stranger(Stranger::Http1)
    } else if REDIS.iter().any(|start| bytes.starts_with(start)) {
        Kind::Stranger(Stranger::Redis)
    } else if bytes.starts_with(&TLS_ALERT) {
        Kind::Stranger(Stranger::Tls)
    } else if bytes.get(TYPE_OFFSET) == Some(&SETTINGS) && bytes[0] == 0 {
        Kind::Http2
    } else {
        let text = String::from_utf8_lossy(bytes);
        let line: String = text.trim().chars().take(SHOWN_MAX).collect();
        let line = visible(line.lines().next().unwrap_or_default());
        Kind::Stranger(Stranger::Says(line.into_owned()))
    }
}

/// Whether an HTTP/2 server does not know our services.
async fn is_other(url: &str) -> bool {
    let Ok(endpoint) = Endpoint::from_shared(url.to_owned()) else {
        return false;
    };
    let endpoint = endpoint.connect_timeout(TIME_MAX).timeout(TIME_MAX);
    let Ok(channel) = endpoint.connect().await else {
        return false;
    };
    let request = HealthCheckRequest {
        service: "tombola.v1.LotteryService".into(),
    };
    match HealthClient::new(channel).check(request).await {
        Ok(_) => false,
        Err(status) => {
            let is_unknown = matches!(
                status.code(),
                Code::Unimplemented | Code::NotFound | Code::Unknown | Code::Internal
            );
            is_unknown && status.get_error_details().error_info().is_none()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_their_first_bytes() {
        let says = |line: &str| Stranger::Says(line.into());
        for (bytes, stranger) in [
            (&b"HTTP/1.1 400 Bad Request\r\n"[..], Stranger::Http1),
            (b"-ERR unknown command 'PRI'\r\n", Stranger::Redis),
            (b"\x15\x03\x01\0\x02\x02\x46", Stranger::Tls),
            (b"SSH-2.0-OpenSSH_9.2\r\n", says("SSH-2.0-OpenSSH_9.2")),
            (b"\xff\x01\n", says("\u{fffd}\\u{1}")),
        ] {
            match kind(&FirstBytes::Some(bytes.to_vec())) {
                Kind::Stranger(found) => assert_eq!(found, stranger),
                Kind::Http2 => panic!("{stranger:?} is taken for HTTP/2"),
            }
        }
        let settings = FirstBytes::Some(b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x80".to_vec());
        assert!(matches!(kind(&settings), Kind::Http2));
    }
}
