//! TLS: for callers, for the connections to Redis and PostgreSQL, and for requests to issuers of
//! tokens.
//!
//! Certificates, keys and authorities come from files. Their contents are read again and again
//! ([`files`]), so a new certificate needs no restart. A certificate and its key are one pair: a
//! pair that does not fit together changes nothing, and log and metrics say so.
//!
//! It knows certificates and handshakes. It must not know what callers may do: it only says who
//! they are ([`Peer`]).

mod client;
mod exchange;
mod files;
mod peer;
mod pem;
mod server;

pub(crate) use self::{
    client::{ClientMaterial, ClientTls, Names},
    exchange::exchange,
    files::{File, Watched},
    server::{Caller, ClientAuth, ClientFiles, HTTP2, ServerFiles},
};
pub use self::{files::TlsError, peer::Peer, server::ServerTls};

/// Makes *ring* the process's provider of cryptography. Libraries that ask for the default get it.
pub fn install_provider() {
    // A second call finds the same provider installed.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
}
