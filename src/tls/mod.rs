//! TLS: who is at the other end of a connection.

mod peer;

pub use self::peer::Peer;
